"""The pack: the routes that it hands over; each imports what it needs when it is opened."""

from collections.abc import Iterable

from pegboard import Model, ModelProvider, hooks, implements


@implements(hooks.register_models)
def register_models() -> Iterable[ModelProvider]:
    """Hand over the routes."""
    return [
        ModelProvider("offline", "rules and full-text search, no language model", _open_offline),
        ModelProvider("scripted", "scripted:FILE answers from a TOML or JSON file of turns", _open_scripted),
    ]


def _open_offline(argument: str) -> Model:
    from pegboard_models.offline import open_offline

    return open_offline(argument)


def _open_scripted(argument: str) -> Model:
    from pegboard_models.scripted import open_script

    return open_script(argument)
