"""Rule `tools`: a model, a guard and a person know from the definition alone what a tool takes, does and touches."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pegboard import Tool
from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen
from pegboard.values.tool import no_touches

# Parameters that name something outside of the call -> how to say so.
_REACHING: Final[Mapping[str, re.Pattern[str]]] = {
    "path": re.compile(r"(.+_)?(path|file|filename|folder|directory|dir)s?"),
    "url": re.compile(r"(.+_)?(url|uri)s?"),
    "command": re.compile(r"(.+_)?(command|cmd|argv)"),
}


def check_handed_over(specimen: Specimen) -> Iterator[Finding]:
    """Yield what the definitions leave open of the tools that the pack hands over with `register_tools`."""
    for hand_over in specimen.implementations("register_tools"):
        where = specimen.place_of(hand_over)
        try:
            things = list(hand_over() or ())
        except Exception as error:
            what = f"`register_tools` fails: {type(error).__name__}: {error}"
            yield Finding("tools", what, where, "mend the definition, or leave what may fail to `run_starting`")
            continue
        for thing in things:
            if not isinstance(thing, Tool):
                what = f"`register_tools` hands over a {type(thing).__name__}, which is no tool"
                yield Finding("tools", what, where, "mark the function `@tool`")
        specimen.tools += tuple(thing for thing in things if isinstance(thing, Tool))
    yield from _check(specimen, specimen.tools)


def check_registered(specimen: Specimen) -> Iterator[Finding]:
    """Yield the same of the tools that it registered while a host or an agent lived."""
    known = {tool.name for tool in specimen.tools}
    later = tuple({tool.name: tool for tool in specimen.registered if tool.name not in known}.values())
    specimen.tools += later
    yield from _check(specimen, later)


def _check(specimen: Specimen, tools: Iterable[Tool]) -> Iterator[Finding]:
    for tool in tools:
        for what, mend in _faults_of(tool):
            yield Finding("tools", f"tool `{tool.name}` {what}", specimen.place_of(tool), mend)


def _faults_of(tool: Tool) -> Iterator[tuple[str, str]]:
    try:
        parameters = tool.definition["parameters"].get("properties", {})
        tool.output.schema()
    except Exception as error:
        yield f"has no schema: {type(error).__name__}: {error}", "use types that JSON can say"
        return
    if not tool.description.strip():
        yield "has no description", "say in its docstring what it does, and when to use it"
    for name, schema in parameters.items() if not tool.server else ():
        if not schema.get("description"):
            mend = f"write a line `{name}: ...` below `Args:` in the docstring"
            yield f"does not say what its parameter `{name}` is", mend
    yield from _faults_of_touches(tool, parameters)


def _faults_of_touches(tool: Tool, parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    reaching = {name: kind for name in parameters for kind, words in _REACHING.items() if words.fullmatch(name)}
    if tool.touches is no_touches:
        for name, kind in reaching.items() if not tool.server else ():
            mend = f"say `touches=lambda {name}, **_: [Touch.{kind}({name})]`, or rename the parameter"
            yield f"takes a {kind} in `{name}` and touches nothing, so no guard can judge it", mend
        return
    if tool.effect == "read" and "command" in reaching.values():
        yield 'runs a command and says `effect="read"`', 'say `effect="write"`: a command may change anything'
    required = tool.definition["parameters"].get("required", [])
    for given in (parameters, required):
        try:
            inspect.signature(tool.touches).bind(**dict.fromkeys(given))
        except TypeError as error:
            mend = "let it take each by keyword, with Python's own defaults, and the others as `**_`"
            yield f"has `touches` that do not take its arguments: {error}", mend
            return
