"""What a tool's body raises, before it has done anything, when it can't go on without somebody else."""

from collections.abc import Sequence


class NeedsPerson(Exception):
    """Only a person can let the call go on; after the answer the body is called again, from its beginning."""


class NeedsApproval(NeedsPerson):
    """The body wants a person's own yes. Called again, it finds `ctx.approved` true; asking twice is an error."""

    def __init__(self, reason: str) -> None:
        _check_texts("NeedsApproval", reason)
        self.reason = reason
        super().__init__(reason)


class NeedsAnswer(NeedsPerson):
    """The body wants a person's answer to a question. Called again, it finds it in `ctx.answer`."""

    def __init__(self, question: str, options: Sequence[str] = ()) -> None:
        self.question = question
        self.options = tuple(options)
        _check_texts("NeedsAnswer", question, *self.options)
        super().__init__(question)


class WaitsForSessions(Exception):
    """The call goes on in other sessions that wait for a person: `Tool.resume` takes it up when they have answers.

    Unlike the others it may be raised after effects: the body is not called again.
    """

    def __init__(self, job: str, sessions: Sequence[str]) -> None:
        self.job = job
        self.sessions = tuple(sessions)
        _check_texts("WaitsForSessions", job, *self.sessions)
        super().__init__(job)


def _check_texts(name: str, *texts: object) -> None:
    """Refuse what could not be recorded.

    Raises:
        TypeError: one is no text.
    """
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} takes texts, not {type(text).__name__}")
