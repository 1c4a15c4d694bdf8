"""Pegboard: a small agent kernel with hooks. This module names what packs and programs may use.

Public besides: `pegboard.folds` (what a record says) and `pegboard.testing`.

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
    from pegboard.definitions import define_tool as define_tool
    from pegboard.definitions import output_of as output_of
    from pegboard.dispatch import Fault as Fault
    from pegboard.dispatch import HookFailure as HookFailure
    from pegboard.entries import Entry as Entry
    from pegboard.errors import ConfigError as ConfigError
    from pegboard.errors import Conflict as Conflict
    from pegboard.errors import Disposed as Disposed
    from pegboard.errors import InvalidArguments as InvalidArguments
    from pegboard.errors import ModelError as ModelError
    from pegboard.errors import PackFailure as PackFailure
    from pegboard.errors import PegboardError as PegboardError
    from pegboard.errors import ToolError as ToolError
    from pegboard.errors import UnsupportedSchema as UnsupportedSchema
    from pegboard.errors import UsageError as UsageError
    from pegboard.events import Answered as Answered
    from pegboard.events import Asked as Asked
    from pegboard.events import Called as Called
    from pegboard.events import Dropped as Dropped
    from pegboard.events import Event as Event
    from pegboard.events import Note as Note
    from pegboard.events import Progress as Progress
    from pegboard.events import Rebound as Rebound
    from pegboard.events import Replied as Replied
    from pegboard.events import Returned as Returned
    from pegboard.events import RunEnd as RunEnd
    from pegboard.events import RunStart as RunStart
    from pegboard.events import Said as Said
    from pegboard.events import SessionStart as SessionStart
    from pegboard.events import SnapshotTaken as SnapshotTaken
    from pegboard.events import StepEnd as StepEnd
    from pegboard.events import StepStart as StepStart
    from pegboard.events import Text as Text
    from pegboard.events import Waits as Waits
    from pegboard.explaining import Explanation as Explanation
    from pegboard.explaining import Reason as Reason
    from pegboard.feed import Feed as Feed
    from pegboard.feed import FeedItem as FeedItem
    from pegboard.functions import tool as tool
    from pegboard.guarding import GuardedCall as GuardedCall
    from pegboard.hookspecs import hookimpl as hookimpl
    from pegboard.hookspecs import hooks as hooks
    from pegboard.hookspecs import hookspec as hookspec
    from pegboard.hookspecs import implements as implements
    from pegboard.host import Host as Host
    from pegboard.interactions import Answer as Answer
    from pegboard.interactions import Interaction as Interaction
    from pegboard.json_values import violations as violations
    from pegboard.marks import narrowing as narrowing
    from pegboard.marks import user_only as user_only
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
    from pegboard.models import ModelReply as ModelReply
    from pegboard.models import ModelRequest as ModelRequest
    from pegboard.models import PerTools as PerTools
    from pegboard.models import ProceedModel as ProceedModel
    from pegboard.models import TextDelta as TextDelta
    from pegboard.needs import NeedsAnswer as NeedsAnswer
    from pegboard.needs import NeedsApproval as NeedsApproval
    from pegboard.needs import Waiting as Waiting
    from pegboard.outcomes import Accept as Accept
    from pegboard.outcomes import Block as Block
    from pegboard.outcomes import Outcome as Outcome
    from pegboard.outcomes import ProceedTool as ProceedTool
    from pegboard.outcomes import ToolRun as ToolRun
    from pegboard.places import Places as Places
    from pegboard.processes import Process as Process
    from pegboard.processes import ProcessRefused as ProcessRefused
    from pegboard.processes import ProcessSpec as ProcessSpec
    from pegboard.prompts import Prompt as Prompt
    from pegboard.prompts import Section as Section
    from pegboard.property_map import check_schema as check_schema
    from pegboard.property_map import compile_parameters as compile_parameters
    from pegboard.property_map import compile_value as compile_value
    from pegboard.runs import Run as Run
    from pegboard.runs import Step as Step
    from pegboard.sessions import Session as Session
    from pegboard.snapshot import Offered as Offered
    from pegboard.snapshot import Snapshot as Snapshot
    from pegboard.snapshot import ToolView as ToolView
    from pegboard.state import Consents as Consents
    from pegboard.stores import MemoryStore as MemoryStore
    from pegboard.stores import SessionHead as SessionHead
    from pegboard.stores import SessionStore as SessionStore
    from pegboard.streams import Collected as Collected
    from pegboard.streams import Completed as Completed
    from pegboard.streams import collect as collect
    from pegboard.streams import find_program as find_program
    from pegboard.text import one_line as one_line
    from pegboard.text import printable as printable
    from pegboard.tools import Arguments as Arguments
    from pegboard.tools import Output as Output
    from pegboard.tools import Tool as Tool
    from pegboard.tools import ToolContext as ToolContext
    from pegboard.tools import Touch as Touch
    from pegboard.tools import foreign_name as foreign_name
    from pegboard.verdicts import Ask as Ask
    from pegboard.verdicts import Deny as Deny
    from pegboard.verdicts import EndRun as EndRun
    from pegboard.verdicts import Enter as Enter
    from pegboard.verdicts import Reject as Reject

_HOMES = {
    "cancel": ("CancelSignal",),
    "agents": (
        "Agent",
        "Definition",
        "Limits",
    ),
    "definitions": ("define_tool", "output_of"),
    "dispatch": (
        "Fault",
        "HookFailure",
    ),
    "entries": ("Entry",),
    "errors": (
        "Conflict",
        "ConfigError",
        "Disposed",
        "InvalidArguments",
        "ModelError",
        "PackFailure",
        "PegboardError",
        "ToolError",
        "UnsupportedSchema",
        "UsageError",
    ),
    "events": (
        "Answered",
        "Asked",
        "Called",
        "Dropped",
        "Event",
        "Note",
        "Progress",
        "Rebound",
        "Replied",
        "Returned",
        "RunEnd",
        "RunStart",
        "Said",
        "SessionStart",
        "SnapshotTaken",
        "StepEnd",
        "StepStart",
        "Text",
        "Waits",
    ),
    "explaining": ("Explanation", "Reason"),
    "feed": (
        "Feed",
        "FeedItem",
    ),
    "functions": ("tool",),
    "guarding": ("GuardedCall",),
    "hookspecs": (
        "hookimpl",
        "hooks",
        "hookspec",
        "implements",
    ),
    "host": ("Host",),
    "interactions": (
        "Answer",
        "Interaction",
    ),
    "json_values": ("violations",),
    "marks": (
        "narrowing",
        "user_only",
    ),
    "messages": (
        "AssistantMessage",
        "Message",
        "ToolCall",
        "ToolResult",
        "Usage",
        "UserMessage",
    ),
    "models": (
        "Finish",
        "Model",
        "ModelEvent",
        "ModelProvider",
        "ModelReply",
        "ModelRequest",
        "PerTools",
        "TextDelta",
        "ProceedModel",
    ),
    "needs": ("NeedsAnswer", "NeedsApproval", "Waiting"),
    "outcomes": ("Accept", "Block", "Outcome", "ToolRun", "ProceedTool"),
    "processes": ("Process", "ProcessRefused", "ProcessSpec"),
    "places": ("Places",),
    "prompts": (
        "Prompt",
        "Section",
    ),
    "property_map": ("check_schema", "compile_parameters", "compile_value"),
    "runs": (
        "Run",
        "Step",
    ),
    "sessions": ("Session",),
    "snapshot": (
        "Offered",
        "Snapshot",
        "ToolView",
    ),
    "state": ("Consents",),
    "stores": (
        "MemoryStore",
        "SessionHead",
        "SessionStore",
    ),
    "streams": ("Collected", "Completed", "collect", "find_program"),
    "text": ("one_line", "printable"),
    "tools": (
        "Arguments",
        "Output",
        "Tool",
        "ToolContext",
        "Touch",
        "foreign_name",
    ),
    "verdicts": ("Ask", "Deny", "Enter", "Reject", "EndRun"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pegboard' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"pegboard.{_HOME_OF[name]}"), name)
    return found
