"""Filling the template: all of a new folder appears at once, or nothing does."""

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pegboard import PegboardError, UsageError

from pegboard_new.answers import Answers

_SHIPPED: Final = Path(__file__).parent / "template"
_IN_THE_REPOSITORY: Final = Path(__file__).parents[4] / "cookiecutter-template"


def template_dir() -> Path:
    """Return the template that came with the wheel; in an editable install it is the repository's."""
    return _SHIPPED if _SHIPPED.is_dir() else _IN_THE_REPOSITORY


def questions() -> dict[str, Any]:
    """Return what the template asks for, as its cookiecutter.json has it."""
    read: dict[str, Any] = json.loads((template_dir() / "cookiecutter.json").read_text("utf-8"))
    return read


def generate(answers: Answers, into: Path) -> Path:
    """Write the new project into a folder of its own; returns that.

    Raises:
        UsageError: the folder exists, or there is nowhere to make it.
        PegboardError: it can't be written; nothing is left of it.
    """
    project = into / answers.distribution
    try:
        if not into.is_dir():
            raise UsageError(f"{into} is no folder; make it first, or choose another one with --into")
        if os.path.lexists(project):
            raise UsageError(f"{project} exists and is left as it is; choose another name, or another place by --into")
        with tempfile.TemporaryDirectory(prefix=".pegboard-new-", dir=into) as draft:
            _fill(answers, Path(draft))
            os.rename(Path(draft) / answers.distribution, project)
    except OSError as error:
        raise PegboardError(f"{project} can't be written: {error.strerror or error}") from error
    return project


def _fill(answers: Answers, into: Path) -> None:
    from cookiecutter.generate import generate_files  # type: ignore[import-untyped]
    from cookiecutter.prompt import prompt_for_config  # type: ignore[import-untyped]

    asked = {"cookiecutter": {**questions(), **asdict(answers)}}
    context = {"cookiecutter": prompt_for_config(asked, no_input=True)}
    generate_files(str(template_dir()), context=context, output_dir=str(into), accept_hooks=False)
