"""What the contract found out about a pack: the rules, the findings, and what was measured."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

RULES: Final[Mapping[str, str]] = {
    "disabled": "switched off it is not imported, and the host goes without it",
    "public-names": "it uses only those names of Pegboard that are public",
    "import": "importing it does nothing but define things",
    "settings": "its settings have a schema, and defaults that fit it",
    "hooks": "its hooks exist, their signatures fit, and none is left unmarked",
    "tools": "its tools say what they take, what they do and what they touch",
    "alone": "it works with no other packs than those it needs",
    "entry-points": "its entry points name what it registers, no more and no less",
    "neighbour": "it works beside packs that fail",
    "residue": "when it goes nothing of it is left",
}
"""In the order in which they are checked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a pack breaks a rule: what is wrong, where, and how to mend it."""

    rule: str
    what: str
    where: str
    mend: str

    def __str__(self) -> str:
        return f"{self.what} ({self.where}): {self.mend}"


@dataclass(frozen=True, slots=True)
class Report:
    """A pack as the contract sees it. `checked` are the rules that were tried: some can only be after others held.

    `import_ms` is the CPU time of importing the pack's object beside the kernel, `run_ms` the wall time of a run with
    two calls, in which its hooks and guards were asked, both in milliseconds; None if it did not come to that.
    """

    pack: str
    distribution: str
    version: str
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    import_ms: float | None = None
    run_ms: float | None = None

    @property
    def ok(self) -> bool:
        """Whether every rule was checked and holds."""
        return not self.findings and set(self.checked) == set(RULES)

    def of(self, rule: str) -> list[Finding]:
        """Return what was found about one rule."""
        return [finding for finding in self.findings if finding.rule == rule]

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `pegboard check --json`."""
        return {
            "v": 1,
            "pack": self.pack,
            "distribution": self.distribution,
            "version": self.version,
            "ok": self.ok,
            "import_ms": self.import_ms,
            "run_ms": self.run_ms,
            "checked": list(self.checked),
            "findings": [asdict(finding) for finding in self.findings],
        }

    @classmethod
    def from_lines(cls, name: str, lines: Iterable[Mapping[str, Any]]) -> "Report":
        """Make it of what the checking process wrote, one fact a line."""
        facts: dict[str, Any] = {"distribution": "", "version": ""}
        checked: list[str] = []
        findings: list[Finding] = []
        for line in lines:
            match line:
                case {"begin": rule}:
                    checked.append(rule)
                case {"finding": finding}:
                    findings.append(Finding(**finding))
                case {"end": _}:
                    break
                case _:
                    facts.update(line)
        return cls(pack=name, checked=tuple(dict.fromkeys(checked)), findings=tuple(findings), **facts)
