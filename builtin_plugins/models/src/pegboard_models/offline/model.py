"""The rounds of the rule model: look, read around what was found, answer with the places; never more than three."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

from pegboard import (
    AssistantMessage,
    Finish,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)

from pegboard_models.offline.evidence import (
    AROUND,
    MAX_CITED,
    MAX_PLACES,
    Hit,
    Term,
    best_places,
    by_file,
    hits_in,
    numbered_lines,
    weigh,
)
from pegboard_models.offline.routing import choose, fill, is_search
from pegboard_models.offline.task import Task, stem, understand
from pegboard_models.offline.words import also

LABEL: Final = "offline rule model (no language model)"
_WIDE: Final = re.compile(r"\btests?\b|\bdoc(s|umentation)?\b|\bexamples?\b|\breadme\b|\bchangelog\b", re.IGNORECASE)
_CHANGES: Final = re.compile(
    r"\W*(please )?(add|change|create|delete|fix|implement|make|refactor|remove|rename|run|update|write)\b",
    re.IGNORECASE,
)
MAX_SHOWN: Final = 3000


class OfflineModel:
    """Answers from the transcript alone, so that the same transcript always gets the same reply."""

    label = LABEL

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield calls of read tools for the first rounds, then the answer."""
        text, rounds = _since_task(request)
        task = understand(text)
        calls = _next_calls(request.tools, task, rounds)
        if not calls:
            yield TextDelta(_answer(request.tools, task, rounds))
        for number, (tool, arguments) in enumerate(calls, 1):
            yield ToolCall(f"offline-{len(request.messages)}-{number}", tool, json.dumps(arguments))
        yield Finish()


Round = list[tuple[ToolCall, ToolResult]]


def _since_task(request: ModelRequest) -> tuple[str, list[Round]]:
    """Return the newest task and what was called and found since."""
    start = max(i for i, message in enumerate(request.messages) if isinstance(message, UserMessage))
    rounds: list[Round] = []
    asked: dict[str, ToolCall] = {}
    for message in request.messages[start + 1 :]:
        match message:
            case AssistantMessage(calls=calls):
                asked = {call.id: call for call in calls}
                rounds.append([])
            case ToolResult(call_id=call_id) if call_id in asked:
                rounds[-1].append((asked[call_id], message))
    task = request.messages[start]
    return (task.text if isinstance(task, UserMessage) else ""), rounds


def _next_calls(tools: Sequence[Tool], task: Task, rounds: list[Round]) -> list[tuple[str, dict[str, object]]]:
    if not rounds:
        for tool in choose(tools, task):
            if is_search(tool) and task.terms:
                return _search_calls(tool, task)
            arguments, missing = fill(tool, task)
            if not missing:
                return [(tool.name, arguments)]
        return []
    if len(rounds) == 1 and (reader := _reader(tools)):
        return _reading_calls(reader, task, rounds[0])
    return []


def _search_calls(tool: Tool, task: Task) -> list[tuple[str, dict[str, object]]]:
    properties = tool.parameters["properties"]
    calls: list[tuple[str, dict[str, object]]] = []
    for term in task.terms:
        arguments: dict[str, object] = {"pattern": _pattern(term, task)}
        if "ignore_case" in properties and term not in task.names:
            arguments["ignore_case"] = True
        if "limit" in properties:
            arguments["limit"] = 1000
        calls.append((tool.name, arguments))
    return calls


def _pattern(term: str, task: Task) -> str:
    if term in task.names:
        return re.sub(r"([^\w])", r"\\\1", term)
    return "|".join(dict.fromkeys(stem(word) for word in (term, *also(term))))


def _reader(tools: Sequence[Tool]) -> Tool | None:
    """Return the tool that reads a range of lines of a file, if there is one."""
    return next((t for t in tools if {"path", "start", "end"} <= set(t.parameters.get("properties", {}))), None)


def _reading_calls(reader: Tool, task: Task, found: Round) -> list[tuple[str, dict[str, object]]]:
    hits = _hits(found)
    places = best_places(by_file(hits), weigh(_terms(task), hits), MAX_PLACES, everywhere=_everywhere(task))
    return [
        (reader.name, {"path": place.path, "start": max(place.first - AROUND, 1), "end": place.last + AROUND})
        for place in places
    ]


def _answer(tools: Sequence[Tool], task: Task, rounds: list[Round]) -> str:
    note = "The task was long; only its beginning was looked at.\n" if task.cut else ""
    if _CHANGES.match(task.text):
        note += "This model reads and quotes; it never changes anything.\n"
    told = _told(tools, task, rounds) if rounds else _could_not(tools, task)
    return f"{note}{told}\n({LABEL}: found by matching words, not understood)"


def _told(tools: Sequence[Tool], task: Task, rounds: list[Round]) -> str:
    """Return what the rounds have shown: the places that fit best, else the results, else why there are none."""
    first = rounds[0]
    if not any(result.status == "ok" for _, result in first):
        return f"`{first[0][1].name}` did not work: {first[0][1].content[:MAX_SHOWN]}"
    if evidence := _evidence(task, rounds):
        return f"The places that fit best, best first:\n{evidence}"
    if any(is_search(tool) for tool in tools if tool.name == first[0][0].name):
        return f"Nothing fits: no file has the words {', '.join(task.terms)}."
    return "\n".join(result.content[:MAX_SHOWN] for _, result in first)


def _evidence(task: Task, rounds: list[Round]) -> str:
    """Cite the best passages of what was read, or of the hits alone where nothing could be read."""
    hits = _hits(rounds[0])
    read: dict[str, dict[int, str]] = {}
    for call, result in rounds[1] if len(rounds) > 1 else ():
        if result.status == "ok":
            path = json.loads(call.arguments)["path"]
            read.setdefault(path, {}).update(numbered_lines(result.content))
    files = read or by_file(hits)
    cited = best_places(files, weigh(_terms(task), hits), MAX_CITED, everywhere=_everywhere(task))
    return "\n".join(
        f"  {place.path}:{place.first}-{place.last}\n    {place.best:>5}  {files[place.path][place.best].strip()[:160]}"
        for place in cited
    )


def _hits(found: Round) -> list[Hit]:
    return [hit for _, result in found if result.status == "ok" for hit in hits_in(result.content)]


def _terms(task: Task) -> list[Term]:
    terms: list[Term] = []
    for word in task.terms:
        flags = 0 if word in task.names else re.IGNORECASE
        said = re.compile(re.escape(word if word in task.names else stem(word)), flags)
        terms.append(Term(word, said, re.compile(_pattern(word, task), flags), 1.5 if word in task.names else 1.0))
    return terms


def _everywhere(task: Task) -> bool:
    return bool(_WIDE.search(task.text))


def _could_not(tools: Sequence[Tool], task: Task) -> str:
    chosen = choose(tools, task)
    if not chosen:
        return "No read tool with examples is offered in this run, and without one this model can do nothing."
    missing = fill(chosen[0], task)[1]
    if missing:
        return f"`{chosen[0].name}` fits, but the task does not say {', '.join(missing)}; say it, in quotes if need be."
    return "The task has no word to search for; name a thing, a file or a function."
