"""A pack's own settings: a pydantic model in its constructor, filled from `[packs.<name>]`."""

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from pegboard.base.errors import PackFailure, Problem
from pegboard.base.text import did_you_mean
from pegboard.config.environment import split_names
from pegboard.config.field_rules import narrowing as narrowing
from pegboard.config.field_rules import user_only as user_only
from pegboard.config.kernel_tables import OWN_KEYS
from pegboard.config.layers import Config, KeyPath
from pegboard.config.merging import merge_settings

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_Model = TypeVar("_Model", bound="BaseModel")
_LISTS: Final = ("list_type", "tuple_type", "set_type", "frozen_set_type")


def takes_settings(pack: type) -> "type[BaseModel] | None":
    """Return the settings model that a pack class asks for: the annotation of its `settings` parameter.

    Raises:
        PackFailure: the constructor takes something else, or the annotation is no pydantic model.
    """
    parameters = dict(inspect.signature(pack).parameters)
    parameter = parameters.pop("settings", None)
    for name, other in parameters.items():
        if other.default is other.empty and other.kind not in (other.VAR_POSITIONAL, other.VAR_KEYWORD):
            raise PackFailure(f"{pack.__name__}.__init__ takes `{name}`; a pack's takes nothing or `settings`")
    if parameter is None:
        return None
    from pydantic import BaseModel

    constructor: Any = pack.__init__  # type: ignore[misc]
    model = get_type_hints(constructor).get("settings")
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        raise PackFailure(f"{pack.__name__}.__init__: annotate `settings` with a pydantic model")
    return model


def build_settings(
    config: Config, pack: str, model: "type[BaseModel] | None", problems: list[Problem]
) -> "BaseModel | None":
    """Check a pack's table against its model; every mistake also goes to `problems`.

    Raises:
        PackFailure: with all mistakes in one line.
    """
    path = ("packs", pack)
    if model is None:
        given = [key for key in config.table(*path) if key not in OWN_KEYS]
        wrong = [config.problem((*path, key), "no such setting; this pack has none") for key in given]
        settings = None
    else:
        settings, wrong = read_settings(config, path, model)
    if wrong:
        problems.extend(wrong)
        told = (f"{p.key} ({p.where}) {p.text}" if p.where else f"{p.key} {p.text}" for p in wrong)
        raise PackFailure(f"bad settings: {'; '.join(told)}")
    return settings


def read_settings(config: Config, path: KeyPath, model: type[_Model]) -> tuple[_Model | None, list[Problem]]:
    """Fill a model from all layers, each with what it may set; returns it, or None and what is wrong with each key.

    What a project may not set is noted in `config.ignored`. Additions of an untrusted project that the model refuses
    are left out: it never stops the user's work.
    """
    settings, wrong = check_table(config, path, model, _own(path, merge_settings(config, path, model)))
    if wrong and not config.trusted and config.offered and config.offered.at(path):
        settings, wrong_without = check_table(
            config, path, model, _own(path, merge_settings(config, path, model, offer=False))
        )
        if wrong_without != wrong:
            config.notes.refuse(config.offered, path, f"not taken, with it: {wrong[0].text}")
        wrong = wrong_without
    return settings, wrong


def check_table(
    config: Config, path: KeyPath, model: type[_Model], given: Mapping[str, Any]
) -> tuple[_Model | None, list[Problem]]:
    """Validate a table of the configuration; returns the model, or None and what is wrong with each key."""
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(given), extra="forbid"), []
    except ValidationError as error:
        as_text = _as_text(config, path, given, error)
        if as_text is not None:
            return check_table(config, path, model, as_text)
        return None, list(_problems(config, path, model, error))


def _own(path: KeyPath, table: dict[str, Any]) -> dict[str, Any]:
    """Return a pack's table without what is not the pack's to read."""
    return {key: value for key, value in table.items() if path[0] != "packs" or key not in OWN_KEYS}


def _as_text(
    config: Config, path: KeyPath, given: Mapping[str, Any], error: "ValidationError"
) -> dict[str, Any] | None:
    """Return the table with variables' own text where text is wanted, and its parts where a list is.

    A variable that says 2024 may mean "2024"; `read,grep` may mean two names.
    """
    mended = copy.deepcopy(dict(given))
    changed = False
    for entry in error.errors():
        key = tuple(str(part) for part in entry["loc"])
        setting = config.get(*path, *key) if entry["type"] in ("string_type", *_LISTS) else None
        text = setting.layer.raw.get(setting.path) if setting else None
        if text is not None:
            table = mended
            for part in key[:-1]:
                table = table[part]
            table[key[-1]] = text if entry["type"] == "string_type" else split_names(text)
            changed = True
    return mended if changed else None


def _problems(config: Config, path: KeyPath, model: "type[BaseModel]", error: "ValidationError") -> Iterator[Problem]:
    for entry in error.errors():
        key = tuple(str(part) for part in entry["loc"])
        if entry["type"] == "extra_forbidden":
            text = f"no such setting{did_you_mean(key[-1], _fields(model, key[:-1]))}"
        else:
            text = entry["msg"][:1].lower() + entry["msg"][1:]
        yield config.problem((*path, *key), text)


def _fields(model: "type[BaseModel]", inside: tuple[str, ...]) -> list[str]:
    for name in inside:
        field = model.model_fields.get(name)
        if field is None or not hasattr(field.annotation, "model_fields"):
            return []
        model = field.annotation  # type: ignore[assignment]
    return list(model.model_fields)
