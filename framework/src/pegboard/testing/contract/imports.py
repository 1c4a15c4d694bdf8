"""Rules `disabled` and `import`: a pack that is off is not imported, and importing one has no effects."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any, Final

from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen

_MENDS: Final[Mapping[str, str]] = {
    "thread": "start it in `host_started`, as a task (`host.start_task`), and end it in `host_stopping`",
    "file": "write in a hook, below `host.state_dir()`",
    "environment": "give it to the process that needs it, in `ProcessSpec.env`",
    "network": "connect in `run_starting`, or when the tool is first called",
    "process": "start it in a hook, with `host.spawn`",
}
# What the interpreter announces (PEP 578) -> the kind of effect, and how to say it of the event's first argument.
_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("file", "writes to `{}`"),
    "sqlite3.connect": ("file", "opens the database `{}`"),
    "os.mkdir": ("file", "makes the folder `{}`"),
    "os.remove": ("file", "removes `{}`"),
    "os.rmdir": ("file", "removes `{}`"),
    "os.rename": ("file", "renames `{}`"),
    "os.link": ("file", "links `{}`"),
    "os.symlink": ("file", "links `{}`"),
    "os.chdir": ("environment", "changes the current directory to `{}`"),
    "os.putenv": ("environment", "sets the environment variable `{}`"),
    "os.unsetenv": ("environment", "removes the environment variable `{}`"),
    "socket.connect": ("network", "opens a connection"),
    "socket.sendto": ("network", "sends to the network"),
    "socket.getaddrinfo": ("network", "looks up the host `{}`"),
    "socket.gethostbyname": ("network", "looks up the host `{}`"),
    "subprocess.Popen": ("process", "starts `{}`"),
    "os.posix_spawn": ("process", "starts `{}`"),
    "os.exec": ("process", "starts `{}`"),
    "os.fork": ("process", "forks the process"),
    "os.system": ("process", "runs `{}`"),
}
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def check_disabled(specimen: Specimen) -> Iterator[Finding]:
    """Yield the pack's modules that are imported although it is off."""
    specimen.open(disable=(specimen.name,))
    for module in specimen.modules():
        what = f"`{module.__name__}` is imported although the pack is switched off"
        mend = "let nothing but its entry points import it (no `.pth` file, no `sitecustomize`, no other plugin group)"
        yield Finding("disabled", what, specimen.show(module.__file__ or module.__name__), mend)


def check_import(specimen: Specimen, watch: "Watch") -> Iterator[Finding]:
    """Import the pack and its commands; yield what that does besides."""
    for reference in dict.fromkeys([specimen.reference, *specimen.own.commands.values()]):
        try:
            with watch:
                found = specimen.load(reference)
        except BaseException as error:  # packs call sys.exit at import, too
            what = f"`{reference}` can't be imported: {type(error).__name__}: {error}"
            mend = "mend the import, or correct the entry point"
            yield Finding("import", what, watch.place_in(error) or reference, mend)
        else:
            if reference == specimen.reference:
                yield from _take(specimen, found)
    for (kind, what), where in watch.seen.items():
        yield Finding("import", f"importing it {what}", where, _MENDS[kind])


def _take(specimen: Specimen, found: object) -> Iterator[Finding]:
    if isinstance(found, type | ModuleType):
        specimen.target = found
    else:
        what = f"`{specimen.reference}` is a {type(found).__name__}, which is no pack"
        yield Finding("import", what, specimen.reference, "let the entry point name a class or a module")


class Watch:
    """Hears what the interpreter is asked to do, while it is on. `cpu_ms` is what the first time took."""

    def __init__(self, specimen: Specimen) -> None:
        self.seen: dict[tuple[str, str], str] = {}
        self.cpu_ms: float | None = None
        self._specimen = specimen
        self._files = {str(file) for file in specimen.sources}
        self._on = False
        self._began = 0.0
        self._start_thread = threading.Thread.start
        sys.addaudithook(self._hear)

    def __enter__(self) -> None:
        def start(self_: threading.Thread) -> None:  # of threads the interpreter announces nothing
            self._see("thread", "starts a thread", sys._getframe(1))
            self._start_thread(self_)

        threading.Thread.start = start  # type: ignore[method-assign, assignment]
        self._began = time.process_time()
        self._on = True

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._on = False
        threading.Thread.start = self._start_thread  # type: ignore[method-assign]
        if self.cpu_ms is None and kind is None:
            self.cpu_ms = round((time.process_time() - self._began) * 1000, 1)

    def place_in(self, error: BaseException) -> str:
        """Return the place in the pack's own code that an error came through last."""
        trace, where = error.__traceback__, ""
        while trace is not None:
            if trace.tb_frame.f_code.co_filename in self._files:
                where = self._specimen.show(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            trace = trace.tb_next
        return where

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on or event not in _EVENTS or _is_harmless(event, arguments):
            return
        kind, words = _EVENTS[event]
        first = arguments[1] if event == "subprocess.Popen" else (arguments or ("",))[0]
        self._see(kind, words.format(_shown(first)), sys._getframe(1))

    def _see(self, kind: str, what: str, frame: FrameType) -> None:
        self._on = False  # looking at the place must not be heard
        self.seen.setdefault((kind, what), self._place(frame))
        self._on = True

    def _place(self, frame: FrameType | None) -> str:
        while frame is not None:
            if frame.f_code.co_filename in self._files:
                return self._specimen.show(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return self._specimen.reference


def _is_harmless(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether it is reading, or Python's own keeping of compiled modules."""
    first = arguments[0] if arguments else ""
    if isinstance(first, str | bytes | os.PathLike) and "__pycache__" in os.fsdecode(first):
        return True
    if event == "sqlite3.connect":
        return first == ":memory:"
    if event != "open":
        return False
    mode, flags = arguments[1], arguments[2]
    writes = any(sign in mode for sign in "wax+") if mode else bool(flags & _WRITING)
    return not writes or first == os.devnull or isinstance(first, int)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_shown, value))[:200]
    return value.decode("utf-8", "replace")[:200] if isinstance(value, bytes) else str(value)[:200]
