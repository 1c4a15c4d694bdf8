"""Failures of a connection in words: what the SDK wraps in groups, as the one line that says what to do."""

import ssl
from collections.abc import Iterator

from pegboard import one_line


def flattened(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, or the one that it is."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flattened(inner)
    else:
        yield error


def described(error: BaseException) -> str:
    """Return the failure that says most, in one line."""
    found = list(flattened(error))
    chosen = next((one for one in found if type(one).__name__ != "MCPError"), found[0])
    if refused := next((one for one in _causes(chosen) if isinstance(one, ssl.SSLError)), None):
        return one_line(f"its certificate is refused: {refused}", 400)
    return one_line(_in_words(chosen), 400)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        inner = inner.__cause__ or inner.__context__


def _in_words(error: BaseException) -> str:
    kind, text = type(error).__name__, str(error)
    code = getattr(error, "code", None)
    match kind:
        case "MCPError":
            return f"it refuses the connection: {text} ({code})"
        case "ConnectError":
            return f"it can't be reached: {text}"
        case "HTTPStatusError":
            return f"it answers {error.response.status_code}" if hasattr(error, "response") else text
        case "ConnectionError":
            return text
        case "ValidationError":
            return "it answered what the protocol does not allow"
        case "TimeoutError":
            return "it did not answer in time"
    return f"{kind}: {text}" if text else kind
