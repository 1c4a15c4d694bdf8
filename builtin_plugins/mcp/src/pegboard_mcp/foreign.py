"""`foreign_tool`: a tool whose definition came from a server unchanged, under a name that says so (rule 4)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pegboard import InvalidArguments, Output, Tool, ToolContext, foreign_name

from pegboard_mcp.foreign_schemas import ForeignSchema
from pegboard_mcp.plain import read_object

Call = Callable[[dict[str, Any], ToolContext], Awaitable[Any]]


def foreign_tool(
    *,
    server: str,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    call: Call,
    output: Output,
    timeout: float | None = None,
    source: str = "",
    generation: str = "",
) -> Tool:
    """Make a `Tool` of a definition that a server sent; it is always write, exclusive and user-configurable.

    Its name is `mcp__<server>__<name>`. `parameters` is any JSON Schema of an object: a model is shown it as it is, and
    arguments are held against it before any guard is asked; `format` and patterns that can't be matched in linear time
    are left to the server. `call(arguments, ctx)` gets a fresh dict. `timeout` is in seconds. `source` and `generation`
    are as `Tool` has them.

    Raises:
        UnsupportedSchema: `parameters` is no valid JSON Schema of an object, or can't be checked safely.
        TypeError: no server, name or description, or a bad timeout.
    """
    if not all(isinstance(text, str) for text in (server, name, description)) or not server or not name:
        raise TypeError("a foreign tool needs a server, a name and a description, all of them strings")

    async def body(*, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return await call(arguments, ctx)

    return Tool(
        name=foreign_name(server, name),
        description=description,
        arguments=ForeignArguments(parameters),
        output=output,
        body=body,
        timeout=timeout,
        takes_context=True,
        is_async=True,
        server=server,
        source=source,
        generation=generation,
    )


class ForeignArguments:
    """A foreign tool's parameters; the body gets them as one dict, under the keyword `arguments`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = ForeignSchema(schema)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema as the server sent it."""
        return self._schema.schema

    def parse(self, text: str, read: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check JSON text against the schema."""
        value = read_object(text) if read is None else read
        if wrong := self._schema.violations(value):
            raise InvalidArguments(wrong)
        return {"arguments": value}
