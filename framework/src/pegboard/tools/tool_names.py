"""What to tell a model that calls a tool by a name that nothing has."""

import re
from collections.abc import Collection
from typing import Final

from pegboard.base.text import count, did_you_mean, printable

_SHOWN: Final = 64
_PREFIX: Final = re.compile(r".*[.:/]")
# Names under which models know tools from elsewhere; each group means the same thing.
_SAME: Final = tuple(
    frozenset(names.split())
    for names in (
        "shell bash sh zsh pwsh powershell terminal exec execute run_command run_shell run_shell_command",
        "read read_file cat view view_file open_file get_file",
        "write write_file create_file save_file",
        "edit edit_file str_replace str_replace_editor str_replace_based_edit_tool apply_patch replace replace_in_file",
        "grep search search_files grep_search rg ripgrep file_search search_code",
        "glob ls list list_files list_dir list_directory find find_files",
        "ask_user ask ask_question ask_followup_question request_user_input",
    )
)


def unknown_tool(name: str, known: Collection[str]) -> str:
    """Return `unknown tool "functions.read"; did you mean `read`?`: what was called, and the tool that was meant.

    A name that is too long or holds what can't be shown is not sent back.
    """
    told = "unknown tool"
    if len(name) > _SHOWN:
        return f"{told}: its name has {count(len(name), 'character')}, at most {_SHOWN} can be one"
    if printable(name) == name and not any(character.isspace() for character in name):
        told += f' "{name}"'
    return told + near_tool(name, known)


def near_tool(name: str, known: Collection[str]) -> str:
    """Return `; did you mean `read`?` for the known tool that a short name means, or an empty string.

    It is the name without what some models put before it, then another word for the same, then the nearest.
    """
    bare = _PREFIX.sub("", name).lower()
    same = [one for group in _SAME if bare in group for one in sorted(group) if one in known]
    meant = bare if bare in known else same[0] if same else None
    return f"; did you mean `{meant}`?" if meant else did_you_mean(bare, known)
