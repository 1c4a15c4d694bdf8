"""What a server is: what starts or reaches it, who said so, and the hash that a consent to it is bound to."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from pegboard import UsageError, one_line

Transport = Literal["stdio", "http", "sse"]

# No double underscore, so that `mcp__<server>__<tool>` names one tool of one server.
NAME: Final = r"[A-Za-z0-9]+([-_]?[A-Za-z0-9]+)*"
NAME_LENGTH: Final = 40
# A shorter value stands in texts by chance.
_LEAST_SECRET: Final = 6
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How many seconds a server has to be connected, to answer `tools/list`, and to answer a call."""

    connect: float = 20
    list: float = 10
    call: float = 60


@dataclass(frozen=True, slots=True)
class Server:
    """A server as its configuration has it. Make it with `Server.stdio`, `Server.http` or `Server.sse`.

    In all texts `${NAME}` stands for a variable of the user's environment. `roots`: it is told the directories of the
    live sessions, if it asks. `pack` brought it ("" is the configuration) and `source` is where it was written; both
    are filled in by the pack `mcp`.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = Deadlines()
    roots: bool = True
    pack: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name) or len(self.name) > NAME_LENGTH:
            told = f"letters, digits, single `-` or `_` between them, at most {NAME_LENGTH}"
            raise UsageError(f"`{one_line(self.name, 60)}` is no name of a server: {told}")
        if self.transport == "stdio" and not self.command:
            raise UsageError(f"server `{self.name}` needs a `command`, or a `url`")
        if self.transport != "stdio" and not self.url.startswith(("http://", "https://", "${")):
            raise UsageError(f"server `{self.name}`: a `url` begins with http:// or https://")

    @classmethod
    def stdio(
        cls,
        name: str,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        deadlines: Deadlines = Deadlines(),  # frozen
    ) -> "Server":
        """A program that is started, and spoken to over its input and output.

        `command` is a name on PATH or an absolute path, `cwd` an absolute path or `~/…`; without it the program starts
        in the current directory. It sees a harmless part of the environment, and `env`.

        Raises:
            UsageError: the name or the command can't be one.
        """
        return cls(name, "stdio", command=command, args=args, env=dict(env or {}), cwd=cwd, deadlines=deadlines)

    @classmethod
    def http(
        cls,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        deadlines: Deadlines = Deadlines(),
    ) -> "Server":
        """A server that is reached over Streamable HTTP.

        Raises:
            UsageError: the name or the URL can't be one.
        """
        return cls(name, "http", url=url, headers=dict(headers or {}), deadlines=deadlines)

    @classmethod
    def sse(
        cls,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        deadlines: Deadlines = Deadlines(),
    ) -> "Server":
        """An old server that is reached over HTTP with server-sent events.

        Raises:
            UsageError: the name or the URL can't be one.
        """
        return cls(name, "sse", url=url, headers=dict(headers or {}), deadlines=deadlines)

    @property
    def hash(self) -> str:
        """SHA-256, in hex, of all that decides what is started or reached, as it is written: `${NAME}` unexpanded."""
        parts = [self.transport, self.command, self.args, dict(self.env), self.cwd, self.url, dict(self.headers)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"server `{self.name}`"

    @property
    def origin(self) -> str:
        """Where its tools come from, for people."""
        return f"server `{self.name}` of pack `{self.pack or 'mcp'}` ({self.transport})"

    def told(self) -> str:
        """Return, on one line, what is started or reached; of `env` and `headers` the names alone."""
        what = (
            re.sub("//[^/@]*@", "//…@", self.url.split("?")[0])
            if self.url
            else " ".join(_quoted([self.command, *self.args]))
        )
        named = [*(f"env {name}" for name in self.env), *(f"header {name}" for name in self.headers)]
        inside = [f"in {self.cwd}"] if self.cwd else []
        return one_line("  ".join([what, *inside, *named]), 400)

    def veil(self, text: str, environ: Mapping[str, str]) -> str:
        """Return a text that the server may have had a hand in, with names for the values of variables and headers."""
        named = {name: environ.get(name, "") for part in self._texts() for name in _REFERENCE.findall(part)}
        shown = [(value, f"${{{name}}}") for name, value in named.items()]
        shown += [(value, f"<{name}>") for name, value in (*self.env.items(), *self.headers.items())]
        for value, name in sorted(shown, reverse=True):
            if len(value) >= _LEAST_SECRET and not _REFERENCE.search(value):
                text = text.replace(value, name)
        return text

    def _texts(self) -> Iterator[str]:
        yield from (self.command, *self.args, self.cwd, self.url, *self.env.values(), *self.headers.values())

    def expanded(self, environ: Mapping[str, str]) -> "Server":
        """Return the server with the values of the variables that it names.

        Raises:
            UsageError: naming those that are not set.
        """
        missing: dict[str, None] = {}

        def value(text: str) -> str:
            for name in _REFERENCE.findall(text):
                if name not in environ:
                    missing[name] = None
            return _REFERENCE.sub(lambda found: environ.get(found[1], ""), text)

        made = replace(
            self,
            command=value(self.command),
            args=tuple(value(text) for text in self.args),
            env={name: value(text) for name, text in self.env.items()},
            cwd=value(self.cwd),
            url=value(self.url),
            headers={name: value(text) for name, text in self.headers.items()},
        )
        if missing:
            names = ", ".join(missing)
            raise UsageError(
                f"{self.title} names {names}, not set in your environment; export it, or change {self.source}"
            )
        return made

    def directory(self) -> Path:
        """Return where its program starts.

        Raises:
            UsageError: `cwd` is no absolute path, or no folder.
        """
        path = Path(os.path.expanduser(self.cwd)) if self.cwd else Path.cwd()
        if not path.is_absolute() or not path.is_dir():
            told = "is no folder" if path.is_absolute() else "is relative; write it from / or ~ on"
            raise UsageError(f"{self.title}: `cwd` {one_line(str(path), 200)} {told} ({self.source})")
        return path


def _quoted(words: Sequence[str]) -> list[str]:
    return [word if word and not re.search(r"\s", word) else repr(word) for word in words]
