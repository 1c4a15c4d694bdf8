"""The tool: which lines of a file are marked."""

from pegboard import Tool, ToolContext, ToolError, Touch, tool


def marked_lines(text: str, mark: str) -> list[str]:
    """Return the lines that hold the mark, each after its number."""
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if mark in line]


def marks_tool(mark: str) -> Tool:
    """Make the tool for one mark."""

    @tool(
        effect="read",
        concurrency="parallel",
        touches=lambda path, **_: [Touch.path(path)],
        examples=["Which marks are in README.md?", "List the marks of src/app.py"],
    )
    def {{ cookiecutter.__tool }}(path: str, ctx: ToolContext) -> list[str]:
        """List the lines of a text file that hold the mark of open work, each after its number.

        Args:
            path: The file, relative to the working directory.
        """
        file = (ctx.directory / path).resolve()
        if not file.is_relative_to(ctx.directory.resolve()):
            raise ToolError(f"{path} is outside of the working directory")
        try:
            return marked_lines(file.read_text("utf-8"), mark)
        except (OSError, ValueError) as error:
            raise ToolError(f"{path} can't be read as text: {error}") from error

    return {{ cookiecutter.__tool }}
