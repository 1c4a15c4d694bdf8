"""Importing the enabled packs and taking what they register; a pack that fails is reported and stops no other."""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from pegboard.config import Config
from pegboard.dispatch import Dispatcher, HookFailure, describe
from pegboard.errors import PackFailure, Problem
from pegboard.hookspecs import Hooks, policy_of
from pegboard.models import ModelProvider
from pegboard.packs import Pack, State, hold_back
from pegboard.settings import build_settings, takes_settings
from pegboard.snapshot import ToolRegistry, definition_hash
from pegboard.text import did_you_mean, one_line
from pegboard.tools import Tool

_OWN_KEYS: Final = ("enabled", "required")
_HOOKS: Final = frozenset(name for name in vars(Hooks) if not name.startswith("_"))


class Loader:
    """Loads packs into a dispatcher, a tool registry and a table of model providers."""

    def __init__(self, config: Config, dispatcher: Dispatcher, tools: ToolRegistry) -> None:
        self._config = config
        self._dispatcher = dispatcher
        self._tools = tools
        self.providers: dict[str, tuple[ModelProvider, str]] = {}
        self.problems: list[Problem] = []

    def load(self, packs: Sequence[Pack]) -> tuple[Pack, ...]:
        """Load every enabled pack, in order, and return all of them with what became of each."""
        reserved = _reserved_names(packs)
        states: dict[str, State] = {pack.name: pack.state for pack in packs}
        loaded: list[Pack] = []
        for pack in packs:
            pack = hold_back(pack, states)
            loaded.append(self._load(pack, reserved) if pack.state == "enabled" else pack)
            states[pack.name] = loaded[-1].state
        return tuple(loaded)

    def _load(self, pack: Pack, reserved: dict[str, str]) -> Pack:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # stdout belongs to answers and --json
                instance = self._instantiate(pack)
                _check_hooks(pack.name, instance)
                self._dispatcher.register(pack.name, instance)
                self._take_tools(pack.name, reserved)
                self._take_models(pack.name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # packs call sys.exit at import, too
            self._undo(pack.name)
            known = isinstance(error, PackFailure | HookFailure)
            return pack.failed(one_line(str(error) if known else describe(error), 4000))
        return replace(pack, state="active")

    def _instantiate(self, pack: Pack) -> object:
        from importlib_metadata import EntryPoint

        target = EntryPoint(name=pack.name, value=pack.reference, group="pegboard.packs").load()
        given = {k: v for k, v in self._config.table("packs", pack.name).items() if k not in _OWN_KEYS}
        if not isinstance(target, type | ModuleType):
            raise PackFailure(f"`{pack.reference}` is a {type(target).__name__}; a pack is a class or a module")
        model = takes_settings(target) if isinstance(target, type) else None
        settings = build_settings(self._config, pack.name, model, given, self.problems)
        if not isinstance(target, type):
            return target
        make: Callable[..., object] = target
        return make() if model is None else make(settings=settings)

    def _take_tools(self, pack: str, reserved: dict[str, str]) -> None:
        for tool in self._dispatcher.collect("register_tools", pack):
            if not isinstance(tool, Tool):
                raise PackFailure(f"register_tools: {type(tool).__name__} is not a Tool; mark the function @tool")
            if (owner := reserved.get(tool.name, pack)) != pack:
                raise PackFailure(f"conflict: tool `{tool.name}` is reserved by pack `{owner}`")
            try:
                definition_hash(tool)  # makes the schema, which may be impossible
            except Exception as error:
                raise PackFailure(f"tool `{tool.name}` has no schema: {describe(error)}") from error
            self._tools.add(tool, pack)

    def _take_models(self, pack: str) -> None:
        for provider in self._dispatcher.collect("register_models", pack):
            if not isinstance(provider, ModelProvider):
                raise PackFailure(f"register_models: {type(provider).__name__} is not a ModelProvider")
            if holder := self.providers.get(provider.name):
                raise PackFailure(f"conflict: model `{provider.name}` is taken by pack `{holder[1]}`")
            self.providers[provider.name] = (provider, pack)

    def _undo(self, pack: str) -> None:
        self._dispatcher.unregister(pack)
        self._tools.remove(pack)
        self.providers = {name: entry for name, entry in self.providers.items() if entry[1] != pack}


def _reserved_names(packs: Iterable[Pack]) -> dict[str, str]:
    """Return tool name -> pack for every name in `pegboard.tools`, also of packs that are off (rule 4)."""
    reserved: dict[str, str] = {}
    for pack in packs:
        for name in pack.distribution.tools if pack.state != "failed" else ():
            reserved.setdefault(name, pack.name)
    return reserved


def _check_hooks(pack: str, instance: object) -> None:
    """Refuse what pluggy would accept in silence: misspelt hooks and wrappers; and say precisely what does not fit.

    Raises:
        PackFailure: naming the hook and the argument.
    """
    for name, function, options in _implementations(instance):
        hook = options.get("specname") or name
        if hook not in _HOOKS:
            if options.get("optionalhook"):
                continue
            raise PackFailure(f"there is no hook `{hook}`{did_you_mean(hook, _HOOKS)}")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise PackFailure(f"`{hook}` is implemented as a wrapper; Pegboard's hooks take plain functions only")
        _check_signature(hook, function)


def _check_signature(hook: str, function: Any) -> None:
    known = [name for name in inspect.signature(getattr(Hooks, hook)).parameters if name != "self"]
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
    policy = policy_of(hook)
    if policy.sync and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise PackFailure(f"`{hook}` must be a plain function, not async")
    if policy.kind != "collect" and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        raise PackFailure(f"`{hook}` must return its answer, not yield it")


def _implementations(instance: object) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for name in dir(instance):
        if name.startswith("__"):
            continue
        function = inspect.getattr_static(instance, name, None)
        options = getattr(getattr(function, "__func__", function), "pegboard_impl", None)
        if isinstance(options, dict):
            yield name, getattr(instance, name), options
