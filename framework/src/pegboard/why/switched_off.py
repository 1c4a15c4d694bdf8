"""Which lines of the configuration switch a pack or a tool off, and what takes each of them away."""

from collections.abc import Iterator
from dataclasses import dataclass

from pegboard.base.text import one_line
from pegboard.config.layers import Config, KeyPath, Layer


@dataclass(frozen=True, slots=True)
class Line:
    """A setting that keeps a pack off: what it says, where, and what to do about it."""

    setting: str
    where: str
    mend: str


def lines_that_disable(config: Config, pack: str) -> Iterator[Line]:
    """Yield every setting that keeps the pack off, the one that decides first, then those that would without it."""
    path: KeyPath = ("packs", pack, "enabled")
    for layer in reversed(config.layers):
        value = layer.at(path)
        if value is True:
            return
        if value is False:
            mend = f"pegboard packs enable {pack}" if _is_users(layer) else _undo(layer, path, f"--disable {pack}")
            yield Line(f"packs.{pack}.enabled = false", layer.locate(path), mend)
    for layer in reversed(config.layers):
        value = layer.at(("packs", "default"))
        if value == "off":
            yield Line('packs.default = "off"', layer.locate(("packs", "default")), f"pegboard packs enable {pack}")
        elif value is not None:
            return


def lines_that_list_off(config: Config, tool: str) -> Iterator[tuple[str, str]]:
    """Yield every place where `[tools] off` names the tool, with what to do about it; all of them count."""
    path: KeyPath = ("tools", "off")
    for layer in reversed(config.layers):
        names = layer.at(path)
        if isinstance(names, list) and tool in map(str, names):
            where = layer.locate(path)
            yield where, f"take `{one_line(tool, 80)}` out of {where}"


def _is_users(layer: Layer) -> bool:
    """Whether what `pegboard packs enable` remembers is stronger than the layer."""
    return layer.kind in ("user file", "user state")


def _undo(layer: Layer, path: KeyPath, option: str) -> str:
    if layer.kind == "command line":
        return f"leave out {option}"
    where = layer.locate(path)
    return f"unset {where}" if layer.kind == "environment" else f"remove {where}"
