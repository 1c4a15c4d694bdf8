"""Pegboard: a small agent kernel with hooks. This module names what packs and programs may use; nothing else is public.

Names are imported when they are first used, so that `pegboard --version` and `--help` stay fast.
"""

__version__ = "0.1.0"

# Type checkers take this for true. `typing` itself would double what `pegboard --version` costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pegboard.agents import Agent as Agent
    from pegboard.agents import Definition as Definition
    from pegboard.agents import Limits as Limits
    from pegboard.cancel import CancelSignal as CancelSignal
    from pegboard.errors import ConfigError as ConfigError
    from pegboard.errors import InvalidArguments as InvalidArguments
    from pegboard.errors import ModelError as ModelError
    from pegboard.errors import PegboardError as PegboardError
    from pegboard.errors import ToolError as ToolError
    from pegboard.errors import UsageError as UsageError
    from pegboard.events import Event as Event
    from pegboard.functions import tool as tool
    from pegboard.guarding import GuardedCall as GuardedCall
    from pegboard.hookspecs import hookimpl as hookimpl
    from pegboard.host import Host as Host
    from pegboard.loop import Step as Step
    from pegboard.messages import AssistantMessage as AssistantMessage
    from pegboard.messages import Message as Message
    from pegboard.messages import ToolCall as ToolCall
    from pegboard.messages import ToolResult as ToolResult
    from pegboard.messages import Usage as Usage
    from pegboard.messages import UserMessage as UserMessage
    from pegboard.models import Finish as Finish
    from pegboard.models import Model as Model
    from pegboard.models import ModelEvent as ModelEvent
    from pegboard.models import ModelProvider as ModelProvider
    from pegboard.models import ModelRequest as ModelRequest
    from pegboard.models import TextDelta as TextDelta
    from pegboard.runs import Run as Run
    from pegboard.sessions import Session as Session
    from pegboard.tools import Arguments as Arguments
    from pegboard.tools import Output as Output
    from pegboard.tools import Tool as Tool
    from pegboard.tools import ToolContext as ToolContext
    from pegboard.tools import Touch as Touch
    from pegboard.verdicts import Ask as Ask
    from pegboard.verdicts import Deny as Deny
    from pegboard.verdicts import Enter as Enter
    from pegboard.verdicts import Reject as Reject

_HOMES = {
    "agents": ("Agent", "Definition", "Limits"),
    "cancel": ("CancelSignal",),
    "errors": ("ConfigError", "InvalidArguments", "ModelError", "PegboardError", "ToolError", "UsageError"),
    "events": ("Event",),
    "functions": ("tool",),
    "guarding": ("GuardedCall",),
    "hookspecs": ("hookimpl",),
    "host": ("Host",),
    "loop": ("Step",),
    "messages": ("AssistantMessage", "Message", "ToolCall", "ToolResult", "Usage", "UserMessage"),
    "models": ("Finish", "Model", "ModelEvent", "ModelProvider", "ModelRequest", "TextDelta"),
    "runs": ("Run",),
    "sessions": ("Session",),
    "tools": ("Arguments", "Output", "Tool", "ToolContext", "Touch"),
    "verdicts": ("Ask", "Deny", "Enter", "Reject"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pegboard' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"pegboard.{_HOME_OF[name]}"), name)
    return found
