"""The pack contract as tests: an author subclasses `PackContract` in one line and runs pytest."""

# ruff: noqa: S101 - a contract is made of assertions

from typing import ClassVar

from pegboard import UsageError
from pegboard.testing.contract.checking import check_pack
from pegboard.testing.contract.report import Report


class PackContract:
    """Tests of a pack. Subclass it under a name that begins with `Test`, and say which pack.

    `pack` is the name of an installed pack, the path of a project's folder, or a class or module that another process
    can import; of the last two only the first declares entry points that can be compared. All of it is checked once, in
    a process of its own.

    Example:
        >>> class TestContract(PackContract):
        ...     pack = "tickets"
    """

    pack: ClassVar[object] = None
    report: ClassVar[Report]

    @classmethod
    def setup_class(cls) -> None:
        """Check the pack, once for all tests."""
        if cls.pack is None:
            raise UsageError(f'{cls.__name__} does not say which pack it is about; write `pack = "name"` in it')
        cls.report = check_pack(cls.pack)

    def test_switched_off_it_is_not_imported(self) -> None:
        """The host goes without it, whatever else is installed."""
        self._check("disabled")

    def test_it_uses_only_public_names_of_pegboard(self) -> None:
        """Read from the source."""
        self._check("public-names")

    def test_importing_it_has_no_effects(self) -> None:
        """No threads, files, variables, connections or processes."""
        self._check("import")

    def test_its_settings_have_a_schema_and_defaults_that_fit(self) -> None:
        """So that it works without a line of configuration."""
        self._check("settings")

    def test_its_hooks_exist_and_fit_and_are_marked(self) -> None:
        """Names and signatures; a method that is only named like a hook would never be called."""
        self._check("hooks")

    def test_its_tools_say_what_they_take_do_and_touch(self) -> None:
        """Schemas, descriptions, effects, touches."""
        self._check("tools")

    def test_its_entry_points_name_what_it_registers(self) -> None:
        """Tools, commands and guards, no more and no less."""
        self._check("entry-points")

    def test_it_works_alone(self) -> None:
        """A whole run of an agent, with no other packs than those it needs."""
        self._check("alone")

    def test_it_works_beside_packs_that_fail(self) -> None:
        """One that can't be loaded and one whose every observer raises."""
        self._check("neighbour")

    def test_nothing_of_it_is_left_when_it_goes(self) -> None:
        """Tasks, threads, processes, descriptors, registrations."""
        self._check("residue")

    def _check(self, rule: str) -> None:
        found = self.report.of(rule)
        assert not found, "\n".join(map(str, found))
        assert rule in self.report.checked, "not checked: another rule, which it needs, does not hold"
