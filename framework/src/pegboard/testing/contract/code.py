"""Rules `settings` and `hooks`: what can be told from a pack's classes once they are imported."""

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pegboard import PackFailure
from pegboard.base.text import one_line
from pegboard.config.settings import takes_settings
from pegboard.dispatch.plans import KERNEL_SPECS, marked, read_implementations, specs_of
from pegboard.hookspecs import KERNEL_HOOKS
from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen

if TYPE_CHECKING:
    from pydantic import BaseModel


def check_settings(specimen: Specimen) -> Iterator[Finding]:
    """Make the pack with its defaults; yield what is wrong with its settings or its constructor."""
    target, where = specimen.target, specimen.place_of(specimen.target)
    if not isinstance(target, type):
        specimen.instance = target
        return
    try:
        model = takes_settings(target)
    except PackFailure as failure:
        mend = "write `def __init__(self, settings: Settings)`, `Settings` being a pydantic model, or take nothing"
        yield Finding("settings", str(failure), where, mend)
        return
    settings = None
    if model is not None:
        found = list(_faults_of(specimen, model))
        yield from found
        if found:
            return
        settings = model()
    try:
        specimen.instance = target() if settings is None else target(settings=settings)
    except Exception as error:
        what = f"`{target.__name__}` can't be made with its default settings: {type(error).__name__}: {error}"
        yield Finding("settings", what, where, "leave what may fail to `host_started` or `run_starting`")


def _faults_of(specimen: Specimen, model: "type[BaseModel]") -> Iterator[Finding]:
    from pydantic import ValidationError

    where = specimen.place_of(model)
    try:
        model.model_json_schema()
    except Exception as error:
        what = f"`{model.__name__}` has no JSON Schema: {error}"
        yield Finding("settings", what, where, "use types that a TOML file can say")
    missing = [name for name, each in model.model_fields.items() if each.is_required()]
    for name in missing:
        what = f"the setting `{name}` has no default, so the pack fails until somebody sets it"
        yield Finding("settings", what, where, "give it a default; what can't have one is asked for when it is needed")
    if missing:
        return
    try:
        model.model_validate(model().model_dump())
    except ValidationError as error:
        for entry in error.errors():
            key = ".".join(str(part) for part in entry["loc"])
            what = f"the default of the setting `{key}` does not fit its own type: {entry['msg']}"
            yield Finding("settings", what, where, "correct the default or the type")
    except Exception as error:
        what = f"`{model.__name__}` can't be made of its defaults: {type(error).__name__}: {error}"
        yield Finding("settings", what, where, "let the model only check, without effects")


def check_hooks(specimen: Specimen) -> Iterator[Finding]:
    """Yield a hook that does not exist or whose signature does not fit, and functions that only look like one."""
    yield from _misfits(specimen)
    for container in dict.fromkeys([specimen.target, *specimen.classes()]):
        known = {name for name, _, _ in marked(container)}
        for name in sorted(KERNEL_HOOKS - known):
            function = inspect.getattr_static(container, name, None)
            if inspect.isfunction(function) and specimen.is_own(function.__module__) and _is_first(specimen, container):
                what = f"`{name}` is named like a hook but is not marked, so it is never called"
                mend = f"write `@implements(hooks.{name})` above it, or give it another name"
                yield Finding("hooks", what, specimen.place_of(function), mend)


def _misfits(specimen: Specimen) -> Iterator[Finding]:
    pack = next(pack for pack in specimen.open().packs if pack.name == specimen.name)
    if pack.state == "active":
        return
    own = [spec for bring in specimen.implementations("register_hookspecs") for spec in bring() or ()]
    specs = {**KERNEL_SPECS, **{spec.name: spec for container in own for spec in specs_of(container, specimen.name)}}
    try:
        read_implementations(specimen.instance, specs)
    except PackFailure as failure:
        if one_line(str(failure), 4000) != pack.reason:
            return  # another failure came first; the rule `alone` tells it
        where = specimen.place_of(specimen.target)
        mend = "write it as the hooks reference does; `pegboard hooks` lists the names"
        yield Finding("hooks", str(failure), where, mend)


def _is_first(specimen: Specimen, container: object) -> bool:
    """Whether a container's functions are told about: the pack, and classes that implement something themselves."""
    return container is specimen.target or any(marked(container))
