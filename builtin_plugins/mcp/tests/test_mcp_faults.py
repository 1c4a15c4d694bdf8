"""Servers that do one thing wrong: a clear outcome inside the deadline, the others untouched, nothing left behind."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, Final

import pytest

CALLED: Final = {
    "none": ("ok", None, "y"),
    "prints": ("ok", None, "y"),
    "prints-without-end": ("ok", None, "y"),
    "talkative": ("ok", None, "y"),
    "asks-back": ("ok", None, "y"),
    "slow-start": ("ok", None, "y"),
    "same-page": ("ok", None, "y"),
    "forks": ("ok", None, "y"),
    "ignores-the-end": ("ok", None, "y"),
    "dies-in-call": (
        "error",
        "TOOL_FAILED",
        "was lost during the call: it ended with exit code 11: Traceback: · out of",
    ),
    "silent-in-call": ("error", "TIMEOUT", "was stopped after its 1 s"),
    "not-a-result": ("error", "TOOL_FAILED", "answered what is no result of a tool: "),
    "odd-part": ("error", "TOOL_FAILED", "answered what is no result of a tool: "),
    "refuses": ("error", "TOOL_FAILED", "refuses the call: no \\x1b[31mpaper in tray 2 (-32602)"),
    "half-json": ("error", "TOOL_FAILED", 'it sent what is no JSON-RPC message: {"jsonrpc": "2.0", "id"'),
    "lies": ("error", "INVALID_TOOL_OUTPUT", 'n: "one" is not of type "integer"'),
    "reports-an-error": ("error", "TOOL_FAILED", "Error: tray 2 is empty"),
}
NOT_UP: Final = {
    "dies-at-start": "it ended with exit code 7: no licence found",
    "dies-at-handshake": "it ended with exit code 9",
    "silent-at-start": "it was not ready within 1 s (connect_timeout)",
    "silent-list": "it did not answer `tools/list` within 1 s (list_timeout)",
}
DROPPED: Final = {
    "bad-tools": {
        "call": "there is one of that name already",
        "(no name)": "it has no name",
        "a/b": "its name can't be told from that of `a.b`",
        "s": "its `inputSchema` is no JSON Schema",
        "d": "its description is longer than",
        "r": "leads back to itself",
        "o": "its `outputSchema` is no object",
        "t": "its description is no text",
        "last": "its description is no text",
    },
    "endless-pages": {"(no name)": "goes on after 100 pages"},
    "same-page": {"(no name)": "comes back to one that was read"},
    "no-list": {"(no name)": "answered without a list of tools"},
    "odd-cursor": {"(no name)": "the cursor to its next page is no text"},
    "many-tools": {"t1000": "more than 1,000 tools", "t1099": "more than 1,000 tools"},
}


@pytest.fixture(scope="module")
def seen(servers: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All of them at one host at once: what became of each, of a call to it, and what of it was left at the end."""
    folder = tmp_path_factory.mktemp("faults")
    names = list(dict.fromkeys([*CALLED, *NOT_UP, *DROPPED]))
    short = {"silent-at-start": {"connect_timeout": 1}, "silent-list": {"list_timeout": 1}}
    short["silent-in-call"] = {"call_timeout": 1}
    config = "".join(servers.odd(name, str(folder / f"{name}.log"), **short.get(name, {})) for name in names)
    found: dict[str, Any] = {}

    async def main() -> None:
        async with servers.connected(folder / "home", config) as desk:
            for name in names:
                result = await desk.call(f"mcp__{name}__call") if name in CALLED else None
                offer = desk.hub.offers[name]
                found[name] = {"state": offer.state, "reason": offer.reason, "result": result}
                found[name] |= {"dropped": offer.dropped, "tools": set(offer.tools), "notes": offer.notes}
            found["shown"] = desk.shown
        found["tasks"] = len(asyncio.all_tasks()) - 1

    began = time.monotonic()
    descriptors = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    found["seconds"] = time.monotonic() - began
    found["descriptors"] = len(os.listdir("/proc/self/fd")) - descriptors
    for name in names:
        log = folder / f"{name}.log"
        found[name]["log"] = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return found


@pytest.mark.parametrize("fault", CALLED)
def test_a_call_to_a_server_with_this_fault_comes_to_this(seen: dict[str, Any], fault: str) -> None:
    status, code, said = CALLED[fault]
    result = seen[fault]["result"]

    assert (result.status, result.code) == (status, code), result.content
    assert said in result.content


@pytest.mark.parametrize("fault", NOT_UP)
def test_a_server_that_is_not_there_in_time_says_why(seen: dict[str, Any], fault: str) -> None:
    assert NOT_UP[fault] in " ".join(line for line in seen["shown"] if line.startswith(f"{fault}:"))


@pytest.mark.parametrize("fault", DROPPED)
def test_what_is_wrong_in_a_list_of_tools_is_dropped_with_its_reason(seen: dict[str, Any], fault: str) -> None:
    dropped = {one.name: one.reason for one in seen[fault]["dropped"]}

    for name, reason in DROPPED[fault].items():
        assert reason in dropped[name]


def test_the_good_tools_of_a_bad_list_stay(seen: dict[str, Any]) -> None:
    assert seen["bad-tools"]["tools"] == {"call", "a.b"}
    assert len(seen["many-tools"]["tools"]) == 1_000
    assert len(seen["endless-pages"]["tools"]) == 100


def test_an_output_schema_that_cannot_be_checked_is_left_unchecked_and_told(seen: dict[str, Any]) -> None:
    (note,) = seen["lies"]["notes"]

    assert (note.name, "leads back to itself" in note.reason) == ("vain", True)


def test_a_call_whose_time_is_up_is_cancelled_at_the_server_and_sent_once(seen: dict[str, Any]) -> None:
    log = seen["silent-in-call"]["log"]
    (call,) = [line for line in log if line.get("method") == "tools/call"]
    (cancel,) = [line for line in log if line.get("method") == "notifications/cancelled"]

    assert cancel["params"]["requestId"] == call["id"]


def test_a_server_that_asks_is_told_the_roots_and_that_there_is_nobody_to_sample(seen: dict[str, Any]) -> None:
    answers = {line["id"]: line for line in seen["asks-back"]["log"] if line.get("id") in ("s1", "s2", "s3")}

    assert [root["uri"].startswith("file://") for root in answers["s2"]["result"]["roots"]] == [True]
    assert "error" in answers["s1"]
    assert answers["s3"]["error"]["code"] == -32601


def test_nothing_of_any_server_is_left_no_process_task_or_descriptor(seen: dict[str, Any]) -> None:
    pids = [
        line[key]
        for one in seen.values()
        if isinstance(one, dict)
        for line in one["log"]
        for key in line.keys() & {"pid", "child"}
    ]

    assert len(pids) >= 20
    assert [pid for pid in pids if runs(pid)] == []
    assert (seen["tasks"], seen["descriptors"]) == (0, 0)


def test_a_server_leads_its_own_group_and_sees_no_more_than_it_may(seen: dict[str, Any]) -> None:
    begun = seen["none"]["log"][0]

    assert begun["group"] == begun["pid"]
    assert not [name for name in begun["environment"] if name.startswith(("PYTEST", "XDG"))]


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- those that need a host of their own


def test_a_server_that_ignores_every_request_to_end_is_ended(servers: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(desk: Any) -> None:
        assert (await desk.call("mcp__ignores-everything__call")).status == "ok"

    servers.at_desk(tmp_path / "home", servers.odd("ignores-everything", str(log)), work)

    assert not runs(json.loads(log.read_text().splitlines()[0])["pid"])


def test_a_line_without_end_is_cut_off_at_the_cap_and_the_server_ended(servers: Any, tmp_path: Path) -> None:
    async def work(desk: Any) -> Any:
        return await desk.call("mcp__flood__call", {"n": 50_000_000})

    result = servers.at_desk(tmp_path / "home", servers.odd("flood"), work)

    assert "it sent a line of more than 16 MiB, so it was ended" in result.content


def test_a_megabyte_on_standard_error_blocks_nobody(servers: Any, tmp_path: Path) -> None:
    async def work(desk: Any) -> Any:
        return await desk.call("mcp__floods-stderr__call", {"n": 1_000_000})

    assert servers.at_desk(tmp_path / "home", servers.odd("floods-stderr"), work).status == "ok"


def test_a_large_answer_comes_whole_and_is_cut_by_the_kernel_alone(servers: Any, tmp_path: Path) -> None:
    async def work(desk: Any) -> Any:
        return await desk.call("mcp__none__call", {"n": 5_000_000})

    result = servers.at_desk(tmp_path / "home", servers.odd("none"), work)

    assert (result.status, "of 5,000,000 characters left out" in result.content) == ("ok", True)


def test_a_server_that_died_is_connected_again_and_the_call_is_not_sent_again(servers: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(desk: Any) -> tuple[Any, Any]:
        offer = desk.hub.offers["dies-in-call"]
        lost = await desk.call("mcp__dies-in-call__call")
        down = await desk.call("mcp__dies-in-call__call")
        await desk.until(lambda: offer.state == "up")
        return lost, down

    _lost, down = servers.at_desk(tmp_path / "home", servers.odd("dies-in-call", str(log)), work)

    messages = [json.loads(line) for line in log.read_text().splitlines()]
    assert "is not connected, so nothing was sent: it ended with exit code 11" in down.content
    assert "connecting again after 1 s" in down.content
    assert [one.get("method") for one in messages].count("initialize") == 2
    assert [one.get("method") for one in messages].count("tools/call") == 1


def test_a_server_known_for_the_handshake_is_not_probed_for_another_era(servers: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(desk: Any) -> None:
        assert desk.hub.offers["none"].connection.facts.era == "legacy"

    for _ in range(2):
        servers.at_desk(tmp_path / "home", servers.odd("none", str(log)), work)

    methods = [json.loads(line).get("method") for line in log.read_text().splitlines()]
    assert (methods.count("server/discover"), methods.count("initialize")) == (1, 2)
