"""`ask_user`: a question that only the person can answer."""

from typing import Final

from pegboard import NeedsAnswer, ToolContext, ToolError, tool

MAX_QUESTION: Final = 2000
MAX_OPTIONS: Final = 10
MAX_OPTION: Final = 200


@tool(
    effect="read",
    concurrency="parallel",
    render=lambda answer: f"The user answers: {answer}",
    summarize=lambda _answer: "answered",
    examples=["Ask me which of the two I want"],
)
def ask_user(question: str, ctx: ToolContext, options: list[str] | None = None) -> str:
    """Ask the user something that you can't find out yourself and that decides how to go on.

    Args:
        question: What you want to know, with what the user needs to decide.
        options: Up to 10 short answers to choose from; the user may answer something else.
    """
    if ctx.answer is not None:
        return ctx.answer
    _check(question, options or [])
    raise NeedsAnswer(question, options or [])


def _check(question: str, options: list[str]) -> None:
    if not question.strip():
        raise ToolError("the question is empty; write what you want to know")
    if len(question) > MAX_QUESTION:
        raise ToolError(f"the question has {len(question):,} characters; at most {MAX_QUESTION:,} are shown")
    if len(options) > MAX_OPTIONS:
        raise ToolError(f"there are {len(options)} options; at most {MAX_OPTIONS} can be offered")
    if any(not option.strip() or len(option) > MAX_OPTION for option in options):
        raise ToolError(f"an option is empty or longer than {MAX_OPTION} characters")
    if len(set(options)) < len(options):
        raise ToolError("two options are the same")
