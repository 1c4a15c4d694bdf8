"""The API page: every public name with its signature as the source has it, and the first paragraph about it."""

import ast
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pegboard

MODULES = ("pegboard.events", "pegboard.folds", "pegboard.schemas", "pegboard.testing")
HEAD = """# API

What packs and programs may import, and all that they may. A dataclass stands here with its fields, a class that is made
for you with what it offers, a function as it is called."""


def api() -> str:
    """The page of the public names."""
    page = [HEAD, "## `pegboard`"]
    for module in pegboard._HOMES:
        home = import_module(f"pegboard.{module}")
        page.append(f"*{_first_paragraph(home.__doc__ or '')}*")
        page += [_entry(home, name) for name in pegboard._HOMES[module].split()]
    for public in map(import_module, MODULES):
        page += [f"## `{public.__name__}`", f"*{_first_paragraph(public.__doc__ or '')}*"]
        named = [name for name in public.__all__ if name not in pegboard.__all__]
        page += [_entry(_home_of(public, name), name) for name in named]
        if again := [f"`{name}`" for name in public.__all__ if name not in named]:
            page.append(f"Also here, as in `pegboard`: {', '.join(again)}.")
    return "\n\n".join(page) + "\n"


def _home_of(public: ModuleType, name: str) -> ModuleType:
    """Return the module whose source defines a name that `public` hands on."""
    for statement in ast.walk(_tree(public)):
        if isinstance(statement, ast.ImportFrom) and any(alias.name == name for alias in statement.names):
            return import_module(statement.module or "")
    return public


def _entry(home: ModuleType, name: str) -> str:
    shown, told = "", ""
    source, body = inspect.getsource(home), _tree(home).body
    for place, statement in enumerate(body):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if statement.name == name:  # the last one: not an overload
                shown, told = _function(statement), ast.get_docstring(statement) or ""
            case ast.ClassDef() if statement.name == name:
                shown, told = _class(statement), ast.get_docstring(statement) or ""
            case ast.Assign(targets=[ast.Name(id=given)]) | ast.AnnAssign(target=ast.Name(id=given)) if given == name:
                value = ast.get_source_segment(source, statement.value) or "" if statement.value else ""
                shown = f"{name} = {value}" if len(value) < 90 else name
                told = _text(body[place + 1]) if place + 1 < len(body) else ""
    if not told:
        raise LookupError(f"{name} has no docstring in {home.__name__}")
    return f"### `{name}`\n\n```python\n{shown}\n```\n\n{_first_paragraph(told)}"


def _text(statement: ast.stmt) -> str:
    """Return the text that stands alone in a statement: below a constant it is its docstring."""
    match statement:
        case ast.Expr(ast.Constant(str() as text)):
            return text
    return ""


def _function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    colour = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    parts = ast.unparse(function.args).replace("self, ", "").removeprefix("self")
    line = f"{colour}{function.name}({parts}){returned}"
    return line if len(line) <= 110 else line.replace(f"({parts})", f"(\n    {_one_a_line(function.args)},\n)", 1)


def _one_a_line(arguments: ast.arguments) -> str:
    text, depth, lines, start = ast.unparse(arguments), 0, [], 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            lines.append(text[start:at].strip())
            start = at + 1
    return ",\n    ".join([*lines, text[start:].strip()])


def _class(found: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in found.bases)
    lines = [f"class {found.name}({bases})" if bases else f"class {found.name}"]
    for member in found.body:
        match member:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if not _is_inner(name, kind):
                value = ast.unparse(member.value) if member.value else ""
                default = f" = {'...' if value.startswith('_') or len(value) > 40 else value}" if value else ""
                lines.append(f"    {name}: {ast.unparse(kind)}{default}")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not name.startswith("_"):
                lines.append(f"    {_member(member)}")
    return "\n".join(lines)


def _is_inner(name: str, annotation: ast.expr) -> bool:
    return name.startswith("_") or ast.unparse(annotation).startswith("ClassVar")


def _member(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    marks = {ast.unparse(mark) for mark in function.decorator_list}
    if marks & {"property", "cached_property"}:
        return f"{function.name}: {ast.unparse(function.returns)}" if function.returns else function.name
    colour = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    names = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    return f"{colour}{function.name}({', '.join(name for name in names if name not in ('self', 'cls'))})"


def _first_paragraph(docstring: str) -> str:
    return " ".join(inspect.cleandoc(docstring).split("\n\n")[0].split())


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(module.__file__ or "").read_text("utf-8"))
