"""Choosing a tool for a task and filling in its arguments, from names, descriptions, examples and schemas alone."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pegboard import Tool

from pegboard_models.offline.fulltext import rank
from pegboard_models.offline.task import Task, stem

# A match in an example counts more than one in the description, one in the name most.
_WEIGHTS: Final = (4.0, 1.0, 3.0)
_ASKS: Final = re.compile(r"\bask\w*\b.{0,40}\b(user|person|human|people|somebody|developer)", re.IGNORECASE)
_TEXT_NAMES: Final = ("query", "question", "text", "prompt", "task", "q", "search")


def choose(tools: Sequence[Tool], task: Task) -> list[Tool]:
    """Return the read tools that declare examples and ask nobody, best fit first.

    A tool that speaks of most of the task's words goes before one that searches for any words; the rest comes last.
    """
    usable = (tool for tool in tools if tool.effect == "read" and tool.examples and not _ASKS.search(tool.description))
    candidates = sorted(usable, key=lambda tool: tool.name)
    rows = [(tool.name, tool.description, " ".join(tool.examples)) for tool in candidates]
    ranked = [candidates[row] for _, row in rank(rows, [task.text], _WEIGHTS)]
    ranked += [tool for tool in candidates if tool not in ranked]
    return sorted(ranked, key=lambda tool: 0 if _speaks_of(tool, task) else 1 if is_search(tool) else 2)


def _speaks_of(tool: Tool, task: Task) -> bool:
    """Whether more than half of the task's words, quotes left out, stand in what the tool says of itself."""
    told = " ".join([tool.name, tool.description, *tool.examples, *tool.parameters.get("properties", {})])
    known = {stem(word) for word in _words(told)}
    words = [word for term in task.terms if term not in task.quoted for word in _words(term)]
    return 2 * sum(stem(word) in known for word in words) > len(words) or not words


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W_]+", text)]


def is_search(tool: Tool) -> bool:
    """Whether a tool takes a regular expression, so that it is asked once for each word."""
    return "pattern" in _required(tool) and "glob" in tool.parameters.get("properties", {})


def is_list(tool: Tool) -> bool:
    """Whether a tool lists the files whose paths match a pattern."""
    return "pattern" in _required(tool) and not is_search(tool)


def is_reader(tool: Tool) -> bool:
    """Whether a tool reads a range of lines of a file."""
    return {"path", "start", "end"} <= set(tool.parameters.get("properties", {}))


def fill(tool: Tool, task: Task) -> tuple[dict[str, Any], list[str]]:
    """Return arguments for a tool from the task's words, and the required parameters that nothing fits."""
    arguments: dict[str, Any] = {}
    missing: list[str] = []
    numbers = list(task.numbers)
    required = _required(tool)
    texts = [name for name in required if _type(tool, name) == "string"]
    for name, schema in tool.parameters.get("properties", {}).items():
        value = _value(name, schema, task, numbers, only_text=texts == [name])
        if value is not None:
            arguments[name] = value
        elif name in required:
            missing.append(name)
    return arguments, missing


def _value(name: str, schema: Mapping[str, Any], task: Task, numbers: list[int], *, only_text: bool) -> Any:
    if options := schema.get("enum"):
        words = {stem(word) for word in _words(task.text)}
        return next((option for option in options if stem(str(option).lower()) in words), None)
    match schema.get("type"):
        case "integer" | "number" if numbers:
            return numbers.pop(0)
        case "string" if name == "path" or name.endswith(("_path", "file")):
            return task.paths[0] if task.paths else None
        case "string" if name == "pattern":
            return _glob(task)
        case "string" if name in _TEXT_NAMES or only_text:
            return task.quoted[0] if task.quoted else " ".join(task.terms) or task.text
        case "string" if task.quoted and not schema.get("default"):
            return task.quoted[0]
    return None


def _glob(task: Task) -> str | None:
    """Make a glob from what a task says about files: an extension or a language; without that, there is none."""
    kinds = {"python": "*.py", "markdown": "*.md", "javascript": "*.js", "typescript": "*.ts", "toml": "*.toml",
             "json": "*.json", "yaml": "*.{yml,yaml}", "rust": "*.rs", "go": "*.go", "java": "*.java",
             "test": "*test*", "tests": "*test*"}  # fmt: skip
    if stars := [quote for quote in task.quoted if "*" in quote]:
        return stars[0]
    words = _words(task.text)
    if not {"file", "files", "folder", "directory"} & set(words):
        return None
    return next((kinds[word] for word in words if word in kinds), "*")


def _required(tool: Tool) -> list[str]:
    return list(tool.parameters.get("required", ()))


def _type(tool: Tool, name: str) -> Any:
    return tool.parameters["properties"][name].get("type")
