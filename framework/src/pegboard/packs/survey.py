"""What becomes of each installed pack, decided from static metadata and configuration alone; nothing is imported."""

import graphlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pegboard.config.layers import Config
from pegboard.packs.commands import KERNEL_COMMANDS
from pegboard.packs.discovery import Distribution

State = Literal["enabled", "active", "disabled", "failed", "waiting"]


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack and what became of it. `enabled` means it will be loaded; `active` that it was.

    `reason` says why it is not active; `decided_by` which file and line, variable or option said so. `needs` are the
    packs without which this one waits.
    """

    name: str
    state: State
    distribution: Distribution
    reference: str
    reason: str = ""
    decided_by: str = "default"
    needs: tuple[str, ...] = ()

    def failed(self, reason: str) -> "Pack":
        """Return the pack in state failed, with its reason."""
        return replace(self, state="failed", reason=reason)

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `pegboard packs list --json`."""
        return {
            "name": self.name,
            "state": self.state,
            "reason": self.reason or None,
            "distribution": self.distribution.name,
            "version": self.distribution.version,
            "decided_by": self.decided_by,
        }


def survey(distributions: Iterable[Distribution], config: Config) -> tuple[Pack, ...]:
    """Return every installed pack in load order: what a pack needs comes first, then by name."""
    packs = _named_packs(distributions)
    by_distribution = {pack.distribution.name: name for name, pack in packs.items()}
    for name, pack in packs.items():
        needs = [by_distribution[other] for other in pack.distribution.requires if other in by_distribution]
        packs[name] = replace(_decide(pack, config), needs=tuple(other for other in needs if other != name))
    states = {name: pack.state for name, pack in packs.items()}
    surveyed: list[Pack] = []
    for pack in _refuse_second_claims(_in_load_order(packs, by_distribution), tool_owners(config, packs)):
        surveyed.append(hold_back(pack, states))
        states[pack.name] = surveyed[-1].state
    return tuple(surveyed)


def tool_owners(config: Config, packs: Collection[str]) -> dict[str, str]:
    """Return the tool names that the user gave to one of the installed packs in `[tools.owner]` (rule 4)."""
    owners = config.table("tools", "owner")
    return {tool: pack for tool, pack in owners.items() if isinstance(pack, str) and pack in packs}


def hold_back(pack: Pack, states: Mapping[str, State]) -> Pack:
    """Return the pack as waiting if one that it needs is neither enabled nor active in `states`."""
    if pack.state == "enabled":
        for name in pack.needs:
            if states[name] not in ("enabled", "active"):
                return replace(pack, state="waiting", reason=f"it needs pack `{name}`, which is {states[name]}")
    return pack


def _named_packs(distributions: Iterable[Distribution]) -> dict[str, Pack]:
    """Give every distribution a name of its own: those in order first, by distribution name.

    One that is refused, or whose pack name is taken, gets the name it declares if that is free, else its own.
    """
    packs: dict[str, Pack] = {}
    refused: list[Distribution] = []
    for distribution in sorted(distributions, key=lambda distribution: distribution.name):
        name, reference = distribution.pack or ("", "")
        if distribution.problem is None and name not in packs:
            packs[name] = Pack(name, "enabled", distribution, reference)
        else:
            refused.append(distribution)
    for distribution in refused:
        name, reference = distribution.pack or (distribution.name, "")
        reason = distribution.problem or (
            f"conflict: pack `{name}` is already declared by {packs[name].distribution.name}"
        )
        name = name if name not in packs else distribution.name
        while name in packs:
            name += "-distribution"
        packs[name] = Pack(name, "failed", distribution, reference, reason)
    return packs


def _decide(pack: Pack, config: Config) -> Pack:
    setting = config.get("packs", pack.name, "enabled")
    if setting is None:
        default = config.get("packs", "default")
        if default is None or default.value == "on":
            return pack
        reason = f"by {default.where}, where packs are off by default"
        return replace(pack, state="disabled", reason=reason, decided_by=default.where)
    if setting.value is False:
        return replace(pack, state="disabled", reason=f"by {setting.where}", decided_by=setting.where)
    if setting.value is True:
        return replace(pack, decided_by=setting.where)
    return replace(pack.failed("`enabled` must be true or false"), decided_by=setting.where)


def _refuse_second_claims(packs: Iterable[Pack], tool_owners: Mapping[str, str]) -> Iterator[Pack]:
    """Fail a pack that claims a tool or command name which an earlier pack, or the kernel, has (rule 4).

    Where the user says whose a tool is, the others stay and go without it.
    """
    owners: dict[tuple[str, str], Pack | None] = {("command", name): None for name in KERNEL_COMMANDS}
    for pack in packs:
        names = [("tool", name) for name in pack.distribution.tools if name not in tool_owners]
        names += [("command", name) for name in pack.distribution.commands]
        for claim in names if pack.state != "failed" else ():
            owner = owners.setdefault(claim, pack)
            if owner is not pack and pack.state == "enabled":
                told = f"conflict: {claim[0]} `{claim[1]}` belongs to `{owner.name if owner else 'pegboard'}`"
                yield pack.failed(told)
                break
        else:
            yield pack


def _in_load_order(packs: Mapping[str, Pack], by_distribution: Mapping[str, str]) -> Iterator[Pack]:
    """Yield what a pack needs before it, then by name; what it names under an extra goes before it where it can.

    Packs that need each other fail.
    """
    left = dict(packs)
    needed = {name: {other for other in pack.needs if _binds(pack, other, left)} for name, pack in left.items()}
    wished = {name: _wishes(pack, left, by_distribution) for name, pack in left.items()}
    awaited_by: dict[str, list[str]] = {}
    for name in left:
        for other in needed[name] | wished[name]:
            awaited_by.setdefault(other, []).append(name)
    ready = [(bool(wished[name]), name) for name in left if not needed[name]]
    heapq.heapify(ready)
    while left:
        if not ready:
            placed = list(_fail_a_cycle(left, needed))
            yield from placed
        else:
            waits, name = heapq.heappop(ready)
            if name not in left or waits != bool(wished[name]):
                continue
            placed = [left.pop(name)]
            yield placed[0]
        for pack in placed:
            for name in awaited_by.get(pack.name, ()):
                needed[name].discard(pack.name)
                wished[name].discard(pack.name)
                if name in left and not needed[name]:
                    heapq.heappush(ready, (bool(wished[name]), name))


def _binds(pack: Pack, other: str, left: Mapping[str, Pack]) -> bool:
    """Whether a need holds a pack back in the order; what is off or failed anyway binds nobody."""
    return pack.state == "enabled" and other in left and left[other].state == "enabled"


def _wishes(pack: Pack, left: Mapping[str, Pack], by_distribution: Mapping[str, str]) -> set[str]:
    names = (by_distribution.get(other) for other in pack.distribution.orders_after)
    return {name for name in names if name is not None and name in left and name != pack.name}


def _fail_a_cycle(left: dict[str, Pack], needed: Mapping[str, set[str]]) -> Iterator[Pack]:
    try:
        graphlib.TopologicalSorter({name: sorted(needed[name]) for name in left}).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1][:-1][::-1]
        start = cycle.index(min(cycle))
        cycle = cycle[start:] + cycle[:start]
        chain = " needs ".join(f"`{name}`" for name in [*cycle, cycle[0]])
        for name in sorted(cycle):
            yield left.pop(name).failed(f"packs need each other: {chain}")
