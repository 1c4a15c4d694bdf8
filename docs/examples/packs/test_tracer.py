"""A tracer: one span for each model request and tool call, written with its parent and its times."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

import pegboard as pb
import pytest
from pegboard import Agent, Host, ModelReply, ModelRequest, ProceedModel, ProceedTool, ToolRun, hooks, implements
from pegboard.testing import ScriptedModel, call

current: ContextVar[str] = ContextVar("current", default="")


class Tracer:
    """Appends a line of JSON for each span; what a tool starts, such as a child's requests, lies inside its span."""

    @implements(hooks.host_started)
    def open(self, host: Host) -> None:
        self.file = host.state_dir() / "spans.jsonl"

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        span = {"name": name, "parent": current.get(), "from": perf_counter()}
        token = current.set(name)
        try:
            yield
        finally:
            current.reset(token)
            with self.file.open("a") as file:
                file.write(json.dumps({**span, "to": perf_counter()}) + "\n")

    @implements(hooks.wrap_model_call)
    async def ask(self, request: ModelRequest, proceed: ProceedModel) -> ModelReply:
        with self.span(f"model {request.session}"):
            return await proceed(request)

    @implements(hooks.wrap_tool_call)
    async def run(self, call: ToolRun, proceed: ProceedTool) -> pb.Outcome:
        with self.span(f"{call.name} {call.agent.id}"):
            return await proceed()


@pytest.mark.pegboard(packs={"tracer": Tracer})
async def test_a_childs_request_lies_inside_the_call(host: Host, agent: Agent, scripted_model: ScriptedModel) -> None:
    @pb.tool(effect="read")
    async def ask_child() -> str:
        """Ask a child."""
        child = await host.create_agent("main", parent=agent, model=ScriptedModel("42"))
        return (await child.followup("What is it?").wait()).text

    agent.tools.register(ask_child)
    scripted_model.will(call("ask_child"), "It is 42.")
    await agent.followup("Ask.").wait()
    asks, inner, outer, answers = map(json.loads, (host.state_dir("tracer") / "spans.jsonl").read_text().splitlines())
    assert (asks["parent"], inner["parent"], outer["parent"], answers["parent"]) == ("", outer["name"], "", "")
    assert outer["from"] < inner["from"] < inner["to"] < outer["to"] < answers["from"]
