"""Loading packs: imported, checked, filled with their settings, registered; a pack that fails leaves nothing behind."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

from pegboard.base.errors import PackFailure, Problem, UsageError
from pegboard.base.isolation import Failed, attempt_items, current_pack, describe
from pegboard.base.text import one_line
from pegboard.config.layers import Config
from pegboard.config.settings import build_settings, takes_settings
from pegboard.dispatch.dispatcher import Dispatcher, Fault, HookFailure
from pegboard.dispatch.plans import marked
from pegboard.packs.survey import Pack, State, hold_back, tool_owners
from pegboard.tools.registry import ToolRegistry
from pegboard.values.models import ModelProvider
from pegboard.values.tool import Tool

if TYPE_CHECKING:
    from pydantic import BaseModel


class Loader:
    """Loads packs into a dispatcher, a tool registry and a table of model providers.

    `objects` are packs of the program itself, by name: a class or a module, or an object that is ready.
    """

    def __init__(
        self,
        config: Config,
        dispatcher: Dispatcher,
        tools: ToolRegistry,
        objects: Mapping[str, object] | None = None,
    ) -> None:
        self._config = config
        self._dispatcher = dispatcher
        self._tools = tools
        self._objects = dict(objects or {})
        self._owners: dict[str, str] = {}
        self.instances: dict[str, object] = {}
        self.providers: dict[str, tuple[ModelProvider, str]] = {}
        self.problems: list[Problem] = []
        self.models: dict[str, type[BaseModel]] = {}
        self.settings: dict[str, BaseModel] = {}

    def add_object(self, name: str, pack: object) -> None:
        """Make a pack of the program known, to be loaded next."""
        self._objects[name] = pack

    def load(self, packs: Sequence[Pack]) -> tuple[Pack, ...]:
        """Load every enabled pack, in order, and return all of them with what became of each.

        All are imported, and the hooks that they bring are known, before the hooks of any are checked.
        """
        self._owners.update(tool_owners(self._config, {pack.name for pack in packs}))
        self._tools.reserved = {**_reserved_names(packs), **self._tools.reserved, **self._owners}
        packs = self._each(packs, lambda pack: self.instances.update({pack.name: self._prepare(pack)}))
        packs = self._each(packs, lambda pack: self._register(pack, self.instances[pack.name]))
        return tuple(replace(pack, state="active") if pack.state == "enabled" else pack for pack in packs)

    def _each(self, packs: Sequence[Pack], do: Callable[[Pack], object]) -> list[Pack]:
        """Do something with each pack that is still enabled; what raises, or needs a pack that did, drops out."""
        states: dict[str, State] = {pack.name: pack.state for pack in packs}
        done: list[Pack] = []
        for pack in packs:
            held = hold_back(pack, states)
            if held.state == "enabled":
                held = self._try(held, do)
            if held.state != "enabled" and pack.state == "enabled":
                self.undo(pack.name)
            done.append(held)
            states[pack.name] = held.state
        return done

    def _try(self, pack: Pack, do: Callable[[Pack], object]) -> Pack:
        token = current_pack.set(pack.name)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # stdout belongs to answers and --json
                do(pack)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # packs call sys.exit at import, too
            known = isinstance(error, PackFailure | HookFailure | UsageError)
            return pack.failed(one_line(str(error) if known else describe(error), 4000))
        finally:
            current_pack.reset(token)
        return pack

    def _prepare(self, pack: Pack) -> object:
        """Import a pack, make its instance, and take in the hooks that it brings."""
        instance = self._instantiate(pack)
        for attribute, hook, _ in marked(instance):
            if hook == "register_hookspecs":
                answer = attempt_items(getattr(instance, attribute))
                if isinstance(answer, Failed):
                    raise HookFailure(Fault(pack.name, hook, answer.text))
                self._dispatcher.add_hookspecs(pack.name, answer)
        return instance

    def _instantiate(self, pack: Pack) -> object:
        if pack.name in self._objects:
            target = self._objects[pack.name]
            if not isinstance(target, type | ModuleType):
                return target
        else:
            from importlib_metadata import EntryPoint

            target = EntryPoint(name=pack.name, value=pack.reference, group="pegboard.packs").load()
        if not isinstance(target, type | ModuleType):
            raise PackFailure(f"`{pack.reference}` is a {type(target).__name__}; a pack is a class or a module")
        model = takes_settings(target) if isinstance(target, type) else None
        if model is not None:
            self.models[pack.name] = model
        settings = build_settings(self._config, pack.name, model, self.problems)
        if settings is not None:
            self.settings[pack.name] = settings
        if not isinstance(target, type):
            return target
        make: Callable[..., object] = target
        return make() if model is None else make(settings=settings)

    def _register(self, pack: Pack, instance: object) -> None:
        self._dispatcher.register(pack.name, instance)
        self._take_tools(pack.name)
        self._take_models(pack.name)

    def _take_tools(self, pack: str) -> None:
        for tool in self._dispatcher.collect("register_tools", pack):
            if not isinstance(tool, Tool):
                raise PackFailure(f"register_tools: {type(tool).__name__} is not a Tool; mark the function @tool")
            try:
                _ = tool.hash  # makes the schema, which may be impossible
            except Exception as error:
                raise PackFailure(f"tool `{tool.name}` has no schema: {describe(error)}") from error
            if self._owners.get(tool.name, pack) == pack:  # else the user gave the name to another pack
                self._tools.register(self._dispatcher.host, tool, pack)

    def _take_models(self, pack: str) -> None:
        for provider in self._dispatcher.collect("register_models", pack):
            if not isinstance(provider, ModelProvider):
                raise PackFailure(f"register_models: {type(provider).__name__} is not a ModelProvider")
            if holder := self.providers.get(provider.name):
                raise PackFailure(f"conflict: model `{provider.name}` is taken by pack `{holder[1]}`")
            self.providers[provider.name] = (provider, pack)

    def undo(self, pack: str) -> None:
        """Take away everything that a pack brought; harmless if there is nothing."""
        self.instances.pop(pack, None)
        self._dispatcher.unregister(pack)
        self._tools.remove(pack)
        for name in [name for name, entry in self.providers.items() if entry[1] == pack]:
            del self.providers[name]


def _reserved_names(packs: Iterable[Pack]) -> dict[str, str]:
    """Return tool name -> pack for every name in `pegboard.tools`, also of packs that are off (rule 4)."""
    reserved: dict[str, str] = {}
    for pack in packs:
        for name in pack.distribution.tools if pack.state != "failed" else ():
            reserved.setdefault(name, pack.name)
    return reserved
