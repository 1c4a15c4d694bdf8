"""Every setting with its default: what is in force, and what a file may hold."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard.agents.definition import Definition
from pegboard.base.errors import Problem
from pegboard.config.layers import Config, KeyPath
from pegboard.config.settings import read_settings
from pegboard.packs.survey import Pack

if TYPE_CHECKING:
    from pydantic import BaseModel

_DEFAULT: Final = "default"
Row = tuple[str, Any, str]
_KERNEL: Final[dict[KeyPath, Any]] = {
    ("packs", "default"): "on",
    ("tools", "off"): [],
    ("interactions", "front_ends"): [],
}
_NAMES: Final = {"type": "array", "items": {"type": "string"}}


def effective_rows(
    config: Config, packs: Iterable[Pack], settings: "Mapping[str, BaseModel]"
) -> tuple[list[Row], list[Problem]]:
    """Return (key, value, who decided) for all that is in force, and what is wrong with the agents."""
    rows: dict[KeyPath, tuple[Any, str]] = {path: (value, _DEFAULT) for path, value in _KERNEL.items()}
    rows.update({setting.path: (setting.value, setting.where) for setting in config.settings()})
    wrong: list[Problem] = []
    for name in {"main": None, **config.table("agents")}:
        definition, problems = read_settings(config, ("agents", name), Definition)
        wrong += problems
        if definition:
            rows.update(_of_model(config, ("agents", name), definition))
    for pack in packs:
        rows["packs", pack.name, "enabled"] = (pack.state in ("enabled", "active", "waiting"), pack.decided_by)
        if pack.name in settings:
            rows.update(_of_model(config, ("packs", pack.name), settings[pack.name]))
    return [(".".join(path), *rows[path]) for path in sorted(rows)], wrong


def _of_model(config: Config, path: KeyPath, model: "BaseModel") -> dict[KeyPath, tuple[Any, str]]:
    dumped = _leaves(model.model_dump(mode="json", fallback=str), path)
    return {inner: (value, _where(config, inner)) for inner, value in dumped}


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    else:
        yield path, value


def _where(config: Config, path: KeyPath) -> str:
    """Say who decided: each layer that adds to a narrowing list, else the strongest one that sets the value."""
    if path in config.notes.taken and config.offered:
        layers = [*config.layers, config.offered]
        return ", ".join(layer.locate(path) for layer in layers if layer.at(path) is not None)
    setting = config.get(*path)
    return setting.where if setting else _DEFAULT


def file_schema(packs: Iterable[Pack], models: "Mapping[str, type[BaseModel]]", hooks: Iterable[str]) -> dict[str, Any]:
    """Return a JSON Schema of the whole configuration file. A pack that was not loaded may hold anything."""
    shared: dict[str, Any] = {}
    agent = _schema_of(Definition, "agent", shared)
    tables = {pack.name: _pack_schema(pack, models.get(pack.name), shared) for pack in packs}
    default = {"enum": ["on", "off"], "description": "Whether a pack is on that no setting names."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pegboard's configuration",
        **_table(
            agents={"type": "object", "additionalProperties": agent, "description": "Agent definitions by name."},
            packs={
                "type": "object",
                "properties": {"default": default, **tables},
                "additionalProperties": {"type": "object"},
            },
            tools=_table(
                off={**_NAMES, "description": "Tools that no agent gets."},
                owner={"type": "object", "additionalProperties": {"enum": sorted(tables)}},
            ),
            hooks=_table(order=_table(**dict.fromkeys(sorted(hooks), _NAMES))),
            interactions=_table(front_ends={**_NAMES, "description": "Packs that may answer for a person."}),
        ),
        "$defs": shared,
    }


def _table(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _pack_schema(pack: Pack, model: "type[BaseModel] | None", shared: dict[str, Any]) -> dict[str, Any]:
    own = {
        "enabled": {"type": "boolean", "description": "Off: not imported, its tools are gone."},
        "required": {"type": "boolean", "description": "Nothing runs unless the pack is active."},
    }
    if model is None:
        return {"type": "object", "properties": own, "additionalProperties": pack.state != "active"}
    made = _schema_of(model, pack.name, shared)
    made["properties"] = {**own, **made.get("properties", {})}
    return {**made, "additionalProperties": False}


def _schema_of(model: "type[BaseModel]", name: str, shared: dict[str, Any]) -> dict[str, Any]:
    """Return a model's schema; what it refers to goes to `shared` under names of its own."""
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        made = model.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    except PydanticInvalidForJsonSchema:
        return {"type": "object", "additionalProperties": True}
    for inner, schema in made.pop("$defs", {}).items():
        shared[f"{name}.{inner}"] = schema
    return made
