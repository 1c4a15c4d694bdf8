"""The door for `pegboard` and `python -m pegboard`: answers `--version` before anything heavy is imported."""

import sys

from pegboard import __version__


def main() -> None:
    """Run the command line; exits the process."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"pegboard {__version__}\n")
        return
    from pegboard.cli.group import main as run

    run()


if __name__ == "__main__":
    main()
