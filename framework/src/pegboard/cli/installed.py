"""The installed packs, looked for once in the process of a command."""

import os
from functools import cache

from pegboard.packs.discovery import Distribution, discover


@cache
def installed() -> tuple[Distribution, ...]:
    """Return what is installed. To be called before anything imports pydantic.

    pydantic would look for plugins of its own in every distribution: that costs more than our own search, and one with
    unreadable entry points would break each schema. It is told not to, unless the environment says otherwise.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    return discover()
