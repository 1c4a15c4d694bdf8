"""Servers made with the SDK, over every transport and in both eras: the same tools, the same results."""

import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from pegboard_mcp import Server

SDK: Final = Path(__file__).with_name("sdk_server.py")
LINES: Final = ("pipe", "pipe-old", "web", "web-old", "sse")
CALLS: Final[dict[str, dict[str, Any]]] = {
    "add": {"a": 1, "b": 2},
    "show": {},
    "nothing": {},
    "fail": {},
    "count": {"n": 3},
}


@pytest.fixture(scope="module")
def seen(servers: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One host connected to all of them: facts, results of the same calls, what was shown, what changed later."""
    folder = tmp_path_factory.mktemp("lines")
    found: dict[str, Any] = {line: {} for line in LINES}

    async def main(config: str) -> None:
        async with servers.connected(folder / "home", config) as desk:
            for line in LINES:
                found[line] = await everything(desk, line, folder)
            found["source"] = desk.agent.view().get("mcp__web__add").source
            found["faults"] = desk.host.faults

    with ExitStack() as stack:
        url = stack.enter_context(servers.over_http("http", folder / "web.log"))
        sse = stack.enter_context(servers.over_http("sse", folder / "sse.log"))
        configured = [
            Server.stdio("pipe", sys.executable, str(SDK), "stdio", "0", str(folder / "pipe.log")),
            Server.stdio("pipe-old", sys.executable, str(SDK), "stdio", "0", str(folder / "pipe-old.log")),
            Server.http("web", url, headers={"X-Key": "${USER_KEY}"}),
            Server.http("web-old", url, headers={"X-Key": "a key"}),
            Server.sse("sse", sse, headers={"X-Key": "a key"}),
        ]
        for one in configured:
            if one.name.endswith("-old"):
                servers.remember_as_legacy(folder / "home", one)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("USER_KEY", "a key")
            asyncio.run(main("".join(written(servers, one) for one in configured)))
    return found


def written(servers: Any, one: Server) -> str:
    """Return a server as configuration."""
    if one.transport == "stdio":
        return str(servers.table(one.name, command=one.command, args=list(one.args)))
    return str(servers.table(one.name, url=one.url, headers=dict(one.headers), transport=one.transport))


async def everything(desk: Any, line: str, folder: Path) -> dict[str, Any]:
    """Make every call, cancel one, and let the server bring and take away tools."""
    offer = desk.hub.offers[line]
    prefix = f"mcp__{line}__"
    made = {name: await desk.call(prefix + name, arguments) for name, arguments in CALLS.items()}
    made["big"] = await desk.call(f"{prefix}big", {"n": 400_000 if line == "sse" else 1_500_000})
    key = await desk.call(f"{prefix}header", {"name": "X-Key"})

    log = folder / ("web.log" if line.startswith("web") else f"{line}.log")
    before = lines(log)
    calling = asyncio.ensure_future(desk.call(f"{prefix}nap", {"seconds": 60}))
    await desk.until(lambda: lines(log)[len(before) :] == ["asleep"])
    desk.agent.current_run.cancel("enough")
    await asyncio.wait({calling})
    await desk.until(lambda: lines(log)[len(before) :] == ["asleep", "woken"])

    name = f"new-{line}"
    await desk.call(f"{prefix}grow", {"names": [name]})
    await desk.until(lambda: name in offer.tools)
    grown = await desk.call(f"{prefix}{name}", CALLS["add"])
    await desk.call(f"{prefix}shrink", {"name": name})
    await desk.until(lambda: name not in offer.tools)
    return {"facts": offer.connection.facts, "results": made, "key": key, "grown": grown, "shown": list(desk.shown)}


def lines(log: Path) -> list[str]:
    """Return what the server noted."""
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("line", LINES)
def test_structured_content_is_checked_and_its_text_is_read(seen: dict[str, Any], line: str) -> None:
    result = seen[line]["results"]["add"]

    assert (result.status, "".join(result.content.split())) == ("ok", '{"total":3}')


@pytest.mark.parametrize("line", LINES)
def test_every_kind_of_part_reads_as_a_line_or_as_its_text(seen: dict[str, Any], line: str) -> None:
    assert seen[line]["results"]["show"].content.splitlines() == [
        "a text",
        "[image, image/png, 3 bytes; a model can't be shown it here]",
        "[audio, audio/wav, 2 bytes; a model can't be shown it here]",
        "[link to a resource: file:///plan.txt, plan, text/plain]",
        "[resource note://1, of no stated type]",
        "a note",
        "[resource blob://1, of no stated type, 6 bytes]",
    ]


@pytest.mark.parametrize("line", LINES)
def test_an_error_that_a_tool_reports_and_a_result_without_parts_are_told(seen: dict[str, Any], line: str) -> None:
    results = seen[line]["results"]

    assert (results["fail"].code, "tray 2 is empty" in results["fail"].content) == ("TOOL_FAILED", True)
    assert results["nothing"].content == "(it returned nothing)"


@pytest.mark.parametrize("line", LINES)
def test_progress_is_shown_while_a_call_runs(seen: dict[str, Any], line: str) -> None:
    assert "2 of 3 sheet 2" in seen[line]["shown"]


@pytest.mark.parametrize("line", LINES)
def test_tools_that_a_server_brings_later_are_there_and_those_it_takes_away_are_not(
    seen: dict[str, Any], line: str
) -> None:
    """The fixture waits for both, and for the cancelled call to end at the server."""
    assert seen[line]["grown"].status == "ok"


@pytest.mark.parametrize("line", ["web", "web-old", "sse"])
def test_headers_are_sent_with_the_values_of_the_users_environment(seen: dict[str, Any], line: str) -> None:
    assert seen[line]["key"].content == "a key"


@pytest.mark.parametrize("line", LINES)
def test_a_large_answer_comes_whole_and_is_cut_by_the_kernel_alone(seen: dict[str, Any], line: str) -> None:
    """Over the old SSE transport the SDK takes no message of more than 1 MiB."""
    size = "400,000" if line == "sse" else "1,500,000"

    assert f"of {size} characters left out" in seen[line]["results"]["big"].content


def test_both_eras_are_spoken(seen: dict[str, Any]) -> None:
    eras = {line: seen[line]["facts"].era for line in LINES}

    assert eras == {"pipe": "modern", "pipe-old": "legacy", "web": "modern", "web-old": "legacy", "sse": "legacy"}


def test_a_tool_says_which_server_of_which_pack_it_comes_from_and_how(seen: dict[str, Any]) -> None:
    assert seen["source"] == "server `web` of pack `mcp` (http)"
    assert seen["faults"] == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_that_dies_over_http_is_lost_with_the_call_and_the_others_stay(
    servers: Any, tmp_path: Path, era: str
) -> None:
    with servers.over_http("http", tmp_path / "log") as url:
        if era == "legacy":
            servers.remember_as_legacy(tmp_path / "home", Server.http("web", url))

        async def work(desk: Any) -> list[Any]:
            return [await desk.call(name) for name in ("mcp__web__die", "mcp__web__add", "mcp__none__call")]

        config = servers.table("web", url=url) + servers.odd("none")
        lost, down, other = servers.at_desk(tmp_path / "home", config, work)

    assert "was lost during the call: " in lost.content
    assert down.code == "INVALID_ARGS"  # checked before anything is sent
    assert other.status == "ok"


def test_what_is_at_an_address_without_a_server_is_told(servers: Any, tmp_path: Path) -> None:
    async def work(desk: Any) -> list[str]:
        return [line.split(" · ")[0] for line in desk.shown[1:]]

    with servers.over_http("http", tmp_path / "log") as url:
        config = servers.table("wrong", url=url.replace("/mcp", "/what?key=secret"))
        config += servers.table("closed", url="http://127.0.0.1:9/mcp")
        told = servers.at_desk(tmp_path / "home", config, work)

    assert sorted(told) == [
        "closed: it can't be reached: All connection attempts failed",
        "wrong: it answers 404 Not Found",
    ]
