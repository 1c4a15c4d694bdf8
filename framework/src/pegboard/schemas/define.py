"""`define_tool`: a tool from an explicit definition; its parameters are a map of properties, its body gets one dict."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pegboard.base.errors import InvalidArguments, UnsupportedSchema
from pegboard.base.frozen import MAX_DEPTH, read_object
from pegboard.base.text import count, json_text
from pegboard.schemas.json_values import conform, detach, measure, told
from pegboard.schemas.property_map import Node, check_schema, compile_parameters
from pegboard.values.tool import Body, Concurrency, Effect, Exposure, Output, Tool, Touch, no_touches


def define_tool(
    *,
    name: str,
    description: str,
    parameters: Mapping[str, Node],
    output: Output,
    body: Body,
    effect: Effect = "write",
    concurrency: Concurrency = "exclusive",
    exposure: Exposure = "user-configurable",
    timeout: float | None = None,
    touches: Callable[[dict[str, Any]], Iterable[Touch]] | None = None,
    examples: Sequence[str] = (),
    inline: bool = False,
) -> Tool:
    """Make a `Tool` of an explicit definition; hand it over with `register_tools`.

    `parameters` is a map of property name to node, as `compile_parameters` takes it; `output` comes from `output_of`.
    The body is called as `body(arguments)`, or as `body(arguments, ctx)` if it takes a second positional argument: a
    fresh dict that was checked, in which further keys may stand and no default was filled in, and the `ToolContext`.
    `touches(arguments)` gets such a dict too. `timeout` is in seconds.

    Raises:
        UnsupportedSchema: a node, or the output's schema, is not what can be checked.
        TypeError: no output, or a bad body, timeout, name or description.
    """
    arguments = DefinedArguments(compile_parameters(parameters))
    _check_output(name, output)
    called, takes_context, is_async = calling(name, body)
    made = Tool(
        name=name,
        description=description,
        arguments=arguments,
        output=output,
        body=called,
        effect=effect,
        concurrency=concurrency,
        exposure=exposure,
        timeout=timeout,
        touches=no_touches if touches is None else lambda **given: touches(given),
        examples=tuple(examples),
        takes_context=takes_context,
        is_async=is_async,
        inline=inline,
    )
    if not isinstance(description, str) or not description.strip():
        raise TypeError(f'tool "{name}" needs a description, it is what a model is told about the tool')
    return made


def output_of(
    schema: Mapping[str, Any],
    render: Callable[[Any], str],
    summarize: Callable[[Any], str] | None = None,
    finalize: Callable[[str], str] | None = None,
) -> Output:
    """Return a result contract: what a body returns is plain JSON data that fits `schema`, JSON Schema of the subset.

    `render` gives what a model reads, `summarize` the few words that a person sees, `finalize` changes what the model
    reads after the packs. `compile_value` makes such a schema of a node.

    Raises:
        UnsupportedSchema: with every violation, in order.
    """
    detached = _detached(schema, "output.schema")
    check_schema(detached, "output.schema")

    def check(value: Any) -> Any:
        plain, wrong = conform(detached, value)
        if wrong:
            raise ValueError("; ".join(told(wrong)))
        return plain

    return Output(lambda: detached, check, render, summarize or brief, finalize)


def brief(value: Any) -> str:
    """Return a few words on a value, the default of `summarize`."""
    if isinstance(value, str):
        return count(value.count("\n") + 1 if value else 0, "line")
    return count(len(value), "item") if isinstance(value, list) else "done"


def as_text(value: Any) -> str:
    """Return a value as a model may read it: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


class DefinedArguments:
    """The parameters of an explicit definition; the body gets them as one dict, under the keyword `arguments`."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = _detached(schema, "parameters")

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the parameters; the root is open."""
        return self._schema

    def parse(self, text: str, read: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check JSON text against the schema (T32)."""
        value, wrong = conform(self._schema, read_object(text) if read is None else read)
        if wrong:
            raise InvalidArguments(told(wrong))
        return {"arguments": value}


def calling(name: str, body: Callable[..., Any]) -> tuple[Body, bool, bool]:
    """Return what calls a body with one dict, whether it takes the context too, and whether it is async.

    Raises:
        TypeError: it can't be called so.
    """
    if not callable(body):
        raise TypeError(f'tool "{name}" must have a body that can be called')
    is_async = inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(getattr(body, "__call__", None))  # noqa: B004
    if _takes(body, 2):
        return lambda *, arguments, ctx: body(arguments, ctx), True, is_async
    if _takes(body, 1):
        return lambda *, arguments: body(arguments), False, is_async
    raise TypeError(f'tool "{name}": its body must take (arguments) or (arguments, ctx)')


def _takes(body: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(body).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        return arguments == 1
    return True


def _detached(schema: Any, root: str) -> dict[str, Any]:
    """Return a schema's own copy, which nobody can change later and which is not too deep to be written as JSON."""
    detached, lost = detach(schema, root)
    if lost:
        check_schema(schema, root)  # says it better where it has something to say
        raise UnsupportedSchema(lost)
    if measure(detached)[0] > MAX_DEPTH:
        raise UnsupportedSchema([f"{root} is nested more than {MAX_DEPTH} levels deep"])
    return detached  # type: ignore[no-any-return]


def _check_output(name: str, output: Output) -> None:
    """Hold the result contract to T8: its shape, then its schema."""
    shape = isinstance(output, Output) and callable(output.schema) and callable(output.render)
    if not shape or not callable(output.summarize) or not callable(output.check):
        raise TypeError(f'tool "{name}" must declare output {{ schema, render, summarize? }}')
    check_schema(output.schema(), "output.schema")
