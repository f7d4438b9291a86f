"""What a teacher counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from turnpoint.teachers.protocol import TeacherError, TeacherFailure


@dataclass(slots=True)
class TeacherCounters:
    """Totals since the teacher was built."""

    reports: int = 0
    """Calls of ``analyse``."""
    recoveries: int = 0
    """Calls of ``recover``."""
    requests: int = 0
    """Model calls that were answered."""
    retries: int = 0
    errors: int = 0
    """Answers that were made wrong on purpose."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failures: Counter[TeacherFailure] = field(default_factory=Counter)
    """Calls that ended in a ``TeacherError``, by reason."""

    def fail(self, reason: TeacherFailure, message: str) -> TeacherError:
        """Count a failure and give the error to raise."""
        self.failures[reason] += 1
        return TeacherError(reason, message)

    def as_metrics(self, *, calls_a_model: bool = True) -> dict[str, float]:
        """Flat numbers; every failure reason is present, so that curves have no gaps."""
        totals = {"reports": self.reports, "recoveries": self.recoveries}
        if calls_a_model:
            totals |= {
                "requests": self.requests,
                "retries": self.retries,
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": self.completion_tokens,
            }
        failures = {f"failures/{reason.value}": self.failures[reason] for reason in TeacherFailure}
        return {name: float(value) for name, value in (totals | failures).items()}
