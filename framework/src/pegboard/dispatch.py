"""Calling hook implementations: in order, isolated from each other, under the policy in the hook's marker.

pluggy keeps the registrations; its own multicall is not used, because it neither awaits nor isolates.
"""

import inspect
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
            if implementation.pack != pack:
                continue
            try:
                items.extend(implementation.call() or ())
            except BaseException as error:
                if _must_pass(error):
                    raise
                raise HookFailure(Fault(pack, hook, describe(error))) from error
        return items

    def announce(self, hook: str, payload: object, told: set[str]) -> None:
        """Call an `in order` hook; each pack is added to `told` once it has heard without raising.

        Raises:
            HookFailure: an implementation vetoed; those after it are not called.
        """
        for implementation in self.plan(hook):
            try:
                _refuse_awaitable(implementation.call(payload))
            except BaseException as error:
                if _must_pass(error):
                    raise
                raise HookFailure(Fault(implementation.pack, hook, describe(error))) from error
            told.add(implementation.pack)

    def notify(self, hook: str, payload: object, *, among: Container[str] | None = None) -> None:
        """Call observers, only those of the packs `among` if given; a failure is reported and contained."""
        for implementation in self.plan(hook):
            if among is not None and implementation.pack not in among:
                continue
            try:
                answer = implementation.call(payload)
                if answer is not None:
                    _refuse_awaitable(answer)
            except BaseException as error:
                if _must_pass(error):
                    raise
                self._on_fault(Fault(implementation.pack, hook, describe(error)))

    async def fold_step(self, step: Any) -> Any:
        """Run `agent_pre_step` over a step: returns the step as left by the last implementation, or a Reject.

        Raises:
            HookFailure: an implementation raised or returned something else.
        """
        for implementation in self.plan("agent_pre_step"):
            try:
                answer = implementation.call(step)
                if answer is not None and inspect.isawaitable(answer):
                    answer = await answer
                match answer:
                    case None:
                        continue
                    case Reject():
                        return answer
                    case Enter(messages):
                        step = step.entering(messages)
                    case _:
                        raise TypeError(f"it returned {type(answer).__name__}, not Enter, Reject or None")
            except BaseException as error:
                if _must_pass(error):
                    raise
                raise HookFailure(Fault(implementation.pack, "agent_pre_step", describe(error))) from error
        return step

    async def ask_guards(self, call: object) -> list[tuple[str, Verdict]]:
        """Ask every guard; returns the objections with the pack that made each. A failing guard denies."""
        objections: list[tuple[str, Verdict]] = []
        for implementation in self.plan("guard_tool_call"):
            try:
                answer = implementation.call(call)
                if answer is None:
                    continue
                if inspect.isawaitable(answer):
                    answer = await _within_deadline(answer)
                match answer:
                    case None:
                        continue
                    case Deny() | Ask():
                        objections.append((implementation.pack, answer))
                    case _:
                        raise TypeError(f"it returned {type(answer).__name__}, not Deny, Ask or None")
            except BaseException as error:
                if _must_pass(error):
                    raise
                objections.append((implementation.pack, Deny(f"the guard failed: {describe(error)}")))
        return objections


async def _within_deadline(answer: Awaitable[Any]) -> Any:
    import asyncio

    deadline = asyncio.timeout(GUARD_SECONDS)
    try:
        async with deadline:
            return await answer
    except TimeoutError:
        if deadline.expired():
            return Deny(f"the guard did not answer in {GUARD_SECONDS:g} s")
        raise


def _must_pass(error: BaseException) -> bool:
    """Whether this is no fault of an implementation: a person's Ctrl-C, or the cancellation of the task we run in."""
    import asyncio  # only here and above: packs are listed without it

    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop is running: packs are being loaded
            return False
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


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


def _refuse_awaitable(answer: object) -> None:
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError("it is async; this hook must be sync")
