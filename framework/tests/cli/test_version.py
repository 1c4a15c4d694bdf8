"""The very first thing: the version, before anything heavy is imported."""

import subprocess
import sys
from collections.abc import Callable

from pegboard import __version__


def test_version_is_printed_and_click_is_not_imported(
    pegboard: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    code = (
        "import sys; sys.argv = ['pegboard', '--version']; from pegboard.__main__ import main; main(); "
        "print('click' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines() == [f"pegboard {__version__}", "False"]
    assert pegboard("--version").stdout == f"pegboard {__version__}\n"
