"""Who implements a hook and in which order they are called: checked once a class, compiled once a hook and scope."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from pegboard.base.errors import PackFailure
from pegboard.base.text import did_you_mean
from pegboard.hookspecs import Hooks
from pegboard.values.hook_markers import Policy, policy_of

REST: Final = "*"


@dataclass(frozen=True, slots=True)
class HookSpec:
    """A hook: its arguments in order, its policy, and the pack that brought it (`pegboard` for the kernel's)."""

    name: str
    arguments: tuple[str, ...]
    policy: Policy
    pack: str = "pegboard"


def specs_of(container: object, pack: str = "pegboard") -> Iterator[HookSpec]:
    """Yield the hooks that a class, or a module, specifies with `@hookspec(...)`."""
    for name, function in vars(container).items():
        if hasattr(function, "pegboard_policy"):
            arguments = [argument for argument in inspect.signature(function).parameters if argument != "self"]
            yield HookSpec(name, tuple(arguments), policy_of(function), pack)


KERNEL_SPECS: Final[Mapping[str, HookSpec]] = {spec.name: spec for spec in specs_of(Hooks)}


@dataclass(frozen=True, slots=True)
class Implementation:
    """One pack's function for one hook, callable with the hook's arguments by position. `rank` is pluggy's wish:
    -1 `tryfirst`, 0 none, 1 `trylast`; `why` tells a person how it came to its place; `sync`: it may not be awaited.
    """

    pack: str
    call: Callable[..., Any]
    rank: int = 0
    why: str = ""
    sync: bool = False


@dataclass(frozen=True, slots=True)
class HookMethod:
    """An implementation in a class, before it is bound to an object: which attribute, for which hook.

    `takes` are those of the hook's arguments that it wants, in its own order; None if no pack had brought the hook.
    """

    attribute: str
    hook: str
    rank: int
    optional: bool
    takes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """An object with implementations, and the pack that it belongs to."""

    pack: str
    target: object
    found: tuple[HookMethod, ...]


def read_implementations(target: object, specs: Mapping[str, HookSpec]) -> tuple[HookMethod, ...]:
    """Return what an object implements, checked against the specifications; once for each class.

    Raises:
        PackFailure: a hook that does not exist, a wrapper, or a signature that does not fit; names hook and argument.
    """
    kind = type(target)
    own = () if isinstance(target, type) else vars(target).values() if hasattr(target, "__dict__") else ()
    by_class = not isinstance(target, type | ModuleType) and not any(hasattr(f, "pegboard_impl") for f in own)
    known = _CHECKED.get(kind) if by_class else None
    if known is None or known[0] is not specs:
        known = (specs, tuple(_read(target, specs)))
        if by_class:
            _CHECKED[kind] = known
    return known[1]


# class -> the specifications that it was checked against, and what was found
_CHECKED: Final[WeakKeyDictionary[type, tuple[Mapping[str, HookSpec], tuple[HookMethod, ...]]]] = WeakKeyDictionary()


def marked(target: object) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield what is marked as an implementation: its attribute, the hook's name, and pluggy's options."""
    for name in dir(target):
        if name.startswith("__"):
            continue
        function = inspect.getattr_static(target, name, None)
        options = getattr(getattr(function, "__func__", function), "pegboard_impl", None)
        if isinstance(options, dict):
            yield name, options.get("specname") or name, options


def _read(target: object, specs: Mapping[str, HookSpec]) -> Iterator[HookMethod]:
    for name, hook, options in marked(target):
        optional, takes = bool(options.get("optionalhook")), None
        if options.get("wrapper") or options.get("hookwrapper"):
            raise PackFailure(f"`{hook}` is implemented as a wrapper; Pegboard's hooks take plain functions only")
        if hook not in specs:
            if not optional:
                raise PackFailure(f"there is no hook `{hook}`{did_you_mean(hook, specs)}")
        else:
            _check_signature(specs[hook], getattr(target, name))
            takes = _wanted(specs[hook], getattr(target, name))
        if options.get("tryfirst") and options.get("trylast"):
            raise PackFailure(f"`{hook}` is marked both tryfirst and trylast; choose one")
        rank = bool(options.get("trylast")) - bool(options.get("tryfirst"))
        yield HookMethod(name, hook, rank, optional, takes)


def _wanted(spec: HookSpec, function: Any) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name in spec.arguments)


def _check_signature(spec: HookSpec, function: Any) -> None:
    hook, known = spec.name, spec.arguments
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in known and parameter.default is not parameter.empty:
            continue  # the author's own, never given
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise PackFailure(f"`{hook}`: `{name}` must be a plain argument, hooks are called by position")
        if name not in known:
            may = f"`{'`, `'.join(known)}`" if known else "no arguments"
            raise PackFailure(f"`{hook}` has no argument `{name}`{did_you_mean(name, known)} (it gets {may})")
        if parameter.default is not parameter.empty:
            raise PackFailure(f"`{hook}`: `{name}` must have no default, it is always given")
    if spec.policy.sync and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise PackFailure(f"`{hook}` must be a plain function, not async")
    if spec.policy.kind != "collect" and (
        inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    ):
        raise PackFailure(f"`{hook}` must return its answer, not yield it")


class Plans(dict[str, tuple[Implementation, ...]]):
    """The implementations of each hook in the order in which they are called, as one scope sees them.

    Compiled when a hook is first asked for. `order` is the user's `[hooks.order]`: hook -> packs, `*` for the rest.
    """

    def __init__(
        self,
        layers: Sequence[Sequence[Registration]],
        specs: Mapping[str, HookSpec],
        order: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__()
        self._layers = layers
        self._specs = specs
        self._order = order

    def __missing__(self, hook: str) -> tuple[Implementation, ...]:
        plan = self[hook] = tuple(self._compile(self._specs[hook])) if hook in self._specs else ()
        return plan

    def _compile(self, spec: HookSpec) -> Iterable[Implementation]:
        layers = [list(_bound(layer, spec)) for layer in self._layers]
        for depth, layer in enumerate(layers):
            layers[depth] = [_reasoned(one, spec.policy.order, depth > 0) for one in layer]
        if spec.policy.order == "pluggy":
            layers = [_as_pluggy_calls(layer) for layer in reversed(layers)]
        elif spec.policy.order == "reversed":
            layers = [list(reversed(layer)) for layer in reversed(layers)]
        plan = [one for layer in layers for one in layer]
        wanted = self._order.get(spec.name)
        return _as_the_user_wants(plan, wanted) if wanted else plan


def _as_pluggy_calls(layer: Sequence[Implementation]) -> list[Implementation]:
    """Return `tryfirst` and plain ones with the last registered first, then `trylast` as they were registered."""
    newest_first = [one for one in reversed(layer) if one.rank < 1]
    return [*sorted(newest_first, key=lambda one: one.rank), *(one for one in layer if one.rank == 1)]


def _bound(layer: Sequence[Registration], spec: HookSpec) -> Iterator[Implementation]:
    for registered in layer:
        for found in registered.found:
            if found.hook == spec.name:
                function = getattr(registered.target, found.attribute)
                takes = _wanted(spec, function) if found.takes is None else found.takes
                call = _by_position(function, takes, spec.arguments)
                yield Implementation(registered.pack, call, found.rank, sync=spec.policy.sync)


def _reasoned(one: Implementation, order: str, of_agent: bool) -> Implementation:
    """Say why an implementation stands where the hook's order puts it."""
    place = {-1: "tryfirst", 0: "last registered first", 1: "trylast"}[one.rank]
    why = {"load": "load order", "reversed": "load order, reversed"}.get(order, place)
    if of_agent:
        why = f"registered on the agent, {'before' if order != 'load' else 'after'} the host's; {why}"
    return replace(one, why=why)


def _as_the_user_wants(plan: list[Implementation], wanted: Sequence[str]) -> list[Implementation]:
    placed: list[Implementation] = []
    for pack in dict.fromkeys([*wanted, REST]):
        for one in plan:
            if one.pack == pack:
                placed.append(replace(one, why="[hooks.order]"))
            elif pack == REST and one.pack not in wanted:
                placed.append(one)
    return placed


def _by_position(function: Callable[..., Any], takes: tuple[str, ...], spec: tuple[str, ...]) -> Callable[..., Any]:
    """Adapt a function that takes some of the hook's arguments to one that takes them all by position."""
    if takes == spec:
        return function
    indexes = [spec.index(name) for name in takes]
    return lambda *arguments: function(*[arguments[index] for index in indexes])
