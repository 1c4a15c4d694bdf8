"""Puts the repository's template into wheels and sources; a wheel made of those sources has it from them."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TemplateHook(BuildHookInterface):
    """Called by hatchling before each build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the folder where it belongs in a wheel, or in the sources."""
        template = Path(self.root).parents[1] / "cookiecutter-template"
        if template.is_dir() and version != "editable":
            place = "pegboard_new" if self.target_name == "wheel" else "src/pegboard_new"
            build_data["force_include"][str(template)] = f"{place}/template"
