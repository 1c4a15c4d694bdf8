"""The pack keeps the contract that every pack keeps."""

from pegboard.testing import PackContract


class TestContract(PackContract):
    """All of it, as installed."""

    pack = "workspace"
