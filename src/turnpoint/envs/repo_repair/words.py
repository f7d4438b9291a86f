"""Every word of listed play."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnpoint.envs.repo_repair import text
from turnpoint.envs.repo_repair.state import Job


def vocabulary(jobs: Iterable[Job]) -> Iterator[str]:
    """Texts that together hold every word that is shown or accepted."""
    longest = 0
    yield f"{text.ENDED} {text.NOT_LISTED} {text.SUBMITTED} {' '.join(text.OUTCOMES.values())}"
    yield "Files: Done. is gone. empty. FAILED failed, passed. broken off. lines of : No test was run."
    yield "open test edit submit - ::"
    for job in jobs:
        yield job.record.problem
        yield " ".join((*job.record.fail_to_pass, *job.record.pass_to_pass))
        for path in job.tree.paths:
            longest = max(longest, len(job.tree.lines(path)))
            yield f"{path}\n{job.tree.text(path)}\n{job.gold.text(path)}"
            yield " ".join(job.proposals.actions(path))
    yield " ".join(map(str, range(longest + 60)))
