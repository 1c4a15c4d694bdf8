"""Calling hook implementations: in order, isolated from each other, under the policy in the hook's marker.

pluggy keeps the registrations; its own multicall is not used, because it neither awaits nor isolates.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pluggy

from pegboard.hookspecs import PROJECT, Hooks, policy_of
from pegboard.verdicts import Ask, Deny, Enter, Reject, Verdict

GUARD_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Implementation:
    """One pack's function for one hook, callable with the hook's arguments by position."""

    pack: str
    call: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of an implementation that its hook's policy contains."""

    pack: str
    hook: str
    text: str


class HookFailure(Exception):
    """An implementation failed and its hook's policy does not contain it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"{fault.hook} of pack `{fault.pack}` failed: {fault.text}")


class Dispatcher:
    """The one way to call hooks. Plans are compiled on first use and again after a registration."""

    def __init__(self, on_fault: Callable[[Fault], object]) -> None:
        self.manager = pluggy.PluginManager(PROJECT)
        self.manager.add_hookspecs(Hooks)
        self._on_fault = on_fault
        self._plans: dict[str, tuple[Implementation, ...]] = {}
        self._load_order: dict[str, int] = {}

    def register(self, name: str, implementations: object) -> None:
        """Add an object's hook implementations under a pack's name.

        Raises:
            ValueError: the name or the object is registered already.
            pluggy.PluginValidationError: an implementation does not fit its hook.
        """
        self.manager.register(implementations, name)
        self._load_order[name] = len(self._load_order)
        self._plans.clear()

    def unregister(self, name: str) -> None:
        """Take a pack's implementations away again; harmless if there are none."""
        if self.manager.has_plugin(name):
            self.manager.unregister(name=name)
            self._plans.clear()

    def plan(self, hook: str) -> tuple[Implementation, ...]:
        """Return the implementations of `hook` in the order in which they are called."""
        plan = self._plans.get(hook)
        if plan is None:
            plan = self._plans[hook] = tuple(self._compile(hook))
        return plan

    def _compile(self, hook: str) -> Iterator[Implementation]:
        caller = getattr(self.manager.hook, hook)
        names = caller.spec.argnames
        found_in_order = list(reversed(caller.get_hookimpls()))  # pluggy lists the last to be called first
        if policy_of(hook).kind != "fold":
            backwards = hook == "agent_disposed"
            found_in_order.sort(key=lambda found: self._load_order[found.plugin_name], reverse=backwards)
        for found in found_in_order:
            yield Implementation(found.plugin_name, _by_position(found.function, names, found.argnames))

    def collect(self, hook: str, pack: str) -> list[Any]:
        """Return the items that one pack hands over for a `collect` hook.

        Raises:
            HookFailure: it raised, or returned something that is no iterable.
        """
        items: list[Any] = []
        for implementation in self.plan(hook):
            if implementation.pack == pack:
                answer = _attempt_sync(lambda call=implementation.call: list(call() or ()))
                if isinstance(answer, Failed):
                    raise HookFailure(Fault(pack, hook, answer.text))
                items.extend(answer)
        return items

    def announce(self, hook: str, payload: object, told: set[str]) -> None:
        """Call an `in order` hook; each pack is added to `told` once it has heard without raising.

        Raises:
            HookFailure: an implementation vetoed; those after it are not called.
        """
        for implementation in self.plan(hook):
            answer = _attempt_sync(implementation.call, payload)
            if isinstance(answer, Failed):
                raise HookFailure(Fault(implementation.pack, hook, answer.text))
            told.add(implementation.pack)

    def notify(self, hook: str, payload: object, *, among: Container[str] | None = None) -> None:
        """Call observers, only those of the packs `among` if given; a failure is reported and contained."""
        plan = self.plan(hook)
        if among is not None:
            plan = tuple(implementation for implementation in plan if implementation.pack in among)
        for implementation in plan:
            try:  # not through _attempt: this runs for every event and pack
                answer = implementation.call(payload)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                answer = Failed(describe(error))
            if answer is not None and isinstance(answer := _refuse_awaitable(answer), Failed):
                self._on_fault(Fault(implementation.pack, hook, answer.text))

    async def fold_step(self, step: Any) -> Any:
        """Run `agent_pre_step` over a step: returns the step as left by the last implementation, or a Reject.

        Raises:
            HookFailure: an implementation raised or returned something else.
        """
        for implementation in self.plan("agent_pre_step"):
            answer = _attempt(implementation.call, step)
            if answer is not None and inspect.isawaitable(answer):
                answer = await _finish(answer)
            match answer:
                case None:
                    continue
                case Reject():
                    return answer
                case Enter(messages) if step.may_enter(messages):
                    step = step.entering(messages)
                case Failed(text):
                    raise HookFailure(Fault(implementation.pack, "agent_pre_step", text))
                case _:
                    told = (
                        "Enter without a tuple of UserMessages" if isinstance(answer, Enter) else type(answer).__name__
                    )
                    text = f"it returned {told}, not Enter, Reject or None"
                    raise HookFailure(Fault(implementation.pack, "agent_pre_step", text))
        return step

    async def ask_guards(self, call: object) -> list[tuple[str, Verdict]]:
        """Ask every guard; returns the objections with the pack that made each. A failing guard denies."""
        objections: list[tuple[str, Verdict]] = []
        now = time.monotonic()
        for implementation in self.plan("guard_tool_call"):
            began = now
            answer = _attempt(implementation.call, call)
            if answer is not None and inspect.isawaitable(answer):
                answer = await _finish(answer, GUARD_SECONDS)
            now = time.monotonic()
            if now - began > GUARD_SECONDS:
                answer = Deny(f"the guard did not answer in {GUARD_SECONDS:g} s")
            match answer:
                case None:
                    continue
                case Deny() | Ask():
                    objections.append((implementation.pack, answer))
                case Failed(text):
                    objections.append((implementation.pack, Deny(f"the guard failed: {text}")))
                case _:
                    text = f"it returned {type(answer).__name__}, not Deny, Ask or None"
                    objections.append((implementation.pack, Deny(f"the guard failed: {text}")))
        return objections


@dataclass(frozen=True, slots=True)
class Failed:
    """Stands in for the answer of an implementation that raised."""

    text: str


def _attempt(function: Callable[..., Any], *arguments: object) -> Any:
    """Call an implementation; whatever it raises, but for a person's Ctrl-C, becomes a Failed."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Failed(describe(error))


def _attempt_sync(function: Callable[..., Any], *arguments: object) -> Any:
    """The same for a hook that must be sync: an awaitable is a failure too."""
    return _refuse_awaitable(_attempt(function, *arguments))


def _refuse_awaitable(answer: Any) -> Any:
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        return Failed("it is async; this hook must be sync")
    return answer


async def _finish(answer: Awaitable[Any], seconds: float | None = None) -> Any:
    """Await an answer in a task of its own; returns it, or a Failed. Only the caller's own cancellation is raised."""
    import asyncio  # only here: packs are listed without it

    async def contained() -> Any:
        try:
            return await answer
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Failed(describe(error))

    task = asyncio.ensure_future(contained())
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        return Failed(f"no answer in {seconds:g} s")
    finally:
        task.cancel()
        if inspect.iscoroutine(answer) and inspect.getcoroutinestate(answer) == inspect.CORO_CREATED:
            answer.close()  # the task was cancelled before it began


def describe(error: BaseException) -> str:
    """Return an exception as `TypeError: text`, without ever failing itself."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text can't be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _by_position(function: Callable[..., Any], spec: tuple[str, ...], own: tuple[str, ...]) -> Callable[..., Any]:
    """Adapt a function that takes some of the hook's arguments to one that takes them all by position."""
    if tuple(own) == tuple(spec):
        return function
    indexes = [spec.index(name) for name in own]
    return lambda *arguments: function(*[arguments[index] for index in indexes])
