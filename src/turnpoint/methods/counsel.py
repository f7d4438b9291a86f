"""What the naming teacher says, and how far it is trusted: asked once or several times, tried or taken at its word."""

from __future__ import annotations

from dataclasses import dataclass

from turnpoint.methods.consistency import ConsistencySettings, Poll
from turnpoint.methods.naming import ask_report, drop_pivot, note_report
from turnpoint.methods.situations import resolve, situation
from turnpoint.methods.tally import Tally
from turnpoint.methods.verification import Verifier, VerifySettings
from turnpoint.prompts import Report
from turnpoint.records import Episode, Pivot
from turnpoint.rollouts import Rollouts
from turnpoint.teachers.protocol import NamingTeacher, Situation, TeacherError


@dataclass(frozen=True, slots=True)
class Advice:
    """A recovery action."""

    action: str | None
    """As the environment takes it; None if there is none to use."""
    weight: float = 1.0
    """Factor on the distillation weight of its turn."""
    fault: str = ""
    """Why there is no action."""


class Counsel:
    """One teacher in one step; without options it is the teacher itself."""

    def __init__(
        self,
        teacher: NamingTeacher,
        rollouts: Rollouts,
        tally: Tally,
        *,
        consistency: ConsistencySettings | None = None,
        verify: VerifySettings | None = None,
    ) -> None:
        self.teacher = teacher
        self.rollouts = rollouts
        self.tally = tally
        self.poll = None if consistency is None else Poll(consistency, teacher, rollouts, tally)
        self.verifier = None if verify is None else Verifier(verify, rollouts, tally)

    @property
    def tries(self) -> bool:
        """Whether ``action`` needs a copy of the environment: nobody may ask for advice while holding one."""
        return self.verifier is not None and self.verifier.settings.recovery

    async def report(self, episode: Episode, limit: int) -> tuple[Report | None, dict[int, float]]:
        """The report on an episode, on record, and the agreement on each turn where several answers were asked for."""
        if self.poll is None:
            return await ask_report(episode, self.teacher, limit, self.tally, self.rollouts), {}
        report, shares = await self.poll.report(episode, limit)
        note_report(episode, report, self.tally)
        return report, shares

    async def weigh(self, episode: Episode, pivot: Pivot, share: float | None) -> None:
        """Set the trust (``Pivot.score``) of a pivot on record; one whose action fails its trial is dropped."""
        if share is not None:
            pivot.score = share
        if self.verifier is None or pivot.resolved is None:
            return
        try:
            async with self.rollouts.place():
                fault = await self.verifier.fault(situation(episode, pivot.turn), pivot.resolved)
        except TimeoutError:
            fault = "not_restored"
        if fault is None:
            return
        pivot.score = (1.0 if share is None else share) * self.verifier.settings.unverified
        if pivot.score == 0:
            drop_pivot(pivot, f"unverified_{fault}", self.tally)

    async def ask(self, where: Situation) -> str | None:
        """The action the teacher names, asked once; None if it fails, which is counted."""
        try:
            with self.rollouts.sampler.waiting(self.teacher.remote):
                return await self.teacher.recover(where)
        except TeacherError as error:
            self.tally.add(f"teacher_failures/{error.reason}")
            return None

    async def action(self, where: Situation) -> Advice:
        """The recovery action in a state of a branch, which holds one of the places of ``Rollouts.place``."""
        weight = 1.0
        if self.poll is not None and self.poll.settings.recovery:
            action, weight = await self.poll.action(where)
            if action is not None and weight < self.poll.settings.min_agreement:
                return Advice(None, fault="low_agreement")
        else:
            action = resolve(await self.ask(where), where.observation)
        if action is None:
            return Advice(None, fault="no_recovery_action")
        if self.verifier is not None and self.verifier.settings.recovery:
            fault = await self.verifier.fault(where, action)
            weight *= 1.0 if fault is None else self.verifier.settings.unverified
            if weight == 0:
                return Advice(None, fault=f"unverified_{fault}")
        return Advice(action, weight)
