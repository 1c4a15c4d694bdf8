"""Packs made on the spot: distributions as an installer would leave them, in a folder on `sys.path`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


class PackFolder:
    """A folder that holds distributions; put it on `sys.path` (and PYTHONPATH, for subprocesses)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self,
        name: str,
        code: str = "",
        *,
        distribution: str | None = None,
        reference: str | None = None,
        version: str = "1.0",
        requires: Sequence[str] = (),
        tools: Iterable[str] = (),
        commands: Mapping[str, str] | None = None,
        policy: bool = False,
        guards: bool = False,
        summary: str = "A sample pack",
    ) -> str:
        """Write a pack whose module has this source (class `Pack` is its object); returns the module's name.

        With a `reference` such as `pegboard.testing.jsonl:JsonlPack` the pack is an object that exists already.
        """
        module = f"sample_{name.replace('-', '_')}"
        (self.path / f"{module}.py").write_text(code, "utf-8")
        reference = reference or f"{module}:Pack"
        lines = ["[pegboard.packs]", f"{name} = {reference}", "[pegboard.tools]"]
        lines += [f"{tool} = {reference}" for tool in tools]
        lines += ["[pegboard.commands]", *(f"{key} = {value}" for key, value in (commands or {}).items())]
        lines += ["[pegboard.policy]", f"{name} = {reference}"] if policy else []
        lines += ["[pegboard.guards]", f"{name} = {reference}"] if guards else []
        dist = distribution or name
        metadata = [f"Name: {dist}", f"Version: {version}", f"Summary: {summary}"]
        metadata += [f"Requires-Dist: {required}" for required in requires]
        self.write_metadata(dist, version, "\n".join(lines) + "\n", "\n".join(metadata) + "\n\nText: not a header\n")
        return module

    def write_metadata(self, distribution: str, version: str, entry_points: str | bytes, metadata: str) -> Path:
        """Write a dist-info folder as it stands; returns it."""
        folder = self.path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        data = entry_points.encode() if isinstance(entry_points, str) else entry_points
        (folder / "entry_points.txt").write_bytes(data)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\n{metadata}", "utf-8")
        return folder
