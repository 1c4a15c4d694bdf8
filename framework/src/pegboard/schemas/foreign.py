"""`foreign_tool`: a tool whose definition came from a server unchanged, under a name that says so (rule 4)."""

from collections.abc import Callable, Mapping
from typing import Any

from pegboard.base.errors import InvalidArguments, PegboardError
from pegboard.base.frozen import read_object
from pegboard.schemas.define import as_text, brief, calling
from pegboard.schemas.foreign_schemas import ForeignSchema
from pegboard.schemas.json_values import detach, told
from pegboard.values.tool import Output, Tool, foreign_name


def foreign_tool(
    *,
    server: str,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    call: Callable[..., Any],
    output: Output | None = None,
    timeout: float | None = None,
) -> Tool:
    """Make a `Tool` of a definition that a server sent; it is always write, exclusive and user-configurable.

    Its name is `mcp__<server>__<name>`. `parameters` is any JSON Schema of an object: a model is shown it as it is, and
    arguments are held against it before any guard is asked; `format` and patterns that can't be matched in linear time
    are left to the server. `call(arguments)`, or `call(arguments, ctx)` if it takes a second positional argument,
    gets a fresh dict and returns any JSON value, unless `output` promises something else. `timeout` is in seconds.

    Raises:
        UnsupportedSchema: `parameters` is no valid JSON Schema of an object, or can't be checked safely.
        PegboardError: the library that checks JSON Schema is not installed.
        TypeError: no server, name or description, or a bad `call` or timeout.

    Example:
        >>> search = foreign_tool(
        ...     server="docs",
        ...     name="search",
        ...     description="Search the documentation.",
        ...     parameters={"type": "object", "properties": {"query": {"type": "string", "minLength": 1}}},
        ...     call=lambda arguments: f"nothing about {arguments['query']}",
        ... )
        >>> search.name
        'mcp__docs__search'
    """
    if not all(isinstance(text, str) for text in (server, name, description)) or not server or not name:
        raise TypeError("a foreign tool needs a server, a name and a description, all of them strings")
    full_name = foreign_name(server, name)
    called, takes_context, is_async = calling(full_name, call)
    return Tool(
        name=full_name,
        description=description,
        arguments=ForeignArguments(full_name, parameters),
        output=output or Output(dict, _any_json, as_text, brief),
        body=called,
        timeout=timeout,
        takes_context=takes_context,
        is_async=is_async,
        server=server,
    )


class ForeignArguments:
    """A foreign tool's parameters; the body gets them as one dict, under the keyword `arguments`."""

    def __init__(self, tool_name: str, schema: Mapping[str, Any]) -> None:
        try:
            self._schema = ForeignSchema(schema)
        except ImportError:
            need = "needs jsonschema-rs: pip install 'pegboard[schemas]'"
            raise PegboardError(f'tool "{tool_name}": to check arguments against its schema {need}') from None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema as the server sent it."""
        return self._schema.schema

    def parse(self, text: str) -> dict[str, Any]:
        """Check JSON text against the schema."""
        value = read_object(text)
        if wrong := self._schema.violations(value):
            raise InvalidArguments(wrong)
        return {"arguments": value}


def _any_json(value: Any) -> Any:
    plain, lost = detach(value, negative_zero=True)
    if lost:
        raise ValueError("; ".join(told(lost)))
    return plain
