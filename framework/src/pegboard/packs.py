"""What becomes of each installed pack, decided from static metadata and configuration alone; nothing is imported."""

import graphlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pegboard.commands import KERNEL_COMMANDS
from pegboard.config import Config, Setting
from pegboard.discovery import Distribution

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
    packs: dict[str, Pack] = {}
    for distribution in distributions:
        name, reference = distribution.pack or (distribution.name, "")
        if holder := packs.get(name):
            clash = f"conflict: pack `{name}` is already declared by {holder.distribution.name}"
            distribution = replace(distribution, problem=distribution.problem or clash)
            name = distribution.name
        packs[name] = _decide(Pack(name, "enabled", distribution, reference), config)
    named = {pack.distribution.name: pack.name for pack in packs.values()}
    for pack in packs.values():
        needs = tuple(named[name] for name in pack.distribution.requires if name in named)
        packs[pack.name] = replace(pack, needs=needs)
    states: dict[str, State] = {}
    surveyed: list[Pack] = []
    for pack in _refuse_second_claims(_in_load_order(packs, named)):
        surveyed.append(hold_back(pack, states))
        states[pack.name] = surveyed[-1].state
    return tuple(surveyed)


def hold_back(pack: Pack, states: Mapping[str, State]) -> Pack:
    """Return the pack as waiting if one that it needs is neither enabled nor active in `states`."""
    if pack.state == "enabled":
        for name in pack.needs:
            if states.get(name) not in ("enabled", "active"):
                reason = f"it needs pack `{name}`, which is {states.get(name, 'not loaded')}"
                return replace(pack, state="waiting", reason=reason)
    return pack


def _decide(pack: Pack, config: Config) -> Pack:
    if pack.distribution.problem:
        return pack.failed(pack.distribution.problem)
    setting = config.get("packs", pack.name, "enabled")
    if setting is None or setting.value is True:
        return replace(pack, decided_by=_where(setting))
    if setting.value is False:
        return replace(pack, state="disabled", reason=f"by {setting.where}", decided_by=setting.where)
    return replace(pack.failed("`enabled` must be true or false"), decided_by=setting.where)


def _refuse_second_claims(packs: Iterable[Pack]) -> Iterator[Pack]:
    """Fail a pack that claims a tool or command name which an earlier pack, or the kernel, has (rule 4)."""
    owners = {("command", name): "pegboard" for name in KERNEL_COMMANDS}
    for pack in packs:
        names = [("tool", name) for name in pack.distribution.tools]
        names += [("command", name) for name in pack.distribution.commands]
        for kind, name in names:
            owner = owners.setdefault((kind, name), pack.name)
            if owner != pack.name and pack.state == "enabled":
                pack = pack.failed(f"conflict: {kind} `{name}` belongs to `{owner}`")
        yield pack


def _where(setting: Setting | None) -> str:
    return setting.where if setting else "default"


def _in_load_order(packs: dict[str, Pack], named: dict[str, str]) -> list[Pack]:
    """Sort so that what a pack needs, or names under an extra, comes first; packs that need each other fail."""
    ordered: list[Pack] = []
    left = dict(packs)
    while left:
        graph = {name: _predecessors(pack, left, named) for name, pack in left.items()}
        sorter = graphlib.TopologicalSorter(graph)
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            cycle = set(error.args[1])
            chain = " needs ".join(f"`{name}`" for name in reversed(error.args[1]))
            ordered.extend(left.pop(name).failed(f"packs need each other: {chain}") for name in sorted(cycle))
            continue
        while sorter.is_active():
            for name in sorted(sorter.get_ready()):
                ordered.append(left.pop(name))
                sorter.done(name)
    return ordered


def _predecessors(pack: Pack, left: dict[str, Pack], named: dict[str, str]) -> list[str]:
    distribution = pack.distribution
    names = [named[name] for name in (*distribution.requires, *distribution.orders_after) if name in named]
    return [name for name in names if name in left and name != pack.name]
