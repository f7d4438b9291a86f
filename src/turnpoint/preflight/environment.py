"""Check of the environment's contract, by the proofs of ``turnpoint envs check``."""

from __future__ import annotations

from turnpoint.envs.check import check_env
from turnpoint.preflight.bench import Bench
from turnpoint.preflight.report import Fault, NotApplicable

PROOFS = (
    "tasks", "capabilities", "seeds", "replay", "fork", "junk actions", "admissible actions", "endings",
    "oracle path", "observed path",
)  # fmt: skip
"""Those that are quick; memory, other processes and the rest are for ``turnpoint envs check``."""


async def contract(bench: Bench) -> str:
    """Seeds, replay, forks, junk actions, endings and the oracle on a few tasks."""
    suite = bench.run.suite
    if not len(suite.tasks("train")):
        raise NotApplicable("there is no training task")
    report = check_env(suite, tasks=list(bench.tasks)[:2], quick=True, only=PROOFS)
    if report.failures:
        told = "; ".join(f"{check.name}: {check.detail}" for check in report.failures[:3])
        raise Fault(
            f"environment '{suite.name}' breaks its contract: {told}; mend it until `turnpoint envs check "
            f"{bench.run.config.env.kind}` says ok, or claim less in its capabilities"
        )
    skipped = sum(check.skipped for check in report.checks)
    held = f"{len(report.checks) - skipped} proofs hold on {len(bench.tasks[:2])} tasks"
    return f"{held}{f', {skipped} do not apply' if skipped else ''}"
