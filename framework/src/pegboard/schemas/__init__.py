"""Explicit tool definitions: the property map, its exact refusals, and values checked against it.

Nothing else in the kernel imports this room; packs use it as `pegboard.schemas`.
"""

from pegboard.base.errors import UnsupportedSchema
from pegboard.schemas.define import define_tool, output_of
from pegboard.schemas.json_values import violations
from pegboard.schemas.property_map import check_schema, compile_parameters, compile_value

__all__ = [
    "UnsupportedSchema",
    "check_schema",
    "compile_parameters",
    "compile_value",
    "define_tool",
    "output_of",
    "violations",
]
