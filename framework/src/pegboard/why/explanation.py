"""Why a tool is, or is not, offered to an agent: whoever may say no (DESIGN §3.2), each with what decided."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

from pegboard.base.isolation import current_pack
from pegboard.base.text import did_you_mean, one_line
from pegboard.calls.policy import KERNEL_PACK
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.packs.survey import tool_owners
from pegboard.values.prompts import Prompt, Section
from pegboard.why.switched_off import lines_that_disable, lines_that_list_off

if TYPE_CHECKING:
    from pegboard.agents.agent import Agent
    from pegboard.config.layers import Config
    from pegboard.packs.survey import Pack
    from pegboard.tools.snapshot import Offered, Restriction, Snapshot, ToolFilters

Kind = Literal["pack state", "config", "exposure", "grant", "restriction", "guard", "permission rule"]
NOBODY: Final = "no installed pack brings a tool of that name"


@dataclass(frozen=True, slots=True)
class Reason:
    """One voice in whether a tool is offered. `source` is a file with line, a variable, an option, a pack or an agent.

    `mend` says how to take the reason away: a command, or what to change where; empty where nothing can.
    """

    kind: Kind
    text: str
    source: str
    mend: str = ""

    def as_json(self) -> dict[str, str]:
        """The stable shape in `pegboard why --json`."""
        return {"kind": self.kind, "text": self.text, "source": self.source}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a tool is offered, and why: what hides it, or who is asked when it is called.

    Reasons stand in the order of their kinds. `entry` is the tool where it is known, whether or not it is offered.
    """

    tool: str
    offered: bool
    reasons: tuple[Reason, ...]
    entry: "Offered | None" = None

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `pegboard why --json`."""
        return {"tool": self.tool, "offered": self.offered, "reasons": [reason.as_json() for reason in self.reasons]}


async def explain(agent: "Agent", name: str) -> Explanation:
    """Return whether the agent would be offered the tool, and why: what hides it, or who is asked at each call.

    Raises:
        HookFailure: a pack failed while the prompt was assembled.
    """
    return (await Explainer.of(agent)).explain(name)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Answers for one agent and one snapshot of it; `left_out` are the packs that omit a name in `assemble_prompt`."""

    agent: "Agent"
    snapshot: "Snapshot"
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    async def of(cls, agent: "Agent") -> "Explainer":
        """Take a snapshot as a run that began now would; nothing is recorded.

        Raises:
            HookFailure: a pack failed while the prompt was assembled.
        """
        snapshot = await agent.host.preview(agent)
        hidden = set(agent.view().filtering.known) - set(snapshot.names)
        return cls(agent, snapshot, await _left_out(agent) if hidden else {})

    def names(self) -> tuple[str, ...]:
        """Return every name that is known: of tools, offered or hidden, and those that packs which are off reserve."""
        reserved = chain.from_iterable(pack.distribution.tools for pack in self.agent.host.packs)
        return tuple(sorted({*self._sieve.known, *self.snapshot.names, *reserved}))

    def explain(self, name: str) -> Explanation:
        """Say why the agent is, or is not, offered the tool of that name."""
        offered = self.snapshot.get(name)
        if offered is not None:
            return Explanation(name, True, tuple(self._asked(offered)), offered)
        entry = self._sieve.known.get(name)
        reasons = (
            *(self._packs(name) if entry is None else ()),
            *self._config(name),
            *_exposure(entry),
            *(_grants(self.agent, name) if entry is None or not entry.passes(self.agent.grant) else ()),
            *self._restrictions(name),
        )
        return Explanation(name, False, reasons or (_CAME_LATER,), entry)

    def pack_of(self, name: str) -> str:
        """Return the pack whose tool it is or would be; "" for the program's own, and where nobody knows."""
        if entry := self._sieve.known.get(name):
            return entry.pack
        claims = [pack.name for pack in self._claims(name)]
        return claims[0] if claims else ""

    def _claims(self, name: str) -> "list[Pack]":
        """Return the packs that may bring the tool: the one that the user gave the name to, else who reserves it."""
        packs = {pack.name: pack for pack in self.agent.host.packs}
        owner = tool_owners(self.agent.host.config, packs).get(name)
        return [packs[owner]] if owner else [pack for pack in packs.values() if name in pack.distribution.tools]

    @property
    def _sieve(self) -> "ToolFilters":
        return self.agent.view().filtering

    # -- who hides it

    def _packs(self, name: str) -> Iterator[Reason]:
        claims = self._claims(name)
        owner = self.agent.host.config.get("tools", "owner", name)
        if not claims:
            servers = "; tools of servers have such names, known while they are connected" * name.startswith("mcp__")
            near = did_you_mean(name, set(self.names()) - {name})
            yield Reason("pack state", f"{NOBODY}{servers}{near}", "installed packs")
        elif owner is not None and owner.value == claims[0].name and claims[0].state == "active":
            told = f"[tools.owner] gives the name to pack `{owner.value}`, which brings no such tool"
            yield Reason("config", told, owner.where, f"remove {owner.where}")
        else:
            yield from self._states(claims, name)

    def _states(self, claims: "list[Pack]", name: str) -> Iterator[Reason]:
        """Say what became of the packs, and of those without which they wait."""
        host = self.agent.host
        packs = {pack.name: pack for pack in host.packs}
        told: dict[str, Pack] = {}
        while claims:
            pack = claims.pop(0)
            told[pack.name] = pack
            claims += [packs[need] for need in pack.needs if packs[need].state != "active" and need not in told]
        for pack in told.values():
            yield from _state(pack, name, host.config, str(host.places.config_file))

    def _config(self, name: str) -> Iterator[Reason]:
        if self._sieve.is_off(name):
            for where, mend in lines_that_list_off(self.agent.host.config, name):
                yield Reason("config", "[tools] off names it", where, mend)

    def _restrictions(self, name: str) -> Iterator[Reason]:
        for restriction in dict.fromkeys(self._sieve.restricting(name)):
            yield self._restriction(restriction.pack, _how(restriction, name))
        for pack in self.left_out.get(name, ()):
            yield self._restriction(pack, "leaves it out of the prompt")

    def _restriction(self, pack: str, how: str) -> Reason:
        required = self.agent.host.config.get("packs", pack, "required")
        if not pack:
            mend = ""
        elif required and required.value is True:
            mend = f"change the settings of pack {pack}"
        else:
            mend = f"pegboard packs disable {pack} (or change its settings)"
        return Reason("restriction", f"{source_of(pack)} {how}", source_of(pack), mend)

    # -- who is asked

    def _asked(self, offered: "Offered") -> Iterator[Reason]:
        services = self.agent.services
        guards = services.dispatcher.plan("guard_tool_call", self.agent.scope)
        for pack in dict.fromkeys(one.pack for one in guards if one.pack != KERNEL_PACK):
            told = f"{source_of(pack)} is asked about every call, and may refuse it or ask a person"
            yield Reason("guard", told, source_of(pack))
        if offered.tool.effect != "write":
            return
        yield Reason("guard", "asks a person before what git, CI or Pegboard takes orders from is written", KERNEL_PACK)
        packs = self.agent.host.packs
        if not any(pack.state == "active" and pack.distribution.claims_policy for pack in packs):
            told = "asks: no policy pack decides about writes; --allow-writes says yes for one run"
            yield Reason("permission rule", told, KERNEL_PACK)


_CAME_LATER: Final = Reason(
    "pack state", "it came after this snapshot was taken, or was left out this once; the next message may have it", ""
)


def source_of(pack: str) -> str:
    """Say where something comes from, for people; "" is the program."""
    return f"pack {pack}" if pack else "this program"


def _state(pack: "Pack", name: str, config: "Config", file: str) -> Iterator[Reason]:
    told = f"pack `{pack.name}` is {pack.state}"
    lines = list(lines_that_disable(config, pack.name)) if pack.state == "disabled" else []
    if lines:
        for line in lines:
            yield Reason("pack state", f"{told}: {line.setting}", line.where, line.mend)
    elif pack.state == "active":
        yield Reason("pack state", f"{told}, but has not registered it", source_of(pack.name), _doctor(pack))
    elif f"tool `{name}`" in pack.reason and pack.reason.startswith("conflict"):
        mend = f'write {name} = "{pack.name}" under [tools.owner] in {file}'
        yield Reason("pack state", f"{told}: {pack.reason}", pack.decided_by, mend)
    else:
        mend = _doctor(pack) if pack.state == "failed" else ""
        yield Reason("pack state", f"{told}: {pack.reason}", pack.decided_by, mend)


def _doctor(pack: "Pack") -> str:
    return f"pegboard packs doctor {pack.name}"


def _exposure(entry: "Offered | None") -> Iterator[Reason]:
    if entry is not None and not entry.shown:
        whose = {"diagnostic": "for diagnosis", "runtime-only": "for the runtime alone"}[entry.tool.exposure]
        yield Reason("exposure", f"it is {entry.tool.exposure}: {whose}, never for a model", entry.source)


def _grants(agent: "Agent", name: str) -> Iterator[Reason]:
    """Say whose list does not name it: the agent's own, and its parent's, which no child's reaches beyond."""
    if agent.grant is None or name in agent.grant:
        return
    listed, parent = agent.definition.tools, agent.parent
    above = parent.grant if parent else None
    if listed is not None and agent.grant == (frozenset(listed) if above is None else above.intersection(listed)):
        if name not in listed:
            where = _definition(agent)
            mend = f"add `{one_line(name, 80)}` to agents.{agent.name}.tools ({where})" if where else ""
            yield Reason("grant", f"`tools` of agent `{agent.name}` does not name it", where or "this program", mend)
    else:
        by = f"its parent `{parent.name}` ({parent.id})" if parent else "this program"
        told = f"the grant that `{agent.name}` has from {by} does not name it"
        yield Reason("grant", told, f"agent {parent.id}" if parent else by)
    if parent is not None:
        yield from _grants(parent, name)


def _definition(agent: "Agent") -> str:
    """Return where the configuration lists the agent's tools, or nothing if its definition is the program's."""
    setting = agent.host.config.get("agents", agent.name, "tools")
    same = setting is not None and agent.host.definition(agent.name).tools == agent.definition.tools
    return setting.where if setting and same else ""


def _how(restriction: "Restriction", name: str) -> str:
    whom = one_line(restriction.scope, 60) or "the agent"
    return f"hides it from {whom}" if name in restriction.deny else f"restricts {whom} to other tools"


async def _left_out(agent: "Agent") -> dict[str, tuple[str, ...]]:
    """Return, for each tool that packs leave out in `assemble_prompt`, all packs that do.

    The hook is run once more, and what one pack omits is restored before the next is asked: so every pack that omits
    a tool is found, not only the first.
    """
    names = tuple(sorted(agent.view().filtering.known))
    found: dict[str, dict[str, None]] = {}

    def note(before: Prompt, answer: object) -> Prompt:
        if not isinstance(answer, Prompt):
            return before
        for name in set(before.tools) - set(answer.tools):
            found.setdefault(name, {})[current_pack.get()] = None
        return replace(answer, tools=before.tools)

    given = Prompt("snapshot", (Section("definition", agent.definition.prompt),), names)
    with suppress(HookFailure):  # it did not fail a moment ago; what was found so far is true
        await agent.services.dispatcher.fold("assemble_prompt", agent.scope, given, note, agent)
    return {name: tuple(packs) for name, packs in found.items()}
