"""What a tool is: a name, a schema, a body, and everything policy needs to know before the body runs."""

import copy
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

from pegboard.base.cancel import CancelSignal
from pegboard.values.presentation import Presentation

if TYPE_CHECKING:
    from pegboard.process.pipes import Completed
    from pegboard.process.processes import Process
    from pegboard.process.spec import ProcessSpec

Effect = Literal["read", "write"]
Concurrency = Literal["parallel", "exclusive"]
Exposure = Literal["user-configurable", "system-model", "diagnostic", "runtime-only"]

# What becomes of a question that no front end answers: a denial, it waits in this process, or the run ends paused.
OnAsk = Literal["deny", "wait", "pause"]

TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
FOREIGN_NAME: Final = re.compile(r"mcp__[A-Za-z0-9_-]{1,59}")
FOREIGN_PREFIX: Final = "mcp__"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class Touch:
    """One path, command or URL that a call will use; guards decide on it.

    `digest` is, of a path with `content`, what stood there when the call was checked.
    """

    kind: Literal["path", "command", "url"]
    value: str
    content: bool = False
    digest: str = ""

    @classmethod
    def path(cls, value: str, *, content: bool = False) -> "Touch":
        """A file or folder, relative to the session's directory or absolute.

        `content` binds the call, and a person's yes to it, to the bytes that stand there now.
        """
        return cls("path", value, content)

    @classmethod
    def command(cls, value: str) -> "Touch":
        """A command line as a shell would get it."""
        return cls("command", value)

    @classmethod
    def url(cls, value: str) -> "Touch":
        """A URL that will be fetched or posted to."""
        return cls("url", value)


def _run_alone(work: Coroutine[Any, Any, Any]) -> Any:
    import asyncio  # packs are listed without it

    return asyncio.run(work)


class RunProcess(Protocol):
    """How a body runs a process to its end."""

    def __call__(self, spec: "ProcessSpec", *, cap: int = 30_000) -> "Coroutine[Any, Any, Completed]":
        """Return the exit code and the output; of more than `cap` bytes the middle is left out.

        A cancelled call ends the process with all it started.

        Raises:
            ProcessRefused: a pack refuses it.
            PegboardError: it can't be started.
        """


async def _nobody_runs(spec: "ProcessSpec", *, cap: int = 0) -> "Completed":
    raise RuntimeError("this context has no host, so it starts no process")


async def _nobody_notes(_name: str, _data: Mapping[str, Any]) -> None:
    raise RuntimeError("this context has no host, so nothing is recorded")


async def _nobody_keeps(_name: str) -> str:
    raise RuntimeError("this context has no host, so no output is kept")


async def _nobody_guards(_paths: Iterable[str]) -> Mapping[str, str]:
    return {}


def _nobody_listens(_text: str = "") -> None:
    raise RuntimeError("this context has no run to tell")


async def _nobody_spawns(_spec: "ProcessSpec") -> "Process":
    raise RuntimeError("this context has no host, so it starts no process")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a body may ask of its surroundings, by taking a parameter named `ctx`.

    `spawn` starts a process through the host, under `prepare_process`; `run` starts one and reads it to its end.
    `progress` shows a line while the body runs; `note` records a fact of the pack's with the session. A sync body, in
    its worker thread, waits for what is async with `wait(ctx.run(...))`. `add_context` adds a text to what the model
    reads beside the result, `conclude` makes a success end the run, with the result as its text. `output` returns the
    whole text of a result of this session that was cut, by the name that the cut gives it (LookupError otherwise);
    a text of more than `result_chars` characters is cut.

    `touches` are those of the call, resolved, as the guards saw them. A tool that finds its paths while it runs asks
    the guards for them with `await ctx.may_touch(paths)`: it returns those that it must leave alone, each with who
    says so and why; ten thousand at once are fine.

    `by_program`: no model asked for the call, but a program or a person's own command.
    `approved` and `answer` are what a person said to the body's `NeedsApproval` or `NeedsAnswer`; `on_ask` is what
    becomes of questions in this run, for runs that the body begins.
    """

    directory: Path
    session: str
    cancel: CancelSignal
    spawn: "Callable[[ProcessSpec], Coroutine[Any, Any, Process]]" = _nobody_spawns
    progress: Callable[[str], object] = str
    wait: Callable[[Coroutine[Any, Any, Any]], Any] = _run_alone
    note: "Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, None]]" = _nobody_notes
    run: "RunProcess" = _nobody_runs
    touches: tuple[Touch, ...] = ()
    may_touch: "Callable[[Iterable[str]], Coroutine[Any, Any, Mapping[str, str]]]" = _nobody_guards
    add_context: Callable[[str], None] = _nobody_listens
    conclude: Callable[[], None] = _nobody_listens
    output: Callable[[str], Coroutine[Any, Any, str]] = _nobody_keeps
    result_chars: int = 40_000
    approved: bool = False
    answer: str | None = None
    by_program: bool = False
    on_ask: OnAsk = "deny"


class Arguments(Protocol):
    """A tool's parameters: the JSON Schema a model is shown, and the check of what it sends."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the parameters, an object."""

    def parse(self, text: str, read: dict[str, Any] | None = None) -> dict[str, Any]:
        """Turn JSON text into keyword arguments.

        `read` is its object, if it was read already. It may be kept, and what the tool takes for something else, such
        as a null for a parameter that is left out, is changed in it: that is what guards are shown.

        Raises:
            InvalidArguments: with every violation, in order.
        """


@dataclass(frozen=True, slots=True)
class Output:
    """A tool's result contract (T8): JSON Schema, the check, and how the value reads.

    `check` returns the value as plain JSON data or raises ValueError; `render` gives what the model reads;
    `summarize` gives the few words a person sees beside the call; `finalize` has the last word about what the model
    reads, after the packs (T41).
    """

    schema: Callable[[], Mapping[str, Any]]
    check: Callable[[Any], Any]
    render: Callable[[Any], str]
    summarize: Callable[[Any], str]
    finalize: Callable[[str], str] | None = None


Body = Callable[..., Any] | Callable[..., Awaitable[Any]]


def foreign_name(server: str, name: str) -> str:
    """Return `mcp__<server>__<name>` in at most 64 characters of `A-Za-z0-9_-`; what is cut ends with a hash."""
    full = f"{FOREIGN_PREFIX}{_NOT_IN_NAMES.sub('_', server)}__{_NOT_IN_NAMES.sub('_', name)}"
    if len(full) <= _NAME_LENGTH:
        return full
    digest = hashlib.sha256(f"{server}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{full[: _NAME_LENGTH - 12]}__{digest}"


def no_touches(**_arguments: Any) -> Iterable[Touch]:
    """The default of `Tool.touches`: the call uses no path, command or URL."""
    return ()


Present = Callable[..., Presentation | None]


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool as a pack hands it over with `register_tools`.

    `touches` gets the arguments by keyword, is pure and cheap. `present` gets the session's directory and the arguments
    by keyword, and says what a person who is asked about the call should see; it may read, and changes nothing.
    `resume(ctx, job)` is called instead of the body to take
    up a call that raised `WaitsForSessions`. `timeout` is in seconds; None means no limit of
    its own. `inline` runs a sync body in the event loop instead of a worker thread. `examples` are tasks that a
    person might give and that this tool answers. `server` is where a foreign tool comes from; its name is
    `foreign_name(server, name)`. `source` says so to people, `generation` is what else an approval is bound to: a hash
    of the server's configuration and of all that it says of the tool.
    """

    name: str
    description: str
    arguments: Arguments
    output: Output
    body: Body
    effect: Effect = "write"
    concurrency: Concurrency = "exclusive"
    exposure: Exposure = "user-configurable"
    timeout: float | None = None
    touches: Callable[..., Iterable[Touch]] = no_touches
    present: Present | None = None
    examples: tuple[str, ...] = ()
    takes_context: bool = False
    is_async: bool = False
    inline: bool = False
    resume: Body | None = None
    server: str = ""
    source: str = ""
    generation: str = ""

    def __post_init__(self) -> None:
        number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (number and 0 < self.timeout < float("inf")):
            raise TypeError(f'tool "{self.name}" timeout must be a positive finite number')
        self._check_name()
        for field, known in (("effect", Effect), ("concurrency", Concurrency), ("exposure", Exposure)):
            if getattr(self, field) not in get_args(known):
                options = ", ".join(get_args(known))
                raise TypeError(f'tool "{self.name}" {field} must be one of {options}, not {getattr(self, field)!r}')

    def _check_name(self) -> None:
        """Keep the names of foreign tools to foreign tools, and these to what a foreign tool may be (rule 4)."""
        name, foreign = self.name, isinstance(self.name, str) and self.name.startswith(FOREIGN_PREFIX)
        if self.server or foreign:
            cut_off = foreign_name(self.server, "")[: _NAME_LENGTH - 12]
            if not (self.server and name.startswith(cut_off) and FOREIGN_NAME.fullmatch(name)):
                told = "are those of servers' tools, as `foreign_name` makes them"
                raise TypeError(f"tool {name!r}: names that begin with {FOREIGN_PREFIX} {told}")
            if (self.effect, self.concurrency, self.exposure) != ("write", "exclusive", "user-configurable"):
                raise TypeError(f'tool "{name}" is foreign: it is write, exclusive and user-configurable')
        elif not TOOL_NAME.fullmatch(name):
            raise TypeError(f"tool {name!r}: a name is a lower-case letter, then letters, digits, _ (at most 64)")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the parameters; made once, on first use."""
        return self.arguments.schema

    @property
    def definition(self) -> dict[str, Any]:
        """What a model is told of it, as a copy: `name`, `description` and `parameters`, nothing else (T14)."""
        parameters = copy.deepcopy(dict(self.parameters))
        return {"name": self.name, "description": self.description, "parameters": parameters}

    @cached_property
    def hash(self) -> str:
        """SHA-256, in hex, of what a model and policy are told: name, description, parameters, effect, generation."""
        told = [self.name, self.description, self.parameters, self.effect, *([self.generation] * bool(self.generation))]
        return hashlib.sha256(json.dumps(told, sort_keys=True, allow_nan=False).encode()).hexdigest()
