"""Which files there are for `glob` and `grep`: what git would list, sorted, and nothing behind links."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pegboard import ToolResult

Call = Callable[..., ToolResult]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed, so there is no judge")


def make(folder: Path, *names: str, content: str = "needle\n") -> None:
    """Make files with their folders; a name that can't be is left out."""
    for name in names:
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, "utf-8")
        except OSError:
            continue


def listed(result: ToolResult) -> list[str]:
    """The paths that `glob` lists."""
    assert result.status == "ok", result.content
    return [] if result.content.startswith("no file matches") else result.content.split("\n")


def git(folder: Path, *arguments: str) -> bytes:
    """Run git, without the configuration of who runs the tests."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environ = {name: value for name, value in environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    return subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, check=True).stdout


def listed_by_git(folder: Path) -> list[str]:
    """What git does not ignore, sorted by bytes as we do."""
    names = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    return sorted({os.fsdecode(name) for name in names if name})


# -- sorted, regular, inside


def test_files_are_listed_sorted_by_their_whole_path(call: Call, project: Path) -> None:
    make(project, "b.txt", "a/z.txt", "a.txt", "a-b/c.txt", "a/b/c.txt", "B.txt", "é.txt", "a0")

    assert listed(call("glob", pattern="*")) == sorted(
        ["b.txt", "a/z.txt", "a.txt", "a-b/c.txt", "a/b/c.txt", "B.txt", "é.txt", "a0"]
    )


def test_of_many_files_the_first_are_listed_and_the_rest_counted(call: Call, project: Path) -> None:
    make(project, *(f"{number:04}.txt" for number in range(620)))

    result = call("glob", pattern="*.txt")

    lines = result.content.split("\n")
    assert lines[:500] == [f"{number:04}.txt" for number in range(500)]
    assert lines[500:] == ["(120 more; narrow the pattern)"]
    assert result.summary == "620 files"


def test_hidden_files_are_listed_but_not_version_control(call: Call, project: Path) -> None:
    make(project, ".github/ci.yml", ".env.example", ".git/config", ".hg/store", ".svn/entries", "sub/.git/HEAD")

    assert listed(call("glob", pattern="*")) == [".env.example", ".github/ci.yml"]


@pytest.mark.parametrize("name", [".git", "sub/.git"], ids=["worktree", "submodule"])
def test_the_pointer_file_of_a_worktree_or_submodule_is_version_control_too(
    call: Call, project: Path, name: str
) -> None:
    make(project, name, content="gitdir: /elsewhere\n")
    make(project, "sub/a.txt")

    assert listed(call("glob", pattern="*")) == ["sub/a.txt"]


def test_virtual_environments_and_caches_are_left_out(call: Call, project: Path) -> None:
    make(project, "my-env/pyvenv.cfg", "my-env/lib/a.py", ".venv/a.py", "node_modules/a.js", "src/__pycache__/a.pyc")
    make(project, "src/a.py", "src/.mypy_cache/a.json", ".pytest_cache/a", ".ruff_cache/a", ".tox/a", ".nox/a")

    assert listed(call("glob", pattern="*")) == ["src/a.py"]
    assert call("grep", pattern="needle").content == "src/a.py:1: needle"


@pytest.mark.parametrize("rule", ["!node_modules/", "!/node_modules/", "!node_modules"])
def test_an_ignore_file_can_bring_a_usual_cache_back(call: Call, project: Path, rule: str) -> None:
    make(project, "node_modules/a.js", "sub/.tox/b")
    make(project, ".gitignore", content=f"{rule}\n")

    assert listed(call("glob", pattern="*")) == [".gitignore", "node_modules/a.js"]


def test_only_regular_files_are_listed_and_links_are_not_followed(call: Call, project: Path, tmp_path: Path) -> None:
    make(project, "a/real.txt")
    make(tmp_path / "outside", "x.txt")
    (project / "file-link").symlink_to("a/real.txt")
    (project / "folder-link").symlink_to("a")
    (project / "outside-link").symlink_to(tmp_path / "outside")
    (project / "a/loop").symlink_to("..")
    (project / "dangling").symlink_to("nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(project / "pipe")

    assert listed(call("glob", pattern="*")) == ["a/real.txt"]
    assert call("grep", pattern="needle").content == "a/real.txt:1: needle"


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode on Windows")
def test_names_that_are_not_utf_8_are_listed_and_searched_with_escapes(call: Call, project: Path, engine: str) -> None:
    names = [b"caf\xe9.txt", b"\xff\xfe/b.txt"]
    try:
        make(project, *map(os.fsdecode, names))
        assert os.listdir(os.fsencode(project))
    except (OSError, AssertionError):
        pytest.skip("this file system takes no such names")

    assert listed(call("glob", pattern="*.txt")) == [r"caf\xe9.txt", r"\xff\xfe/b.txt"]
    assert call("grep", pattern="needle").content == "caf\\xe9.txt:1: needle\n\\xff\\xfe/b.txt:1: needle"


@pytest.mark.skipif(os.name == "nt", reason="paths are shorter on Windows")
def test_a_tree_deeper_than_pythons_stack_is_walked(call: Call, project: Path) -> None:
    levels = 1200
    where = os.open(project, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=where)
        inner = os.open("d", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = inner
    os.close(os.open("a.txt", os.O_CREAT | os.O_WRONLY, dir_fd=where))
    os.close(where)

    try:
        result = call("glob", pattern="*.txt")
    finally:
        subprocess.run(["rm", "-rf", str(project / "d")], check=True)  # shutil can't go that deep

    assert listed(result) == ["d/" * levels + "a.txt"]


# -- what git ignores


RULES = {
    "by name anywhere": (["a.log", "sub/a.log", "a.txt"], {".": "*.log"}),
    "anchored by a leading slash": (["a", "sub/a"], {".": "/a"}),
    "anchored by a slash inside": (["a/b", "c/a/b"], {".": "a/b"}),
    "folders only": (["build/x", "sub/build"], {".": "build/"}),
    "the last rule wins": (["a.log", "b.log"], {".": "*.log\n!b.log"}),
    "and the last again": (["b.log"], {".": "*.log\n!b.log\nb.log"}),
    "nothing comes back out of an ignored folder": (["a/b", "a/c"], {".": "a/\n!a/b"}),
    "but out of an ignored content": (["a/b", "a/c"], {".": "a/*\n!a/b"}),
    "everything but some kind": (["x/a.log", "x/b.py", "c.py", "x/y/d.py"], {".": "*\n!*/\n!*.py"}),
    "everything but one folder": (["x/a", "keep/b", "keep/c/d", "e"], {".": "/*\n!/keep"}),
    "a folder that comes back has its files judged alone": (["sub/x/a.log", "sub/x/b"], {".": "*.log", "sub": "!x/"}),
    "a content rule is no rule for the folder": (["a/a", "b"], {".": "a\n!a/**"}),
    "the deeper file wins": (["sub/a.log", "a.log"], {".": "*.log", "sub": "!*.log"}),
    "the deeper file is relative to its folder": (["sub/a", "sub/x/a", "a"], {"sub": "/a"}),
    "in an ignored folder nobody is asked": (["sub/a"], {".": "sub/", "sub": "!*"}),
    "stars over folders": (["a/b/c/d", "a/d", "x/a/d"], {".": "a/**/d"}),
    "leading stars": (["a/b", "b", "c/d/b"], {".": "**/b"}),
    "trailing stars": (["a/b", "a/c/d", "e"], {".": "a/**"}),
    "a star ends at a slash": (["a/b/c", "a/c"], {".": "a/*c"}),
    "question mark": (["ab", "abc", "a/c"], {".": "a?"}),
    "class": (["a1", "ab", "a-", "a]"], {".": "a[0-9]"}),
    "negated class": (["a1", "ab"], {".": "a[!0-9]"}),
    "class with its own end": (["a]", "ab"], {".": "a[]]"}),
    "named class": (["a1", "ab"], {".": "a[[:digit:]]"}),
    "escaped star": (["a*", "ab"], {".": r"a\*"}),
    "escaped hash": (["#a", "a"], {".": r"\#a"}),
    "comment": (["#a", "a"], {".": "#a"}),
    "escaped exclamation mark": (["!a", "a"], {".": r"\!a"}),
    "escaped backslash": (["a\\b", "ab"], {".": r"a\\b"}),
    "escaped letter": (["ab"], {".": r"\ab"}),
    "trailing spaces": (["a", "a "], {".": "a  "}),
    "escaped trailing space": (["a", "a "], {".": "a\\ "}),
    "leading space": ([" a", "a"], {".": " a"}),
    "space inside": (["a b", "a"], {".": "a b"}),
    "carriage returns": (["a.log", "b", "c"], {".": "a.log\r\nb\r\n"}),
    "byte order mark": (["a.log", "b"], {".": "\ufeffa.log"}),
    "only a line feed ends a line": (["a", "b", "a\x0cb", "a\u2028b"], {".": "a\x0cb\na\u2028b"}),
    "no braces": (["a.txt", "a.{txt,md}"], {".": "a.{txt,md}"}),
    "upper case is another name": (["A.LOG", "a.log"], {".": "*.log"}),
    "hidden": ([".x", "x"], {".": ".*\n!.gitignore"}),
    "a bad rule spoils no other: lone !": (["a.log", "b"], {".": "a.log\n!"}),
    "a bad rule spoils no other: lone backslash": (["a.log", "b"], {".": "a.log\n\\"}),
    "a bad rule spoils no other: backslash at the end": (["a.log", "b"], {".": "a.log\nb\\"}),
    "a bad rule spoils no other: open class": (["a.log", "b"], {".": "a.log\n["}),
    "a bad rule spoils no other: slashes": (["a.log", "b"], {".": "a.log\n/\n//"}),
}


@needs_git
@pytest.mark.parametrize(("names", "rules"), RULES.values(), ids=RULES)
def test_ignore_rules_mean_what_they_mean_to_git(
    call: Call, project: Path, names: list[str], rules: dict[str, str]
) -> None:
    git(project, "init", "-q")
    make(project, *names)
    for folder, text in rules.items():
        (project / folder / ".gitignore").write_bytes(text.encode() + b"\n")

    assert listed(call("glob", pattern="*")) == listed_by_git(project)


@needs_git
@pytest.mark.skipif(os.name == "nt", reason="names are Unicode on Windows")
def test_ignore_rules_are_bytes(call: Call, project: Path) -> None:
    git(project, "init", "-q")
    try:
        make(project, os.fsdecode(b"\xe9.txt"), os.fsdecode(b"\xe8.txt"))
        (project / ".gitignore").write_bytes(b"\xe9.txt\n")
        assert len(os.listdir(project)) == 4
    except (OSError, AssertionError):
        pytest.skip("this file system takes no such names")

    assert listed(call("glob", pattern="*")) == [".gitignore", r"\xe8.txt"]


NAMES = st.lists(
    st.sampled_from(["a", "b", "c", "ab", "a.txt", "b.log", "a b", "#x", "!y", "a*", "[z]"]), min_size=1, max_size=4
).map("/".join)
PIECES = st.sampled_from(
    ["a", "b", "c", "ab", "*", "**", "a*", "*b", "?", "[ab]", "[!a]", "*.txt", "a.txt", "a b", r"\#x", r"\!y", r"a\*"]
)
PATTERNS = st.tuples(
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PIECES, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/", " ", "/*", "/**"]),
).map("".join)
IGNORE_FILES = st.lists(st.one_of(PATTERNS, st.sampled_from(["*", "/*", "!*/", "# a", ""])), max_size=5).map("\n".join)


@needs_git
@given(
    names=st.lists(NAMES, min_size=1, max_size=10),
    rules=st.dictionaries(st.sampled_from([".", "a", "b", "a/b"]), IGNORE_FILES, min_size=1, max_size=3),
)
@example(names=["a/b/c"], rules={".": "*\n!*/\n!c"})
@example(names=["a/a"], rules={".": "a\n!a/**"})
@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_with_any_rules_is_listed_as_git_lists_it(
    call: Call, project: Path, names: list[str], rules: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory(dir=project) as made:
        folder = Path(made)
        git(folder, "init", "-q")
        make(folder, *names)
        for place, text in rules.items():
            if (folder / place).is_dir():
                (folder / place / ".gitignore").write_text(text + "\n")

        assert listed(call("glob", inside=folder, pattern="*")) == listed_by_git(folder)


@needs_git
def test_this_very_repositorys_rules_are_read_as_git_reads_them(call: Call, project: Path) -> None:
    """The tree of a usual Python project, with what its tools leave behind."""
    git(project, "init", "-q")
    rules = "*.egg-info/\n/dist/\nbuild\n!docs/build\n*.py[cod]\n/.coverage*\n.env\nuv.lock\n!/keep/**/uv.lock\n"
    make(project, ".gitignore", content=rules)
    make(project, "src/a.py", "src/a.pyc", "src/a.egg-info/x", "dist/x", "src/dist/x", "build/x", "docs/build/x")
    make(project, ".coverage", ".coverage.1", "src/.coverage", ".env", ".envrc", "uv.lock", "keep/x/uv.lock")

    assert listed(call("glob", pattern="*")) == listed_by_git(project)


def test_an_ignore_file_of_its_own_speaks_after_the_one_of_git(call: Call, project: Path) -> None:
    make(project, "a.log", "b.log", "c.txt")
    make(project, ".gitignore", content="*.log\n")
    make(project, ".ignore", content="!a.log\nc.txt\n")

    assert listed(call("glob", pattern="*")) == [".gitignore", ".ignore", "a.log"]


def test_rules_of_the_folders_above_count_when_a_subfolder_is_searched(call: Call, project: Path, engine: str) -> None:
    make(project, "src/deep/a.log", "src/deep/b.txt", "src/deep/c.tmp", "src/deep/keep.log", "src/deep/d")
    make(project, ".gitignore", content="*.log\n/src/deep/d\n")
    make(project, "src/.gitignore", content="*.tmp\n!keep.log\n")

    paths = ["src/deep/b.txt", "src/deep/keep.log"]
    assert listed(call("glob", pattern="*", path="src/deep")) == paths
    assert call("grep", pattern="needle", path="src/deep").content == "\n".join(f"{path}:1: needle" for path in paths)


def test_a_file_that_is_named_is_searched_although_it_is_ignored(call: Call, project: Path, engine: str) -> None:
    make(project, "a.log")
    make(project, ".gitignore", content="*.log\n")

    assert call("grep", pattern="needle", path="a.log").content == "a.log:1: needle"


# -- which paths a glob matches


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["README.md", "docs/a.rst", "src/app.py", "src/app.ts", "src/deep/app.py", "x.{py}"]),
        ("*.py", ["src/app.py", "src/deep/app.py"]),
        ("src/*.py", ["src/app.py"]),
        ("/src/*.py", ["src/app.py"]),
        ("src/**/*.py", ["src/app.py", "src/deep/app.py"]),
        ("**/deep/*", ["src/deep/app.py"]),
        ("*.{md,rst}", ["README.md", "docs/a.rst"]),
        ("{src,docs}/*.{py,rst}", ["docs/a.rst", "src/app.py"]),
        ("{src/{app.ts,deep/app.py},README.md}", ["README.md", "src/app.ts", "src/deep/app.py"]),
        ("{a,b}{c,d}{e,f}{g,h}{i,j}", []),
        ("app.?s", ["src/app.ts"]),
        ("app.[pt]*", ["src/app.py", "src/app.ts", "src/deep/app.py"]),
        ("!*.py", ["README.md", "docs/a.rst", "src/app.ts", "x.{py}"]),
        ("!*.{py,ts,rst}", ["README.md", "x.{py}"]),
        ("!src/*.py", ["README.md", "docs/a.rst", "src/app.ts", "src/deep/app.py", "x.{py}"]),
        ("src/deep", ["src/deep/app.py"]),
        ("README.md", ["README.md"]),
        ("readme.md", []),
        ("#nothing", []),
        ("../*", []),
    ],
)
def test_a_glob_matches_at_any_depth_unless_it_has_a_slash(
    call: Call, project: Path, pattern: str, found: list[str]
) -> None:
    make(project, "README.md", "docs/a.rst", "src/app.py", "src/app.ts", "src/deep/app.py", "x.{py}")

    assert listed(call("glob", pattern=pattern)) == found
    assert call("grep", pattern="needle", glob=pattern).content == (
        "\n".join(f"{path}:1: needle" for path in found) or "no match"
    )


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/app.py", "src/deep/app.py"]),
        ("/app.py", ["src/app.py"]),
        ("deep/*.py", ["src/deep/app.py"]),
        ("src/*.py", ["src/app.py"]),
        ("!deep/*.py", ["src/app.py"]),
        ("!src/deep/*.py", ["src/app.py"]),
        ("!src/app.py", ["src/deep/app.py"]),
    ],
)
def test_with_a_path_a_glob_is_relative_to_it_or_to_the_session_directory(
    call: Call, project: Path, pattern: str, found: list[str]
) -> None:
    make(project, "src/app.py", "src/deep/app.py", "other/app.py")

    assert listed(call("glob", pattern=pattern, path="src")) == found
    assert call("grep", pattern="needle", glob=pattern, path="src").content == "\n".join(
        f"{path}:1: needle" for path in found
    )


@pytest.mark.parametrize("pattern", ["", "  ", "!", "\\", "a\\", "!\\"])
def test_a_glob_that_is_none_is_one_clear_error(call: Call, project: Path, pattern: str) -> None:
    make(project, "a.txt")

    result = call("glob", pattern=pattern)

    assert result.status == "error"
    assert "pattern" in result.content
    assert "GitIgnore" not in result.content


def test_a_path_that_does_not_exist_is_an_error_and_not_an_empty_list(call: Call) -> None:
    results = [call("glob", pattern="*", path="nowhere"), call("grep", pattern="x", path="nowhere")]

    assert [result.content for result in results] == ["Error: `nowhere` does not exist"] * 2
