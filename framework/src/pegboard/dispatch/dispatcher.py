"""Calling hook implementations: in order, isolated from each other, under the policy in the hook's marker.

pluggy keeps the registrations; its own multicall is not used, because it neither awaits nor isolates.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pluggy

from pegboard.base.errors import PackFailure, PegboardError
from pegboard.base.isolation import (
    Failed,
    attempt,
    attempt_items,
    attempt_sync,
    awaited,
    being_cancelled,
    current_pack,
    describe,
    refuse_awaitable,
)
from pegboard.base.scopes import Disposer, Layered, Scope
from pegboard.base.text import did_you_mean
from pegboard.dispatch.plans import (
    KERNEL_SPECS,
    HookSpec,
    Implementation,
    Plans,
    Registration,
    read_implementations,
    specs_of,
)
from pegboard.hookspecs import Hooks
from pegboard.values.hook_markers import PROJECT
from pegboard.values.verdicts import EndRun

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of an implementation: of which pack, in which hook, and what it raised or returned."""

    pack: str
    hook: str
    text: str


class HookFailure(PegboardError):
    """An implementation failed and its hook's policy does not contain it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"{fault.hook} of pack `{fault.pack}` failed: {fault.text}")


class Misfit(Exception):
    """The implementation returned a value that its hook has no use for; the message names what it was and what fits."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends a fold early, with this value."""

    value: Any


class Dispatcher:
    """The one way to call hooks. Plans are compiled on first use, and anew only where something was registered."""

    def __init__(self, on_fault: Callable[[Fault], object], order: Mapping[str, Sequence[str]] | None = None) -> None:
        self.host = Scope("the host")
        self.manager = pluggy.PluginManager(PROJECT)
        self.manager.add_hookspecs(Hooks)
        self.specs: Mapping[str, HookSpec] = KERNEL_SPECS
        self._on_fault = on_fault
        self._order = order or {}
        self._layers: Layered[Registration, Plans] = Layered(
            lambda layers, _own: Plans(layers, self.specs, self._order)
        )

    # -- registration

    def add_hookspecs(self, pack: str, containers: Collection[object]) -> None:
        """Take in the hooks that a pack brings for others.

        Raises:
            PackFailure: one has no policy, or a hook of that name exists.
        """
        added = dict(self.specs)
        for container in containers:
            specs = list(specs_of(container, pack)) if isinstance(container, type) else []
            if not specs:
                raise PackFailure(f"register_hookspecs: {container!r} is no class with methods marked `@hookspec(...)`")
            for spec in specs:
                if spec.name in added:
                    raise PackFailure(f"conflict: hook `{spec.name}` belongs to `{added[spec.name].pack}`")
                added[spec.name] = spec
        self.specs = added

    def drop_hookspecs(self, pack: str) -> None:
        """Forget the hooks that a pack brought."""
        if any(spec.pack == pack for spec in self.specs.values()):
            self.specs = {name: spec for name, spec in self.specs.items() if spec.pack != pack}

    def register(self, name: str, implementations: object) -> None:
        """Add an object's hook implementations under a pack's name, for every agent.

        Raises:
            PackFailure: an implementation does not fit its hook.
            ValueError: the name or the object is registered already.
        """
        found = read_implementations(implementations, self.specs)
        self.manager.register(implementations, name)
        self._layers.add(self.host, Registration(name, implementations, found))

    def unregister(self, name: str) -> None:
        """Take a pack's implementations, on every agent too, and its hooks away again; harmless if there are none."""
        self._layers.discard(lambda entry: entry.pack == name)
        if self.manager.has_plugin(name):
            self.manager.unregister(name=name)
        self.drop_hookspecs(name)

    def register_on(self, scope: Scope, implementations: object, pack: str) -> Disposer:
        """Add implementations that see one agent only; its scope owns them.

        Raises:
            PackFailure: an implementation does not fit its hook.
            Disposed: the agent is gone.
        """
        scope.check()
        return self._layers.add(
            scope, Registration(pack, implementations, read_implementations(implementations, self.specs))
        )

    def impose_guards(self, scope: Scope, registered: Registration) -> Disposer:
        """Make a parent's guards bind a child as well (rule 11)."""
        guards = tuple(found for found in registered.found if found.hook == "guard_tool_call")
        return self._layers.add(scope, Registration(registered.pack, registered.target, guards))

    def registered_on(self, scope: Scope) -> tuple[Registration, ...]:
        """Return what was registered on exactly this scope, in order."""
        return self._layers.own(scope)

    def plan(self, hook: str, scope: Scope | None = None) -> tuple[Implementation, ...]:
        """Return the implementations of `hook` that see this scope, in the order in which they are called."""
        return self._layers.view(scope or self.host)[hook]

    # -- the failure policy, and the loop over a plan

    def failed(self, one: Implementation, hook: str, failure: Failed) -> None:
        """Carry out a hook's failure policy: what is contained is reported and passed over, all else is raised.

        Raises:
            HookFailure: the policy does not contain it; whoever calls the hook is refused, vetoed, ended or withheld.
        """
        fault = Fault(one.pack, hook, failure.text)
        if self.specs[hook].policy.failure != "contained":
            raise HookFailure(fault)
        self._on_fault(fault)

    def _told(self, hook: str, scope: Scope | None, *arguments: object) -> Iterator[tuple[Implementation, Any]]:
        """Call the implementations of a sync hook in order; yields each that did not fail, with its answer."""
        for one in self.plan(hook, scope):
            token = current_pack.set(one.pack)
            answer = attempt_sync(one.call, *arguments)
            current_pack.reset(token)
            if isinstance(answer, Failed):
                self.failed(one, hook, answer)
            else:
                yield one, answer

    async def _asked(
        self, hook: str, scope: Scope | None, *arguments: object
    ) -> AsyncIterator[tuple[Implementation, Any]]:
        """Call implementations of either colour in order, each awaited before the next; yields as `_told`."""
        for one in self.plan(hook, scope):
            answer = await self.ask(one, *arguments)
            if isinstance(answer, Failed):
                self.failed(one, hook, answer)
            else:
                yield one, answer

    async def ask(self, one: Implementation, *arguments: object) -> Any:
        """Call one implementation, whatever its colour, as its pack; returns its answer or a Failed."""
        token = current_pack.set(one.pack)
        try:
            answer = (attempt_sync if one.sync else attempt)(one.call, *arguments)
            return await awaited(answer) if answer is not None and inspect.isawaitable(answer) else answer
        finally:
            current_pack.reset(token)

    # -- the kinds

    def collect(self, hook: str, pack: str) -> list[Any]:
        """Return the items that one pack hands over for a sync `collect` hook.

        Raises:
            HookFailure: it raised, or returned something that is no iterable.
        """
        items: list[Any] = []
        for one in self.plan(hook):
            if one.pack == pack:
                answer = attempt_items(one.call)
                if isinstance(answer, Failed):
                    self.failed(one, hook, answer)
                else:
                    items.extend(answer)
        return items

    def announce(self, hook: str, payload: object, told: set[str], scope: Scope | None = None) -> None:
        """Call a sync `in order` hook; each pack is added to `told` once it has heard without failing.

        Raises:
            HookFailure: an implementation vetoed; those after it are not called.
        """
        for one, _ in self._told(hook, scope, payload):
            told.add(one.pack)

    def notify(
        self, hook: str, payload: object, scope: Scope | None = None, *, among: Container[str] | None = None
    ) -> None:
        """Call observers, only those of the packs `among` if given; a failure is reported and contained."""
        # Nobody's doing: not that of the pack which had something recorded, and naming each would cost too much.
        token = current_pack.set("")
        try:
            for one in self._layers.view(scope or self.host)[hook]:
                if among is not None and one.pack not in among:
                    continue
                try:  # not through _told: this runs for every event and pack
                    answer = one.call(payload)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    answer = Failed(describe(error))
                if answer is not None and isinstance(answer := refuse_awaitable(answer), Failed):
                    self.failed(one, hook, answer)
        finally:
            current_pack.reset(token)

    async def first(self, hook: str, *arguments: object) -> tuple[str, Any] | None:
        """Return the first answer that is not None, with the pack that gave it.

        Raises:
            HookFailure: an implementation failed before one answered, and its policy does not contain that.
        """
        async for one, answer in self._asked(hook, None, *arguments):
            if answer is not None:
                return one.pack, answer
        return None

    async def in_order(
        self, hook: str, *arguments: object, scope: Scope | None = None, among: Container[str] | None = None
    ) -> None:
        """Call all, or those of the packs `among`, each awaited before the next.

        Raises:
            HookFailure: one failed, and its policy does not contain that; those after it are not called.
        """
        for one in self.plan(hook, scope):
            if among is None or one.pack in among:
                answer = await self.ask(one, *arguments)
                if isinstance(answer, Failed):
                    self.failed(one, hook, answer)

    def begin(
        self, hook: str, payload: object, scope: Scope, *, among: Container[str] | None = None
    ) -> "dict[asyncio.Task[Any], Implementation]":
        """Call all at once, or those of the packs `among`, each in a task; failures are reported as they come."""
        import asyncio  # only here: packs are listed without it

        def ended(task: "asyncio.Task[Any]") -> None:
            if not task.cancelled() and isinstance(answer := task.result(), Failed):
                self.failed(tasks[task], hook, answer)

        chosen = [one for one in self.plan(hook, scope) if among is None or one.pack in among]
        tasks = {asyncio.create_task(self.ask(one, payload)): one for one in chosen}
        for task in tasks:
            task.add_done_callback(ended)
        return tasks

    async def fold(
        self,
        hook: str,
        scope: Scope,
        value: Any,
        accept: Callable[[Any, Any], Any],
        *before: object,
    ) -> Any:
        """Thread a value through the implementations: each gets it after the arguments `before`, and may replace it.

        `accept(value, answer)` returns the new value, or a Stop with it, or raises Misfit.

        Raises:
            HookFailure: an implementation raised, or `accept` refused what it returned, and that is not contained.
        """
        plan = self._layers.view(scope)[hook]
        if not plan:
            return value
        caller = current_pack.get()
        try:
            for one in plan:
                current_pack.set(one.pack)
                answer = (attempt_sync if one.sync else attempt)(one.call, *before, value)
                if answer is not None and inspect.isawaitable(answer):
                    answer = await awaited(answer)
                if answer is None:
                    continue
                value = self._replaced(hook, one, value, answer, accept)
                if isinstance(value, Stop):
                    return value.value
        finally:
            current_pack.set(caller)
        return value

    def _replaced(
        self, hook: str, one: Implementation, value: Any, answer: Any, accept: Callable[[Any, Any], Any]
    ) -> Any:
        if not isinstance(answer, Failed):
            try:
                return accept(value, answer)
            except Misfit as misfit:
                answer = Failed(f"it returned {misfit}")
        self.failed(one, hook, answer)
        return value

    async def around(
        self, hook: str, scope: Scope, core: Callable[..., Awaitable[Any]], *arguments: object, wanted: type
    ) -> Any:
        """Call `core` with the arguments, inside all implementations; the first of the plan is the outermost.

        Each implementation gets the arguments and `proceed`, which takes the arguments again or, with none, those
        that were given to it.

        Raises:
            HookFailure: an implementation failed by itself. What `core` raises passes through all of them unchanged.
        """
        plan = self._layers.view(scope)[hook]
        if not plan:
            return await core(*arguments)
        inner: BaseException | None = None
        outside = current_pack.get()

        async def enter(depth: int, given: tuple[object, ...]) -> Any:
            nonlocal inner
            if depth == len(plan):
                token = current_pack.set(outside)
                try:
                    return await core(*given)
                except BaseException as error:
                    inner = error
                    raise
                finally:
                    current_pack.reset(token)
            one = plan[depth]

            async def proceed(*changed: object) -> Any:
                return await enter(depth + 1, changed or given)

            token = current_pack.set(one.pack)
            try:
                answer = one.call(*given, proceed)
                if inspect.isawaitable(answer):
                    answer = await answer
            except HookFailure:
                raise
            except BaseException as error:
                if error is inner or isinstance(error, KeyboardInterrupt) or being_cancelled(error):
                    raise
                if isinstance(error, EndRun) and self.specs[hook].policy.failure == "ends the run":
                    raise
                raise HookFailure(Fault(one.pack, hook, describe(error))) from error
            finally:
                current_pack.reset(token)
            if not isinstance(answer, wanted):
                told = f"it returned {type(answer).__name__}, not {wanted.__name__}"
                raise HookFailure(Fault(one.pack, hook, told))
            return answer

        return await enter(0, arguments)

    async def call(self, name: str, *arguments: object) -> Any:
        """Ask a hook that a pack brought, as its kind says; see `Host.call_hook`."""
        spec = self.specs.get(name)
        if spec is None or spec.pack == "pegboard":
            near = did_you_mean(name, [s.name for s in self.specs.values() if s.pack != "pegboard"])
            raise LookupError(f"no active pack brings a hook `{name}`{near}")
        match spec.policy.kind:
            case "collect":
                return await self._collect_all(name, *arguments)
            case "first":
                return await self.first(name, *arguments)
            case "fold":
                *before, value = arguments
                return await self.fold(name, self.host, value, _same_type, *before)
            case "in order" | "observers":
                return await self.in_order(name, *arguments)
        raise LookupError(f"hook `{name}` is of kind `{spec.policy.kind}`, which only the kernel can call")

    async def _collect_all(self, hook: str, *arguments: object) -> list[tuple[str, Any]]:
        items: list[tuple[str, Any]] = []
        async for one, answer in self._asked(hook, None, *arguments):
            handed_over = attempt_items(lambda answer=answer: answer)
            if isinstance(handed_over, Failed):
                self.failed(one, hook, handed_over)
            else:
                items.extend((one.pack, item) for item in handed_over)
        return items


def _same_type(value: Any, answer: Any) -> Any:
    if not isinstance(answer, type(value)):
        raise Misfit(f"{type(answer).__name__}, not {type(value).__name__}")
    return answer
