"""`offline`: a deterministic rule model. It ranks, searches, reads and quotes; it understands nothing, and says so."""

from pegboard import Model, ModelError


def open_offline(argument: str) -> Model:
    """Open the route.

    Raises:
        ModelError: kind `route`: it takes no argument.
    """
    if argument:
        raise ModelError("`offline` takes nothing after it", "route")
    from pegboard_models.offline.model import OfflineModel

    return OfflineModel()
