"""For those who write packs: a pytest plugin, models that follow a script, contracts, and a small durable store.

The fixtures `host`, `agent`, `scripted_model` and `workspace_dir` come with `pip install pegboard[testing]`.
Names are imported when they are first used: a plugin must not load what a test does not need.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pegboard.testing.contract.cases import PackContract as PackContract
    from pegboard.testing.contract.checking import check_pack as check_pack
    from pegboard.testing.contract.report import Finding as Finding
    from pegboard.testing.contract.report import Report as Report
    from pegboard.testing.models import ScriptedModel as ScriptedModel
    from pegboard.testing.models import call as call
    from pegboard.testing.packs import PackFolder as PackFolder
    from pegboard.testing.records import recorded as recorded
    from pegboard.testing.stores import StoreContract as StoreContract

JSONL_PACK: Final = Path(__file__).parent / "jsonl_pack"
"""A project to pip-install: the reference store as a pack."""

_HOME_OF: Final = {
    "Finding": "contract.report",
    "PackContract": "contract.cases",
    "PackFolder": "packs",
    "Report": "contract.report",
    "ScriptedModel": "models",
    "StoreContract": "stores",
    "call": "models",
    "check_pack": "contract.checking",
    "recorded": "records",
}

__all__ = [
    "JSONL_PACK",
    "Finding",
    "PackContract",
    "PackFolder",
    "Report",
    "ScriptedModel",
    "StoreContract",
    "call",
    "check_pack",
    "recorded",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pegboard.testing' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"pegboard.testing.{_HOME_OF[name]}"), name)
    return found
