"""All servers of one host: which there are, which may be connected, and their tools on the host's own layer."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from pegboard import Host, PegboardError, Run, Tool, ToolContext, UsageError, one_line
from pegboard.schemas import UnsupportedSchema

from pegboard_mcp.calls import call_tool
from pegboard_mcp.connection import Connection
from pegboard_mcp.foreign import foreign_tool
from pegboard_mcp.ledger import TOO_MANY, Change, Ledger, Page
from pegboard_mcp.listing import Definition, Dropped, Listing
from pegboard_mcp.results import output_of
from pegboard_mcp.servers import Server
from pegboard_mcp.settings import ServerSettings, Settings

PACK: Final = "mcp"


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a server is not to be connected: it is switched off, or asks for a person's yes."""

    state: Literal["off", "asks"]
    reason: str


class Offer:
    """One server with its connection, if it may have one, and what of its tools is offered.

    `barred` says why it is not to be connected, if it is not. `notes` tell what is offered, but not fully checked.
    """

    def __init__(self, server: Server, barred: Barred | None = None) -> None:
        self.server = server
        self.barred = barred
        self.connection: Connection | None = None
        self.dropped: tuple[Dropped, ...] = ()
        self.notes: tuple[Dropped, ...] = ()
        self.changes: tuple[Change, ...] = ()
        self.definitions: Mapping[str, Definition] = {}
        self.tools: dict[str, tuple[Tool, Any]] = {}

    @property
    def state(self) -> str:
        """`ready` to be connected, `connecting`, `up`, `down`, `unusable`, or `off`, or `asks` for a person's yes."""
        if self.barred is not None:
            return self.barred.state
        return "ready" if self.connection is None else self.connection.state

    @property
    def reason(self) -> str:
        """Why it is not up."""
        if self.barred is not None:
            return self.barred.reason
        return self.connection.reason if self.connection else ""


class Hub:
    """Finds the servers of a host, connects them once, and keeps their tools registered while the host lives."""

    def __init__(self, host: Host, settings: Settings) -> None:
        self._host = host
        self._settings = settings
        self.ledger = Ledger(host.state_dir(PACK))
        self.offers: dict[str, Offer] = {}
        self.notices: list[str] = []
        self._finding = asyncio.Lock()
        self._found = False
        self._told = False

    # -- which servers there are

    async def find(self) -> None:
        """Ask the configuration and the packs for their servers, once."""
        async with self._finding:
            if self._found:
                return
            found = {name: self._configured(name, one) for name, one in self._settings.servers.items()}
            for pack, brought in await self._host.call_hook("mcp_servers", self._host):
                self._bring(found, pack, brought)
            self.offers = found
            self._found = True

    def _configured(self, name: str, one: ServerSettings) -> Offer:
        setting = self._host.config.get("packs", PACK, "servers", name)
        source = setting.where if setting else "the configuration"
        if not one.enabled:
            unknown = Server.stdio(name, "-")  # it may have no more than its name there
            return Offer(replace(unknown, source=source), Barred("off", f"switched off in {source}"))
        server = replace(one.server(name), source=source)
        if self._of_project(name) and not self._host.consents.given(_subject(name), server.hash):
            told = f"it is this project's, and you have not agreed to it: pegboard mcp accept {name}"
            return Offer(server, Barred("asks", told))
        return Offer(server)

    def _bring(self, found: dict[str, Offer], pack: str, brought: object) -> None:
        if not isinstance(brought, Server):
            self.notices.append(f"pack {pack} brought {type(brought).__name__}, which is no Server")
        elif (other := found.get(brought.name)) is None:
            found[brought.name] = Offer(replace(brought, pack=pack, source=f"pack {pack}"))
        elif other.server.pack:
            told = f"pack {pack} brings a server `{brought.name}`, too; that of pack {other.server.pack} counts"
            self.notices.append(told)

    def _of_project(self, name: str) -> bool:
        """Whether any part of a server stands in the project's file."""
        path = ("packs", PACK, "servers", name)
        return any(layer.kind == "project" and layer.at(path) is not None for layer in self._host.config.layers)

    def consent(self, server: Server) -> None:
        """Record that a person agrees to a project's server, as it is configured now."""
        self._host.consents.give(_subject(server.name), server.hash)
        self.offers[server.name].barred = None

    # -- connecting

    async def connect(self, run: Run | None = None, only: Iterable[str] | None = None) -> None:
        """Connect what is not connected yet, all at once, and wait until of each it is known whether it can be reached.

        What is not ready when the run can't wait any longer goes on, and its tools come with the next message.
        """
        await self.find()
        chosen = [offer for name, offer in self.offers.items() if only is None or name in only]
        begun = [offer for offer in chosen if offer.state == "ready"]
        for offer in begun:
            self._begin(offer)
        if run is not None:
            self._tell(run, begun)
        if waiting := [offer for offer in chosen if offer.connection and not offer.connection.settled.is_set()]:
            await asyncio.gather(*(self._settle(offer, run) for offer in waiting))

    def _tell(self, run: Run, begun: list[Offer]) -> None:
        """Say what is going to be connected, and, once, what is not."""
        barred = [line for offer in self.offers.values() if offer.state == "asks" for line in told(offer)]
        for line in () if self._told else (*self.notices, *barred):
            run.progress(line)
        self._told = True
        if begun:
            run.progress(f"connecting to {', '.join(offer.server.name for offer in begun)}")

    def _begin(self, offer: Offer) -> None:
        legacy = self.ledger.page(offer.server).era == "legacy"
        offer.connection = Connection(
            offer.server, self._host.spawn, self._roots, partial(self._listed, offer), legacy=legacy
        )
        self._host.start_task(offer.connection.run())

    async def _settle(self, offer: Offer, run: Run | None) -> None:
        assert offer.connection is not None  # noqa: S101  # it was begun
        await offer.connection.settled.wait()
        if run is not None:
            for line in told(offer):
                run.progress(line)

    def _roots(self) -> list[Path]:
        return list(dict.fromkeys(agent.session.directory for agent in self._host.agents))

    # -- offering

    def _listed(self, offer: Offer, listing: Listing) -> None:
        """Take what a server says that its tools are: register what is new, take away what is gone or has changed."""
        offer.definitions = dict(listing.kept)
        dropped, notes = list(listing.dropped), []
        page = self.ledger.page(offer.server)
        facts = offer.connection.facts if offer.connection else None
        page.era = facts.era if facts else page.era
        changes, refused = page.review(listing.kept.values())
        self._keep(offer, page)
        offer.changes = tuple(changes)
        dropped += [Dropped(one_line(name, 80), TOO_MANY) for name in refused]
        withheld = {*refused, *(change.name for change in changes)}
        wanted = {name: one for name, one in listing.kept.items() if name not in withheld}
        for name, (tool, dispose) in list(offer.tools.items()):
            if name not in wanted or tool.generation != _generation(offer.server, wanted[name]):
                dispose()
                del offer.tools[name]
        for name, one in wanted.items():
            if name not in offer.tools:
                try:
                    tool, note = self._tool(offer, one)
                    offer.tools[name] = (tool, self._host.tools.register(tool))
                except (UnsupportedSchema, UsageError) as error:
                    dropped.append(Dropped(one_line(name, 80), one_line(str(error), 400)))
                else:
                    notes += [Dropped(one_line(name, 80), note)] if note else []
        offer.dropped, offer.notes = tuple(dropped), tuple(notes)

    def _tool(self, offer: Offer, one: Definition) -> tuple[Tool, str]:
        assert offer.connection is not None  # noqa: S101  # it told of its tools
        connection = offer.connection
        output, note = output_of(one.output)

        async def call(arguments: dict[str, Any], ctx: ToolContext) -> Any:
            return await call_tool(connection, one.name, arguments, ctx)

        tool = foreign_tool(
            server=offer.server.name,
            name=one.name,
            description=one.description,
            parameters=one.parameters,
            call=call,
            output=output,
            timeout=offer.server.deadlines.call,
            source=offer.server.origin,
            generation=_generation(offer.server, one),
        )
        return tool, note

    def _keep(self, offer: Offer, page: Page) -> None:
        with suppress(OSError):  # what is not remembered is accepted once more
            self.ledger.keep(offer.server, page)

    def accept(self, offer: Offer) -> None:
        """Take the definitions that changed for the accepted ones.

        Raises:
            PegboardError: it can't be remembered.
        """
        if not offer.changes:
            return
        page = self.ledger.page(offer.server)
        for change in offer.changes:
            page.accept(offer.definitions[change.name])
        try:
            self.ledger.keep(offer.server, page)
        except OSError as error:
            raise PegboardError(f"what you accept can't be remembered: {error}") from error


def told(offer: Offer) -> list[str]:
    """Return what a person should know of a server now, a line each."""
    name = offer.server.name
    if offer.state != "up":
        down = offer.connection if offer.state == "down" else None
        return [f"{name}: {offer.reason}{f' · connecting again in {down.pause:g} s' if down else ''}"]
    seconds = offer.connection.facts.connect_seconds if offer.connection and offer.connection.facts else 0.0
    tools = f"{len(offer.tools)} tool{'' if len(offer.tools) == 1 else 's'}"
    lines = [f"{name}: {tools} ({offer.server.transport}, {seconds:.1f} s)"]
    if offer.dropped:
        lines.append(f"{name}: {len(offer.dropped)} left out · pegboard mcp tools {name}")
    if offer.changes:
        names = ", ".join(one_line(change.name, 40) for change in offer.changes[:5])
        lines.append(f"{name}: changed since you accepted it, so withheld: {names} · pegboard mcp accept {name}")
    return lines


def _generation(server: Server, one: Definition) -> str:
    return f"{one.hash}:{server.hash}"


def _subject(name: str) -> str:
    return f"mcp:{name}"
