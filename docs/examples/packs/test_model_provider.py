"""A model provider: a route that a definition names, here to a model that answers from a list."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pegboard import Finish, Host, ModelError, ModelProvider, ModelRequest, TextDelta, UserMessage, hooks, implements
from pydantic import BaseModel


class Settings(BaseModel):
    """`[packs.faq]`: answers by topic, then by a word of the question."""

    topics: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class Faq:
    """Answers with the text for the first known word of what was said last."""

    label: str
    answers: Mapping[str, str]

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | Finish]:
        last = request.messages[-1]
        asked = last.text if isinstance(last, UserMessage) else ""
        text = next((answer for word, answer in self.answers.items() if word in asked), "Nobody asked that before.")
        yield TextDelta(text)
        yield Finish()


class FaqModels:
    """Brings the routes `faq:TOPIC`."""

    def __init__(self, settings: Settings) -> None:
        self.topics = settings.topics

    @implements(hooks.register_models)
    def routes(self) -> Iterable[ModelProvider]:
        return [ModelProvider("faq", "answers from a list", self.open)]

    def open(self, topic: str) -> Faq:
        if topic not in self.topics:
            raise ModelError(f"there is no topic `{topic}` (there are: {', '.join(self.topics)})", "route")
        return Faq(f"the list on {topic}", self.topics[topic])


CONFIG = '[agents]\ndesk.model = "faq:hours"\nlost.model = "faq:x"\n[packs.faq.topics.hours]\nopen = "At nine."'


@pytest.mark.pegboard(packs={"faq": FaqModels}, config=CONFIG)
async def test_a_definition_names_the_route(host: Host, workspace_dir: Path) -> None:
    desk = await host.create_agent("desk", directory=workspace_dir)
    lost = await host.create_agent("lost", directory=workspace_dir)

    assert (await desk.followup("When are you open?").wait()).text == "At nine."
    assert (await lost.followup("Hello?").wait()).text == "there is no topic `x` (there are: hours)"
