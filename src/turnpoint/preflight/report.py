"""What a check found, and the report on all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "warn", "fail", "skip"]


class Fault(Exception):
    """Training would go wrong; the message says what was found and what to change."""


class Doubt(Exception):
    """Training can go on, but something is probably not as wanted; the message says what and what to change."""


class NotApplicable(Exception):
    """The check says nothing about this set-up; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and what it found."""

    group: str
    """What it is about: settings, environment, prompts, tokens, log-probs, teacher, signals, update, cost."""
    name: str
    verdict: Verdict
    detail: str
    """What was tried and measured; or what is wrong and what to change."""
    seconds: float = 0.0
    """CPU time it took."""


@dataclass(slots=True)
class PreflightReport:
    """All findings about a set-up, and what a training step of it will cost."""

    findings: list[Finding] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    """Bytes by what holds them; empty where the model's size is not known."""
    cost: dict[str, dict[str, float]] = field(default_factory=dict)
    """Numbers of one training step, extrapolated from a tiny one; empty if that did not run."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed; doubts do not count."""
        return not self.failures

    @property
    def failures(self) -> list[Finding]:
        """Findings that must be mended before training."""
        return [finding for finding in self.findings if finding.verdict == "fail"]

    @property
    def warnings(self) -> list[Finding]:
        """Findings that deserve a look."""
        return [finding for finding in self.findings if finding.verdict == "warn"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: ``{"ok", "checks": [one object per finding], "memory", "cost"}``."""
        checks = [asdict(finding) for finding in self.findings]
        return {"ok": self.ok, "checks": checks, "memory": self.memory, "cost": self.cost}
