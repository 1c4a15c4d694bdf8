"""One table out of all layers, for a settings model: what a project may not set is left out, narrowing lists add up."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegboard.config.environment import split_names
from pegboard.config.field_rules import Pattern, field_keys, marked_fields, narrowing, user_only
from pegboard.config.layers import NEVER_FROM_A_PROJECT, Config, KeyPath, Layer, Table, merge_tables

if TYPE_CHECKING:
    from pydantic import BaseModel


def merge_settings(config: Config, path: KeyPath, model: "type[BaseModel]", *, offer: bool = True) -> Table:
    """Return the table at `path` as the model should get it; notes what was taken of a project and what was refused.

    Without `offer` a project adds nothing before it is trusted.
    """
    users_only = marked_fields(model, user_only)
    rows = [_Row(layer, _allowed(config, layer, path, users_only)) for layer in config.layers]
    table = merge_tables(row.table for row in rows)
    narrowed = [pattern for pattern in marked_fields(model, narrowing) if pattern not in users_only]
    offered = config.offered.at(path) if config.offered and offer else None
    for pattern in narrowed:
        for field in dict.fromkeys([*_expand(pattern, table), *_expand(pattern, offered)]):
            _add_up(config, path, model, rows, table, field, _at(offered, field))
    return table


@dataclass(frozen=True, slots=True)
class _Row:
    layer: Layer
    table: Table


def _allowed(config: Config, layer: Layer, path: KeyPath, users_only: Sequence[Pattern]) -> Table:
    """Return what a layer sets at `path`, a project's without what only the user may set."""
    table = layer.at(path)
    if not isinstance(table, dict):
        return {}
    if layer.kind != "project" or not users_only:
        return table
    kept = copy.deepcopy(table)
    for pattern in users_only:
        for field in _remove(kept, pattern):
            config.notes.refuse(layer, (*path, *field), NEVER_FROM_A_PROJECT)
    return kept


def _add_up(
    config: Config,
    path: KeyPath,
    model: "type[BaseModel]",
    rows: Sequence[_Row],
    table: Table,
    field: KeyPath,
    more: Any,
) -> None:
    """Put into `table`, at `field`, what all layers list there; `more` is what the project offers.

    The user's own list takes the place of the pack's default one; a project's never does.
    """
    users, projects, above = _lists(rows, path, field)
    if more is not None and config.offered:
        if not isinstance(more, list) or not _make_room(table, model, field):
            told = "has no place in the settings that are in use" if isinstance(more, list) else "must be a list"
            config.notes.refuse(config.offered, (*path, *field), f"not taken: {told}")
        else:
            projects = [*projects, more]
            config.notes.taken.add((*path, *field))
    if not all(isinstance(part, list) for part in (*users, *projects, *above)):
        return  # the model says what is wrong
    if projects or len(users) + len(above) > 1:
        default = [] if users or above else _default(model, field)
        found: list[Any] = []
        for part in (default, *users, *projects, *above):
            found += [item for item in part if item not in found]
        _put(table, field, found)


def _lists(rows: Sequence[_Row], path: KeyPath, field: KeyPath) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what the user's files list, what a trusted project does, and what stands above both."""
    users: list[Any] = []
    projects: list[Any] = []
    above: list[Any] = []
    for row in rows:
        value = _at(row.table, field)
        if value is None:
            continue
        text = row.layer.raw.get((*path, *field))
        if text is not None and not isinstance(value, list):
            value = split_names(text)
        side = {"project": projects, "environment": above, "command line": above}.get(row.layer.kind, users)
        side.append(value)
    return users, projects, above


def _make_room(table: Table, model: "type[BaseModel]", field: KeyPath) -> bool:
    """Give `field` a table to stand in that says what the defaults say; returns whether there can be one."""
    for index, key in enumerate(field[:-1]):
        if key not in table:
            default = _plain(_default_of(model, field[: index + 1]))
            if not isinstance(default, dict):
                return False
            table[key] = default
        table = table[key]
        if not isinstance(table, dict):
            return False
    return True


def _default(model: "type[BaseModel]", field: KeyPath) -> list[Any]:
    value = _default_of(model, field)
    return list(value) if isinstance(value, list | tuple | set | frozenset) else []


def _default_of(model: Any, field: KeyPath) -> Any:
    """Return the default of a field, or of a field inside of it; None if there is none."""
    for name, info in getattr(model, "model_fields", {}).items():
        if field[0] in field_keys(name, info):
            default = None if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
            if len(field) == 1:
                return default
            if hasattr(info.annotation, "model_fields"):
                return (
                    getattr(default, field[1], None) if default is not None else _default_of(info.annotation, field[1:])
                )
            return _at(_plain(default), field[1:])
    return None


def _plain(value: Any) -> Any:
    """Return models as tables, also those in tables."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return {key: _plain(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


def _expand(pattern: Pattern, value: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the key paths in a table that a pattern fits; never into lists."""
    if not pattern:
        yield above
    elif isinstance(value, dict):
        for key in [pattern[0]] if pattern[0] is not None else list(value):
            if key in value:
                yield from _expand(pattern[1:], value[key], (*above, key))


def _remove(value: Any, pattern: Pattern, above: KeyPath = ()) -> Iterator[KeyPath]:
    """Remove from tables and lists what a pattern fits; yields the key paths, those in lists up to the list."""
    if isinstance(value, list):
        if pattern[0] is None and len(pattern) > 1:
            for item in value:
                yield from (above for _ in _remove(item, pattern[1:]))
        elif pattern[0] is None:
            value.clear()
            yield above
    elif isinstance(value, dict):
        for key in [pattern[0]] if pattern[0] is not None else list(value):
            if key not in value:
                continue
            if len(pattern) == 1:
                del value[key]
                yield (*above, key)
            else:
                yield from _remove(value[key], pattern[1:], (*above, key))


def _at(value: Any, field: KeyPath) -> Any:
    for key in field:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _put(table: Table, field: KeyPath, value: Any) -> None:
    for key in field[:-1]:
        table = table.setdefault(key, {})
    table[field[-1]] = value
