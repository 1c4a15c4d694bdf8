"""Writes the reference pages from the code: `.venv/bin/uv run python docs/generate.py`; a test compares them.

python docs/generate.py [FOLDER]      writes into FOLDER instead of docs/reference
"""

import inspect
import sys
from dataclasses import fields
from pathlib import Path

from api import api
from pegboard import Host, Tool
from pegboard.hookspecs import Hooks
from pegboard.packs.discovery import discover
from pegboard.values.events import EVENTS, Event
from pegboard.values.hook_markers import policy_of

HERE = Path(__file__).parent
NOTE = "<!-- written by docs/generate.py; change the code instead -->\n\n"
DOCUMENTED = ("models", "tape", "workspace")
ORDERS = """Kinds: `collect` takes all items; `first` the first answer that is not None; `in order` and `observers` have
no answer; `concurrent` has none and runs all at once; a `fold` hands a value from one implementation to the next, each
returning a replacement or None; `around` wraps what happens; `all asked` takes every answer; in a `race` the first one
wins.

Orders: `load` order is what a pack builds on first, then by name, the agent's own last; `reversed` is that backwards;
`pluggy` order is `tryfirst`, then the last registered first, then `trylast`, the agent's own before all. The user's
`[hooks.order]` has the last word; `pegboard hooks HOOK` shows the order in force, with reasons."""


def hooks() -> str:
    """The page of the kernel's hooks."""
    page = [
        "# Hooks\n",
        "Implement any of these in a pack, marked `@implements(hooks.NAME)`: a type checker compares the function with "
        "what stands here.\n",
        ORDERS + "\n",
    ]
    for name, function in vars(Hooks).items():
        if name.startswith("_"):
            continue
        arguments = ", ".join(p for p in inspect.signature(function).parameters if p != "self")
        policy = policy_of(function)
        colour = "sync" if policy.sync else "sync or async"
        page.append(f"## `{name}({arguments})`\n")
        page.append(f"{policy.kind} · on failure: {policy.failure} · {colour} · {policy.order} order\n")
        page.append(inspect.getdoc(function) + "\n")
    return NOTE + "\n".join(page)


def tools() -> str:
    """The page of the built-in packs' tools."""
    found = [distribution for distribution in discover() if distribution.pack and distribution.pack[0] in DOCUMENTED]
    host = Host.open(environ={}, distributions=found)
    page = ["# Tools of the built-in packs\n"]
    for entry in host.snapshot().offered:
        page.append(f"## `{entry.tool.name}`\n")
        page.append(f"pack `{entry.pack}` · {entry.tool.effect} · {entry.tool.concurrency}\n")
        page.append(entry.tool.description + "\n")
        page.append(_parameters(entry.tool))
        if entry.tool.examples:
            page.append("Fits tasks such as: " + " · ".join(f"“{task}”" for task in entry.tool.examples) + "\n")
    return NOTE + "\n".join(page)


def _parameters(tool: Tool) -> str:
    rows = ["| parameter | type | default | |", "|---|---|---|---|"]
    required = tool.parameters.get("required", [])
    for name, schema in tool.parameters.get("properties", {}).items():
        kinds = [option.get("type", "object") for option in schema.get("anyOf", [schema])]
        default = "required" if name in required else f"`{schema.get('default')}`"
        rows.append(f"| `{name}` | {' or '.join(kinds)} | {default} | {schema.get('description', '')} |")
    return "\n".join(rows) + "\n"


def events() -> str:
    """The page of the events of a session."""
    head = (
        "What happens in a session is recorded as these events, version 1, in order: runs, transcript, interactions "
        "and snapshots are folds over them (`pegboard.folds`). As JSON each has `v` (1), `type`, `session`, `run` and "
        "`ts` first; types and fields may be added. `pegboard run --json` prints the *streamed* ones."
    )
    page = ["# Events\n", f"{head}\n"]
    own = {field.name for field in fields(Event)}
    for kind in EVENTS:
        names = " ".join(f"`{field.name}`" for field in fields(kind) if field.name not in own)
        marks = [word for word, is_so in (("recorded", kind.recorded), ("streamed", kind.streamed)) if is_so]
        page.append(f"## `{kind.type}`\n")
        page.append(f"{' · '.join(marks)}\n")
        page.append(f"{inspect.getdoc(kind)}\n")
        page.append(f"{names}\n")
    return NOTE + "\n".join(page)


def main() -> None:
    """Write all pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "reference"
    for name, page in (("hooks", hooks()), ("tools", tools()), ("events", events()), ("api", NOTE + api())):
        (folder / f"{name}.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()
