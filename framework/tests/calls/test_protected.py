"""Paths that no tool writes without a person (DESIGN §3.5), existing or not, in any spelling."""

import os
from pathlib import Path

import pytest
from pegboard.calls.policy import protected_reason
from pegboard.config.places import Places

REPO = Path("/projects/repo")
PLACES = Places(Path("/home/me/.config/pegboard/config.toml"), Path("/home/me/.local/state/pegboard"))


def reason(path: str, places: Places = PLACES) -> str | None:
    """Ask about a path in a session below the repository's root."""
    return protected_reason(path, places, REPO / "src")


@pytest.mark.parametrize(
    "path",
    [
        "pegboard.toml", "pegboard.lock", "sub/pegboard.toml", "src/deep/er/pegboard.toml", ".agents",
        ".agents/skills/one/SKILL.md", "src/.agents/new", "PegBoard.TOML", ".AGENTS/x", "pegboard.toml.",
        "pegboard.toml ", "pegboard.toml::$DATA",
        ".git", ".git/hooks/pre-commit", ".git/config", ".GIT/hooks/x", ".g\u200cit/config", "vendor/lib/.git/config",
        ".git/modules/x/hooks/y", ".gitmodules", "bare.git/hooks/post-update", "bare.git/config", ".husky/pre-push",
        ".githooks/x", ".pre-commit-config.yaml", "lefthook.yml",
        ".github/workflows/ci.yml", ".github/actions/x/action.yml", ".github", ".github/workflows", ".gitlab-ci.yml",
        ".circleci/config.yml", "Jenkinsfile", "JENKINSFILE", "azure-pipelines.yml", ".buildkite/pipeline.yml",
        ".travis.yml", "bitbucket-pipelines.yml", ".woodpecker/a.yml", ".woodpecker.yml", ".drone.yml",
        ".gitea/workflows/x.yml",
    ],
)  # fmt: skip
def test_what_gives_orders_needs_a_person(path: str) -> None:
    told = reason(f"{REPO}/{path}")

    assert told is not None and len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "path",
    [
        "README.md", "src/main.py", "docs/pegboard.toml.md", "agents/x.py", "src/agents.py", "git/hooks/x", "hooks/x",
        ".gitignore", ".gitattributes", ".github/ISSUE_TEMPLATE.md", ".github/dependabot", "workflows/ci.yml",
        "config.toml", "state.toml", "Jenkinsfile/notes", "ci.yml", "my.github/workflows.md", "digit/config",
        "notes.git", "a.git.md",
    ],
)  # fmt: skip
def test_everything_else_needs_none_for_its_name(path: str) -> None:
    assert reason(f"{REPO}/{path}") is None


def test_the_users_own_settings_and_what_pegboard_remembers_need_a_person() -> None:
    for path in (PLACES.config_file, PLACES.config_file.parent / "new", PLACES.state_dir, PLACES.state_dir / "a" / "b"):
        assert reason(str(path)) is not None

    assert reason("/home/me/.config/pegboard-other") is None
    assert reason("/HOME/me/.config/PEGBOARD/config.toml") is not None


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_where_a_link_leads_is_protected_too(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "config").symlink_to(tmp_path / "dotfiles")
    (tmp_path / "dotfiles" / "config.toml").symlink_to(tmp_path / "mine.toml")
    places = Places(tmp_path / "config" / "config.toml", tmp_path / "state")

    assert reason(str(tmp_path / "dotfiles" / "other"), places) is not None
    assert reason(str(tmp_path / "mine.toml"), places) is not None
    assert reason(str(tmp_path / "theirs.toml"), places) is None


def test_the_reason_names_the_path_as_the_session_sees_it() -> None:
    assert reason(f"{REPO}/src/pegboard.toml") == "pegboard.toml is read by Pegboard as a project's settings"
    assert reason(f"{REPO}/Jenkinsfile") == f"{REPO}/Jenkinsfile is run by a CI service"
