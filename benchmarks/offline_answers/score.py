"""How many questions about unpacked sdists the offline model answers with the right place.

    .venv/bin/uv run python benchmarks/offline_answers/score.py [KEY.toml ...] [--sdists FOLDER] [--verbose]

Downloads the sdists that a key names (pip, from wherever pip takes packages), unpacks them and asks every question with
`pegboard run --json`. An answer is right when one of its places (at most five) overlaps the key's lines in the key's
file; it is right at once when its first place does.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLACE = re.compile(r"^  (\S+):(\d+)-(\d+)$", re.MULTILINE)


def unpack(name: str, version: str, folder: Path) -> Path:
    """Return the unpacked sdist, fetched and unpacked once."""
    found = [path for path in folder.glob(f"{name}-{version}") if path.is_dir()]
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "-d", str(folder), f"{name}=={version}"], check=True)
        for archive in folder.glob(f"{name}-{version}.tar.gz"):
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        found = [path for path in folder.glob(f"{name}-{version}") if path.is_dir()]
    return found[0]


def ask(question: str, folder: Path) -> tuple[list[tuple[str, int, int]], str]:
    """Return the places that the answer cites, and the answer."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
        command = [sys.executable, "-m", "pegboard", "run", "--json", question]
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    end: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return [(path, int(first), int(last)) for path, first, last in PLACE.findall(end["text"])], end["text"]


def right(places: list[tuple[str, int, int]], key: dict[str, Any]) -> bool:
    """Whether a cited place overlaps the key's."""
    keys = [key, *key.get("also", [])]
    return any(
        path == one["file"] and first <= one["lines"][1] and last >= one["lines"][0]
        for path, first, last in places
        for one in keys
    )


def main() -> None:
    """Score every key given, or the one in this folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("keys", nargs="*", type=Path, default=[HERE / "questions.toml"])
    parser.add_argument("--sdists", type=Path, default=Path(tempfile.gettempdir()) / "pegboard-sdists")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.sdists.mkdir(exist_ok=True)
    for key_file in options.keys:
        key = tomllib.loads(key_file.read_text("utf-8"))
        folders = {name: unpack(name, version, options.sdists) for name, version in key["sdists"].items()}
        good = first = 0
        for question in key["question"]:
            places, answer = ask(question["ask"], folders[question["project"]])
            hit, at_once = right(places, question), right(places[:1], question)
            good, first = good + hit, first + at_once
            mark = "first" if at_once else "right" if hit else "wrong"
            print(f"{mark}  {question['id']:<9} {question['ask']}")
            if options.verbose and not hit:
                print(f"       key {question['file']}:{question['lines']}\n{answer}")
        print(f"{key_file.name}: {good} of {len(key['question'])} right, {first} at once")


if __name__ == "__main__":
    main()
