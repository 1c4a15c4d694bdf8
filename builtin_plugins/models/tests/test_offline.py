"""`offline` picks a tool by its examples, follows hits by reading around them, and cites places that exist."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("models", "workspace")

Pegboard = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[3]

TICKETS = """
from typing import Literal
from pegboard import hooks, implements, tool

@tool(effect="read", examples=["Which tickets are open?", "List the bugs that are assigned to me"])
def list_tickets(status: Literal["open", "closed"]) -> str:
    '''List tickets of the tracker.'''
    return f"T-1 the printer is on fire ({status})"

@tool(effect="read", examples=["Who is on call for a service?"])
def on_call(service: str, day: int) -> str:
    '''Tell who is on call.'''
    return f"Ada watches {service} on day {day}"

class Pack:
    @implements(hooks.register_tools)
    def register_tools(self):
        return [list_tickets, on_call]
"""


def events(ended: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the events of a `run --json`."""
    return [json.loads(line) for line in ended.stdout.splitlines()]


def calls(ended: subprocess.CompletedProcess[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the tools that were called, with their arguments."""
    return [(event["name"], event["arguments"]) for event in events(ended) if event["type"] == "tool_call"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A small repository in which retries are counted in one place and mentioned in another."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "client.py").write_text(
        "import time\n\n\ndef fetch(url, attempts=3):\n    for attempt in range(attempts):\n"
        "        if send(url):\n            return True\n"
        "        time.sleep(2**attempt)  # back off before the next retry\n"
        "    raise OSError(url)\n",
        "utf-8",
    )
    (folder / "README.md").write_text("# Shop\n\nRetries back off.\n", "utf-8")
    return folder


def test_an_answer_cites_lines_that_exist_and_hold_what_is_quoted(pegboard: Pegboard) -> None:
    ended = pegboard("run", "--json", "Where is a guard's failure turned into a denial?", cwd=ROOT)

    text = events(ended)[-1]["text"]
    cited = re.findall(r"^  (\S+):(\d+)-(\d+)\n +(\d+)  (.*)$", text, re.MULTILINE)
    assert cited
    for path, first, last, line, quoted in cited:
        assert int(first) <= int(line) <= int(last)
        assert (ROOT / path).read_text("utf-8").splitlines()[int(line) - 1].strip()[:160] == quoted


def test_hits_are_followed_by_reading_around_them(pegboard: Pegboard, shop: Path) -> None:
    ended = pegboard("run", "--json", "How does a retry back off?", cwd=shop)

    names = [name for name, _ in calls(ended)]
    assert names[0] == "grep"
    assert "read" in names
    assert "src/client.py:4-9" in events(ended)[-1]["text"]


def test_the_same_question_gets_the_same_answer(pegboard: Pegboard, shop: Path) -> None:
    answers = {events(pegboard("run", "--json", "How does a retry back off?", cwd=shop))[-1]["text"] for _ in range(2)}

    assert len(answers) == 1


def test_every_answer_says_that_no_language_model_gave_it(pegboard: Pegboard, shop: Path) -> None:
    for task in ("How does a retry back off?", "Show README.md", "Where is the flux capacitor?", "?!"):
        ended = pegboard("run", task, cwd=shop)
        assert ended.stdout.startswith("offline rule model (no language model)")
        assert "offline rule model (no language model): found by matching words" in ended.stdout.split("session")[1]


def test_a_file_that_the_task_names_is_shown(pegboard: Pegboard, shop: Path) -> None:
    ended = pegboard("run", "--json", "Show README.md", cwd=shop)

    assert calls(ended) == [("read", {"path": "README.md"})]
    assert "Retries back off." in events(ended)[-1]["text"]


def test_files_are_listed_by_their_kind(pegboard: Pegboard, shop: Path) -> None:
    ended = pegboard("run", "--json", "Which Python files are there?", cwd=shop)

    assert calls(ended) == [("glob", {"pattern": "*.py"})]
    assert "src/client.py" in events(ended)[-1]["text"]


def test_a_third_partys_tool_is_used_when_it_fits_best(pegboard: Pegboard, pack_folder: Any, shop: Path) -> None:
    pack_folder.add("tickets", TICKETS)

    ended = pegboard("run", "--json", "Which of our tickets are still open?", cwd=shop)

    assert calls(ended) == [("list_tickets", {"status": "open"})]
    assert "T-1 the printer is on fire (open)" in events(ended)[-1]["text"]


def test_arguments_are_filled_from_the_tasks_words_and_what_is_missing_is_asked(
    pegboard: Pegboard, pack_folder: Any, shop: Path
) -> None:
    pack_folder.add("tickets", TICKETS)

    filled = pegboard("run", "--json", 'Who is on call for the service "billing" on day 12?', cwd=shop)
    asked = pegboard("--disable", "workspace", "run", "--json", "Who is on call?", cwd=shop)

    assert calls(filled) == [("on_call", {"service": "billing", "day": 12})]
    assert calls(asked) == []
    assert "`on_call` fits, but the task does not say day" in events(asked)[-1]["text"]


def test_with_the_workspace_off_it_says_what_it_lacks(pegboard: Pegboard, shop: Path) -> None:
    ended = pegboard("--disable", "workspace", "run", "Where are retries counted?", cwd=shop)

    assert ended.returncode == 0
    assert "No read tool with examples is offered in this run" in ended.stdout


def test_it_never_calls_a_tool_that_writes(pegboard: Pegboard, shop: Path) -> None:
    ended = pegboard(
        "run", "--json", "--allow-writes", "Run a shell command that edits README.md and write it", cwd=shop
    )

    assert {name for name, _ in calls(ended)} <= {"grep", "read", "glob"}
    assert "This model reads and quotes; it never changes anything." in events(ended)[-1]["text"]


def test_a_megabyte_of_task_is_answered_from_its_beginning(pegboard: Pegboard, shop: Path) -> None:
    task = "How does a retry back off? " + "x" * 900_000

    ended = pegboard("run", "--json", "-", stdin=task, cwd=shop)

    text = events(ended)[-1]["text"]
    assert text.startswith("The task was long; only its beginning was looked at.")
    assert "src/client.py" in text


def test_the_models_source_holds_no_word_of_the_projects_it_is_scored_on() -> None:
    words = re.compile(r"httpx|\bclick\b|pluggy|encode/|pallets", re.IGNORECASE)
    sources = list((ROOT / "builtin_plugins/models/src").rglob("*.py"))

    assert sources
    assert [path.name for path in sources if words.search(path.read_text("utf-8"))] == []


GUARD = """
from pegboard import Deny, hooks, implements

class Pack:
    @implements(hooks.guard_tool_call)
    def guard_tool_call(self, call):
        return Deny("closed today") if call.name in NAMES else None
"""


def test_where_nothing_may_be_read_the_hits_themselves_are_cited(
    pegboard: Pegboard, pack_folder: Any, shop: Path
) -> None:
    pack_folder.add("guard", GUARD.replace("NAMES", "['read']"))

    text = events(pegboard("run", "--json", "How does a retry back off?", cwd=shop))[-1]["text"]

    assert re.search(r"^  src/client\.py:4-8$", text, re.MULTILINE)


def test_where_the_search_is_denied_the_answer_says_so(pegboard: Pegboard, pack_folder: Any, shop: Path) -> None:
    pack_folder.add("guard", GUARD.replace("NAMES", "['grep']"))

    text = events(pegboard("run", "--json", "How does a retry back off?", cwd=shop))[-1]["text"]

    assert "`grep` did not work: Error: denied by guard: closed today" in text
