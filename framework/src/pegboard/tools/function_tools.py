"""`@tool`: a typed function becomes a tool, its schema and checks derived from annotations and docstring."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, get_type_hints, overload

from pegboard.base.errors import InvalidArguments
from pegboard.base.frozen import read_object
from pegboard.base.text import count, json_text
from pegboard.tools.inlining import inlined
from pegboard.tools.plain_types import plain_schema, without_none
from pegboard.values.tool import (
    TOOL_NAME,
    Body,
    Concurrency,
    Effect,
    Exposure,
    Output,
    Present,
    Tool,
    Touch,
    no_touches,
)

_CONTEXT: Final = "ctx"
_ARGUMENT_LINE: Final = re.compile(r"(\w+)(?: \([^)]*\))?:\s*(.*)")


@overload
def tool(function: Body, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = "write",
    concurrency: Concurrency = "exclusive",
    exposure: Exposure = "user-configurable",
    timeout: float | None = None,
    touches: Callable[..., Iterable[Touch]] = no_touches,
    present: Present | None = None,
    render: Callable[[Any], str] | None = None,
    summarize: Callable[[Any], str] | None = None,
    examples: Sequence[str] = (),
    inline: bool = False,
) -> Callable[[Body], Tool]: ...
def tool(
    function: Body | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = "write",
    concurrency: Concurrency = "exclusive",
    exposure: Exposure = "user-configurable",
    timeout: float | None = None,
    touches: Callable[..., Iterable[Touch]] = no_touches,
    present: Present | None = None,
    render: Callable[[Any], str] | None = None,
    summarize: Callable[[Any], str] | None = None,
    examples: Sequence[str] = (),
    inline: bool = False,
) -> Tool | Callable[[Body], Tool]:
    """Turn a typed function into a `Tool`; hand the result over with `register_tools`.

    Parameters come from the annotations, their descriptions from the docstring's `Args:` section; the text before
    it is the tool's description. A parameter named `ctx` gets the `ToolContext`. A tool is `write` and `exclusive`
    unless it says otherwise. `render` turns the returned value into what the model reads (a string as it is,
    anything else as JSON), `summarize` into the few words a person sees.

    Raises:
        TypeError: a parameter without annotation, no docstring, or a bad name or timeout.

    Example:
        >>> @tool(effect="read")
        ... def double(number: int) -> int:
        ...     '''Double a number.'''
        ...     return 2 * number
        >>> double.parameters["required"]
        ['number']
    """

    def build(body: Body) -> Tool:
        tool_name = name or body.__name__
        description, described = _parse_docstring(tool_name, body)
        signature = inspect.signature(body)
        return Tool(
            name=tool_name,
            description=description,
            arguments=FunctionArguments(tool_name, body, signature, described),
            output=_derive_output(body, signature.return_annotation, render, summarize),
            body=body,
            effect=effect,
            concurrency=concurrency,
            exposure=exposure,
            timeout=timeout,
            touches=touches,
            present=present,
            examples=tuple(examples),
            takes_context=_CONTEXT in signature.parameters,
            is_async=inspect.iscoroutinefunction(body),
            inline=inline,
        )

    return build if function is None else build(function)


class FunctionArguments:
    """The parameters of one function, checked by pydantic: unknown keys are refused, nothing is converted."""

    def __init__(self, tool_name: str, body: Body, signature: inspect.Signature, described: Mapping[str, str]) -> None:
        self._body = body
        self._described = described
        self._parameters = {name: p for name, p in signature.parameters.items() if name != _CONTEXT}
        for name, parameter in self._parameters.items():
            if parameter.annotation is parameter.empty:
                raise TypeError(f'tool "{tool_name}": parameter `{name}` has no type annotation')
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f'tool "{tool_name}": parameter `{name}` must be usable by keyword')

    @cached_property
    def _adapter(self) -> Any:
        from typing import NotRequired

        from pydantic import ConfigDict, Field, TypeAdapter, with_config
        from typing_extensions import TypedDict

        hints = get_type_hints(self._body, include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            annotation = hints[name]
            if name in self._described:
                annotation = Annotated[annotation, Field(description=self._described[name])]
            fields[name] = annotation if parameter.default is parameter.empty else NotRequired[annotation]
        shape = TypedDict("Arguments", fields)  # type: ignore[misc]  # made at run time
        return TypeAdapter(with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))(shape))

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the parameters, with Python's defaults, as `inlined` writes it."""
        hints = get_type_hints(self._body, include_extras=True)
        properties = {name: self._plain(name, hints[name]) for name in self._parameters}
        if any(made is None for made in properties.values()):
            return self._schema_by_pydantic()
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required := [name for name, parameter in self._parameters.items() if parameter.default is parameter.empty]:
            schema["required"] = required
        return schema

    def _plain(self, name: str, annotation: Any) -> dict[str, Any] | None:
        default = self._parameters[name].default
        made = plain_schema(without_none(annotation) if default is None else annotation)
        if made is not None:
            if name in self._described:
                made["description"] = self._described[name]
            if self._shows(default) and not (default is None and without_none(annotation) is not annotation):
                made["default"] = default
        return made

    def _schema_by_pydantic(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._adapter.json_schema()
        for name, parameter in self._parameters.items():
            if self._shows(parameter.default):
                schema["properties"][name]["default"] = parameter.default
        return inlined(schema)

    @staticmethod
    def _shows(default: Any) -> bool:
        return default is not inspect.Parameter.empty and _is_json(default)

    def parse(self, text: str, read: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check JSON text against the annotations; what is missing keeps Python's own default.

        A null that the annotation of a parameter with a default refuses means that it is missing: models write it so.
        """
        given = read_object(text) if read is None else read  # pydantic would let NaN and infinities pass
        try:
            checked: dict[str, Any] = self._adapter.validate_json(text or "{}", strict=True)
        except ValueError as error:  # a ValidationError is one; its import would cost every call
            if not hasattr(error, "errors"):
                raise
            wrong = error.errors()
            absent = {name[0] for entry in wrong if self._means_absent(given, name := entry["loc"][:1])}
            if not absent:
                raise InvalidArguments([_violation(entry, self._parameters) for entry in wrong]) from None
            for name in absent:
                del given[name]
            return self.parse(json.dumps(given), given)
        if checked != given:
            given.update({name: _as_taken(value, checked[name]) for name, value in given.items()})
        return checked

    def _means_absent(self, given: Mapping[str, Any], place: tuple[int | str, ...]) -> bool:
        """Whether a null stands where a parameter may be left out."""
        parameter = self._parameters.get(str(place[0])) if place else None
        if parameter is None or parameter.default is parameter.empty:
            return False
        return given.get(parameter.name, ...) is None


def _as_taken(given: Any, taken: Any) -> Any:
    """Return JSON data with each number as the body gets it: a whole one may have become a float, and another one."""
    if type(given) is int and type(taken) is float:
        return taken
    if isinstance(given, dict) and isinstance(taken, Mapping):
        return {key: _as_taken(value, taken.get(key)) for key, value in given.items()}
    if isinstance(given, list) and isinstance(taken, list | tuple) and len(given) == len(taken):
        return [_as_taken(value, other) for value, other in zip(given, taken, strict=True)]
    return given


def _violation(entry: Mapping[str, Any], known: Iterable[str]) -> str:
    path = ".".join(str(part) for part in entry["loc"])
    match entry["type"]:
        case "missing":
            return f"{path} is missing"
        case "extra_forbidden":
            there_are = f" (there are: {', '.join(known) or 'none'})" if len(entry["loc"]) == 1 else ""
            return f"{path} is not a parameter{there_are}"
        case "json_invalid":
            return f"not JSON: {entry['ctx']['error']}"
        case _:
            return f"{path or 'arguments'}: {entry['msg']}"


def _parse_docstring(tool_name: str, body: Body) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the description and the parameters' descriptions."""
    if not TOOL_NAME.fullmatch(tool_name):
        raise TypeError(f"tool {tool_name!r}: a name is a lower-case letter, then letters, digits, _ (at most 64)")
    text = inspect.getdoc(body) or ""
    description, _, rest = text.partition("\nArgs:\n")
    if not description.strip():
        raise TypeError(f'tool "{tool_name}": write a docstring, it is what a model is told about the tool')
    described: dict[str, str] = {}
    current = ""
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        if found := _ARGUMENT_LINE.fullmatch(line.strip()) if line.startswith("    ") and line[4:5] != " " else None:
            current = found[1]
            described[current] = found[2]
        elif current and line.strip():
            described[current] += " " + line.strip()
    return " ".join(description.split()), described


def _derive_output(
    body: Body, returned: Any, render: Callable[[Any], str] | None, summarize: Callable[[Any], str] | None
) -> Output:
    """Make the output contract from the return annotation; a plain string costs no schema at run time."""
    if returned in (str, "str"):
        return Output(lambda: {"type": "string"}, _check_string, render or str, summarize or _summarize_text)
    derived = _ReturnType(body)
    return Output(lambda: derived.schema, derived.check, render or json_text, summarize or (lambda _value: "done"))


class _ReturnType:
    """The return annotation of a function as a schema and a check."""

    def __init__(self, body: Body) -> None:
        self._body = body

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import TypeAdapter

        return TypeAdapter(get_type_hints(self._body, include_extras=True).get("return", Any))

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        schema: Mapping[str, Any] = self._adapter.json_schema(mode="serialization")
        return schema

    def check(self, value: Any) -> Any:
        """Return the value as plain JSON data; pydantic's ValidationError is a ValueError."""
        return self._adapter.dump_python(self._adapter.validate_python(value, strict=True), mode="json")


def _check_string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string was promised, got {type(value).__name__}")
    return value


def _summarize_text(text: str) -> str:
    return count(text.count("\n") + 1 if text else 0, "line")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
