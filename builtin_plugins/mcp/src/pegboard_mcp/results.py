"""What a call came to: content blocks and structured content as plain data, checked, and as a model reads them."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import Output, one_line
from pegboard.schemas import UnsupportedSchema

from pegboard_mcp.foreign_schemas import ForeignSchema
from pegboard_mcp.plain import copied

if TYPE_CHECKING:
    from mcp.types import CallToolResult

_MAX_BLOCKS: Final = 1_000
_BLOCK: Final = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}


def plain(result: "CallToolResult") -> dict[str, Any]:
    """Return a result as JSON data: the protocol's blocks as `content`, and `structured`, null if there is none."""
    content = [
        {"type": "text", "text": block.text}
        if block.type == "text"
        else block.model_dump(mode="json", by_alias=True, exclude_none=True)
        for block in result.content[:_MAX_BLOCKS]
    ]
    return {"content": content, "structured": result.structured_content, "left_out": len(result.content) - len(content)}


def output_of(schema: Mapping[str, Any] | None) -> tuple[Output, str]:
    """Return a tool's result contract, and why structured content can't be held to it, if it can't.

    Structured content is held against the tool's own `outputSchema`, as far as that can be checked safely.
    """
    if schema is None:
        return Output(lambda: _whole({}), _checked(None), rendered, summarized), ""
    try:
        checked = ForeignSchema(dict(schema), "outputSchema")
    except UnsupportedSchema as error:
        told = f"its structured content is not checked: {one_line(str(error), 300)}"
        return Output(lambda: _whole({}), _checked(None), rendered, summarized), told
    return Output(lambda: _whole(dict(schema)), _checked(checked), rendered, summarized), ""


def _whole(structured: dict[str, Any]) -> dict[str, Any]:
    properties = {"content": {"type": "array", "items": _BLOCK}, "structured": structured}
    return {"type": "object", "properties": properties, "required": ["content"]}


def _checked(schema: ForeignSchema | None) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value["structured"] is not None:
            value = {**value, "structured": copied(value["structured"])}  # NaN is no JSON
        if schema is None:
            return value
        if value["structured"] is None:
            raise ValueError("it has an output schema, but returned no structured content")
        if wrong := schema.violations(value["structured"]):
            raise ValueError("; ".join(wrong))
        return value

    return check


def rendered(value: Mapping[str, Any]) -> str:
    """Return what a model reads: the texts, a line for everything else; structured content only if there is no text."""
    parts = [_block(block) for block in value["content"]]
    if value["structured"] is not None and not any(block["type"] == "text" for block in value["content"]):
        parts.append(json.dumps(value["structured"], ensure_ascii=False, indent=1))
    if value["left_out"]:
        parts.append(f"[{value['left_out']:,} more parts are left out]")
    return "\n".join(parts) or "(it returned nothing)"


def summarized(value: Mapping[str, Any]) -> str:
    """Return the few words that a person reads."""
    texts = [block["text"] for block in value["content"] if block["type"] == "text"]
    others = len(value["content"]) - len(texts)
    lines = sum(text.count("\n") + 1 for text in texts)
    told = [f"{lines:,} line{'' if lines == 1 else 's'}"] if texts else []
    told += [f"{others:,} other part{'' if others == 1 else 's'}"] if others else []
    return ", ".join(told) or ("structured" if value["structured"] is not None else "nothing")


def _block(block: Mapping[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "image" | "audio":
            return f"[{block['type']}, {_kind(block)}, {_bytes(block.get('data', ''))}; a model can't be shown it here]"
        case "resource_link":
            return (
                f"[link to a resource: {one_line(block['uri'], 400)}, {one_line(block['name'], 100)}, {_kind(block)}]"
            )
        case "resource":
            return _resource(block["resource"])
    return f"[a part of type {one_line(block['type'], 40)}]"


def _resource(resource: Mapping[str, Any]) -> str:
    head = f"resource {one_line(resource['uri'], 400)}, {_kind(resource)}"
    if "text" in resource:
        return f"[{head}]\n{resource['text']}"
    return f"[{head}, {_bytes(resource.get('blob', ''))}]"


def _kind(block: Mapping[str, Any]) -> str:
    return one_line(str(block.get("mimeType") or "of no stated type"), 80)


def _bytes(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4:,} bytes"
