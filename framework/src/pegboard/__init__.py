"""Pegboard: a small agent kernel with hooks. This module names what packs and programs may use.

Public besides: `pegboard.events` (what happens in a session), `pegboard.folds` (what its record says),
`pegboard.schemas` (explicit tool definitions) and `pegboard.testing`.

Names are imported when they are first used, so that `pegboard --version` and `--help` stay fast.
"""

__version__ = "0.1.0"

# Type checkers take this for true. `typing` itself would double what `pegboard --version` costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pegboard.agents.agent import Agent as Agent
    from pegboard.agents.definition import Definition as Definition
    from pegboard.agents.definition import Limits as Limits
    from pegboard.agents.run import Run as Run
    from pegboard.agents.run import Step as Step
    from pegboard.base.cancel import CancelSignal as CancelSignal
    from pegboard.base.errors import Conflict as Conflict
    from pegboard.base.errors import InvalidArguments as InvalidArguments
    from pegboard.base.errors import ModelError as ModelError
    from pegboard.base.errors import PackFailure as PackFailure
    from pegboard.base.errors import PegboardError as PegboardError
    from pegboard.base.errors import ToolError as ToolError
    from pegboard.base.errors import UsageError as UsageError
    from pegboard.base.text import one_line as one_line
    from pegboard.base.text import printable as printable
    from pegboard.calls.pack_views import GuardedCall as GuardedCall
    from pegboard.calls.pack_views import ToolRun as ToolRun
    from pegboard.config.field_rules import narrowing as narrowing
    from pegboard.config.field_rules import user_only as user_only
    from pegboard.config.places import Places as Places
    from pegboard.hookspecs import hooks as hooks
    from pegboard.host.host import Host as Host
    from pegboard.process.pipes import Collected as Collected
    from pegboard.process.pipes import collect as collect
    from pegboard.process.pipes import find_program as find_program
    from pegboard.process.processes import Process as Process
    from pegboard.process.spec import ProcessRefused as ProcessRefused
    from pegboard.process.spec import ProcessSpec as ProcessSpec
    from pegboard.record.feed import Feed as Feed
    from pegboard.record.session import Session as Session
    from pegboard.record.stores import SessionHead as SessionHead
    from pegboard.record.stores import SessionStore as SessionStore
    from pegboard.tools.function_tools import tool as tool
    from pegboard.tools.snapshot import ToolView as ToolView
    from pegboard.trust.state import Consents as Consents
    from pegboard.values.entries import Entry as Entry
    from pegboard.values.events import Event as Event
    from pegboard.values.events import RunEnd as RunEnd
    from pegboard.values.hook_markers import hookimpl as hookimpl
    from pegboard.values.hook_markers import hookspec as hookspec
    from pegboard.values.hook_markers import implements as implements
    from pegboard.values.interactions import Answer as Answer
    from pegboard.values.interactions import Interaction as Interaction
    from pegboard.values.interrupts import NeedsAnswer as NeedsAnswer
    from pegboard.values.interrupts import NeedsApproval as NeedsApproval
    from pegboard.values.interrupts import WaitsForSessions as WaitsForSessions
    from pegboard.values.messages import AssistantMessage as AssistantMessage
    from pegboard.values.messages import Message as Message
    from pegboard.values.messages import ToolCall as ToolCall
    from pegboard.values.messages import ToolResult as ToolResult
    from pegboard.values.messages import Usage as Usage
    from pegboard.values.messages import UserMessage as UserMessage
    from pegboard.values.models import Finish as Finish
    from pegboard.values.models import Model as Model
    from pegboard.values.models import ModelEvent as ModelEvent
    from pegboard.values.models import ModelProvider as ModelProvider
    from pegboard.values.models import ModelReply as ModelReply
    from pegboard.values.models import ModelRequest as ModelRequest
    from pegboard.values.models import PerTools as PerTools
    from pegboard.values.models import ProceedModel as ProceedModel
    from pegboard.values.models import TextDelta as TextDelta
    from pegboard.values.outcomes import Accept as Accept
    from pegboard.values.outcomes import Block as Block
    from pegboard.values.outcomes import Outcome as Outcome
    from pegboard.values.outcomes import ProceedTool as ProceedTool
    from pegboard.values.presentation import Presentation as Presentation
    from pegboard.values.prompts import Prompt as Prompt
    from pegboard.values.prompts import Section as Section
    from pegboard.values.tool import Arguments as Arguments
    from pegboard.values.tool import Output as Output
    from pegboard.values.tool import Tool as Tool
    from pegboard.values.tool import ToolContext as ToolContext
    from pegboard.values.tool import Touch as Touch
    from pegboard.values.tool import foreign_name as foreign_name
    from pegboard.values.verdicts import Ask as Ask
    from pegboard.values.verdicts import Deny as Deny
    from pegboard.values.verdicts import EndRun as EndRun
    from pegboard.values.verdicts import Enter as Enter
    from pegboard.values.verdicts import Reject as Reject

# The same once more for the running program: module -> the names that live there.
_HOMES = {
    "hookspecs": "hooks",
    "values.hook_markers": "hookimpl hookspec implements",
    "tools.function_tools": "tool",
    "values.tool": "Arguments Output Tool ToolContext Touch foreign_name",
    "values.interrupts": "NeedsAnswer NeedsApproval WaitsForSessions",
    "calls.pack_views": "GuardedCall ToolRun",
    "values.verdicts": "Ask Deny EndRun Enter Reject",
    "values.outcomes": "Accept Block Outcome ProceedTool",
    "values.models": "Finish Model ModelEvent ModelProvider ModelReply ModelRequest PerTools ProceedModel TextDelta",
    "values.messages": "AssistantMessage Message ToolCall ToolResult Usage UserMessage",
    "host.host": "Host",
    "agents.agent": "Agent",
    "agents.definition": "Definition Limits",
    "agents.run": "Run Step",
    "values.presentation": "Presentation",
    "values.prompts": "Prompt Section",
    "tools.snapshot": "ToolView",
    "values.interactions": "Answer Interaction",
    "record.feed": "Feed",
    "record.session": "Session",
    "record.stores": "SessionHead SessionStore",
    "values.entries": "Entry",
    "values.events": "Event RunEnd",
    "process.spec": "ProcessRefused ProcessSpec",
    "process.processes": "Process",
    "process.pipes": "Collected collect find_program",
    "config.field_rules": "narrowing user_only",
    "config.places": "Places",
    "trust.state": "Consents",
    "base.cancel": "CancelSignal",
    "base.text": "one_line printable",
    "base.errors": "Conflict InvalidArguments ModelError PackFailure PegboardError ToolError UsageError",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = list(_HOME_OF)  # names, as texts


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pegboard' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"pegboard.{_HOME_OF[name]}"), name)
    return found
