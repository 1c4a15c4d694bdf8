"""The rounds of the rule model: look, read around what was found, answer with the places; never more than three."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
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
    Place,
    best_places,
    by_file,
    hits_in,
    numbered_lines,
    weigh,
)
from pegboard_models.offline.kinds import asks_for_use, cannot, is_overview, looks_everywhere
from pegboard_models.offline.overview import look, read, tell
from pegboard_models.offline.routing import choose, fill, is_reader, is_search
from pegboard_models.offline.task import Task, understand
from pegboard_models.offline.terms import pattern, terms_of

LABEL: Final = "offline rule model (no language model)"
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
    if is_overview(task) and (looking := look(tools)):
        return looking if not rounds else read(tools, rounds[0]) if len(rounds) == 1 else []
    if not rounds:
        for tool in choose(tools, task):
            if is_search(tool) and task.terms:
                return _search_calls(tool, task)
            arguments, missing = fill(tool, task)
            if not missing:
                return [(tool.name, arguments)]
        return []
    if len(rounds) == 1 and (reader := next(filter(is_reader, tools), None)):
        return _reading_calls(reader, task, rounds[0])
    return []


def _search_calls(tool: Tool, task: Task) -> list[tuple[str, dict[str, object]]]:
    properties = tool.parameters["properties"]
    calls: list[tuple[str, dict[str, object]]] = []
    for term in task.terms:
        arguments: dict[str, object] = {"pattern": pattern(term, task)}
        if "ignore_case" in properties and term not in task.names:
            arguments["ignore_case"] = True
        if "limit" in properties:
            arguments["limit"] = 1000
        calls.append((tool.name, arguments))
    return calls


def _reading_calls(reader: Tool, task: Task, found: Round) -> list[tuple[str, dict[str, object]]]:
    hits = _hits(found)
    places = _best(by_file(hits), hits, task, MAX_PLACES)
    return [
        (reader.name, {"path": place.path, "start": max(place.first - AROUND, 1), "end": place.last + AROUND})
        for place in places
    ]


def _answer(tools: Sequence[Tool], task: Task, rounds: list[Round]) -> str:
    note = "The task was long; only its beginning was looked at.\n" if task.cut else ""
    if refused := cannot(task):
        note += f"{refused}\n"
    told = _told(tools, task, rounds) if rounds else _could_not(tools, task)
    return f"{note}{told}\n({LABEL}: found by matching words, not understood)"


def _told(tools: Sequence[Tool], task: Task, rounds: list[Round]) -> str:
    """Return what the rounds have shown: the places that fit best, else the results, else why there are none."""
    first = rounds[0]
    if not any(result.status == "ok" for _, result in first):
        return f"`{first[0][1].name}` did not work: {first[0][1].content[:MAX_SHOWN]}"
    if is_overview(task) and len(first) > 1 and first[0][0].name == first[-1][0].name:
        return tell(rounds)
    if evidence := _evidence(task, rounds):
        return f"{_nowhere(task, first)}The places that fit best, best first:\n{evidence}"
    if any(is_search(tool) for tool in tools if tool.name == first[0][0].name):
        return f"Nothing fits: no file has the words {', '.join(task.terms)}."
    return "\n".join(result.content[:MAX_SHOWN] for _, result in first)


def _evidence(task: Task, rounds: list[Round]) -> str:
    """Cite the best passages of what was read, or of the hits alone where nothing could be read."""
    hits = _hits(rounds[0])
    read_lines: dict[str, dict[int, str]] = {}
    for call, result in rounds[1] if len(rounds) > 1 else ():
        if result.status == "ok":
            path = json.loads(call.arguments)["path"]
            read_lines.setdefault(path, {}).update(numbered_lines(result.content))
    files = by_file(hits)
    if read_lines:  # the hits beside what was read tell in which definitions it stands
        files = {path: {**files.get(path, {}), **lines} for path, lines in read_lines.items()}
    cited = _best(files, hits, task, MAX_CITED)
    return "\n".join(
        f"  {place.path}:{place.first}-{place.last}\n    {place.best:>5}  {files[place.path][place.best].strip()[:160]}"
        for place in cited
    )


def _best(files: Mapping[str, Mapping[int, str]], hits: Sequence[Hit], task: Task, most: int) -> list[Place]:
    terms = weigh(terms_of(task), hits)
    return best_places(files, terms, most, everywhere=looks_everywhere(task), use=asks_for_use(task))


def _nowhere(task: Task, searched: Round) -> str:
    """Name the words that no line has; of a name that is nowhere the places below say nothing."""
    words: list[str] = []
    for term, (_, result) in zip(terms_of(task), searched, strict=False):
        if result.status == "ok" and not any(term.strength(hit.text) for hit in hits_in(result.content)):
            words.append(term.word)
    return f"Found nowhere: {', '.join(words)}.\n" if words else ""


def _hits(found: Round) -> list[Hit]:
    return [hit for _, result in found if result.status == "ok" for hit in hits_in(result.content)]


def _could_not(tools: Sequence[Tool], task: Task) -> str:
    chosen = choose(tools, task)
    if not chosen:
        return "No read tool with examples is offered in this run, and without one this model can do nothing."
    missing = fill(chosen[0], task)[1]
    if missing:
        return f"`{chosen[0].name}` fits, but the task does not say {', '.join(missing)}; say it, in quotes if need be."
    return "The task has no word to search for; name a thing, a file or a function."
