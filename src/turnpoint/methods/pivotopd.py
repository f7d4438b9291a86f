"""PivotOPD (arXiv 2609.40285): distil at pivotal turns, from the hinted student itself, inside one PPO update.

A teacher names gold actions at pivotal turns. The frozen student, given the gold action as a hint, is its own
token-level teacher: *preventive* distillation corrects the wrong turn (reverse KL, on the student's own
tokens); *recovery* distillation teaches what to do in the state after it (forward KL, on tokens sampled from
the hinted student); a *lesson* reaches every turn of the episode. All terms are advantages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, field_validator, model_validator

from turnpoint.config import ConfigError
from turnpoint.credit import distillation_advantages
from turnpoint.envs import Capabilities
from turnpoint.methods.beyond import Beyond
from turnpoint.methods.committed import CommittedSettings, Wanted, last_candidate, outside_logprobs
from turnpoint.methods.counsel import Counsel
from turnpoint.methods.naming import keep_pivot
from turnpoint.methods.parts import UNUSABLE, play_groups, record_advantages
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.recovery import Recovery, RecoveryRules
from turnpoint.methods.rules import Stopping, StopRule, StopSettings, whole_turns
from turnpoint.methods.situations import situation
from turnpoint.methods.tally import Tally
from turnpoint.policy import PolicyCapabilities, ScoreRequest
from turnpoint.policy.settings import PolicySettings
from turnpoint.prompts import PromptSettings, assert_unhinted
from turnpoint.records import Episode, Group, Pivot, Row, RowKind, Task, Turn
from turnpoint.rollouts import Rollouts, Scorer

Ablation = Literal[
    "none", "preventive_only", "recovery_only", "random_turns", "hints_without_gold", "reverse_kl_recovery"
]


class PivotOPDSettings(CommittedSettings):
    """Pivotal-turn on-policy distillation from the hinted student."""

    title: ClassVar[str] = "PivotOPD"
    paper: ClassVar[str] = "arXiv 2609.40285"
    terms: ClassVar[tuple[str, ...]] = (
        "group-relative outcome",
        "preventive (reverse KL)",
        "lesson (reverse KL)",
        "recovery (forward KL)",
    )

    kind: Literal["pivotopd"] = "pivotopd"
    normalise: Literal["mean", "mean_std"] = "mean"
    """Normaliser of the outcome term."""
    baseline: Literal["episodes", "rows"] = "rows"
    """Count an episode once, or once for each of its turns, in the outcome baseline."""
    max_pivots: int = Field(default=5, ge=1)
    """m: most pivotal turns the teacher may name in an episode."""
    recovery_turns: NonNegativeInt = 2
    """K: turns of each recovery branch; 0 = no recovery."""
    max_recoveries: NonNegativeInt = 64
    """Most recovery branches in a step, chosen uniformly."""
    w_prev: NonNegativeFloat = 0.001
    """Weight of the preventive term."""
    w_traj: NonNegativeFloat = 0.001
    """Weight of the lesson term."""
    w_rec: NonNegativeFloat = 1.0
    """Weight of the recovery term; published values assume a return of 10 on success."""
    delta: PositiveFloat = 5.0
    """Clip of the recovery log-ratio, applied before the weight."""
    require_agreement: bool = False
    """Drop recovery turns that commit another action than the one the hint named."""
    stop: StopSettings | None = None
    """End episodes that a scoring teacher finds out of its support (STRIDE's rule); they have no outcome, so that
    their turns get the teacher's terms only. null = off."""
    ablation: Ablation = "none"
    """One of the paper's ablations; overrides the settings it concerns."""

    @model_validator(mode="after")
    def _not_inert(self) -> Self:
        recovers = self.w_rec > 0 and self.recovery_turns > 0
        if self.ablation == "recovery_only" and not recovers:
            raise ValueError(
                "ablation recovery_only distils nothing with recovery_turns 0 or w_rec 0; set recovery_turns >= 1 "
                "and w_rec > 0"
            )
        if recovers and self.max_recoveries == 0:
            raise ValueError(
                "recovery_turns and w_rec ask for recovery, but max_recoveries 0 allows none; set max_recoveries "
                ">= 1, or recovery_turns 0"
            )
        return self

    _whole_turns = field_validator("stop")(whole_turns)

    @property
    def asks_scoring(self) -> bool:
        return self.stop is not None or self.hinted_by == "scoring"

    @property
    def asks_naming(self) -> bool:
        return self.effective().distils

    def effective(self) -> PivotOPDSettings:
        """These settings with the ablation's own values put in."""
        changes: dict[str, dict[str, float]] = {
            "preventive_only": {"recovery_turns": 0, "w_prev": 0.1, "w_traj": 0.0},
            "recovery_only": {"w_prev": 0.0, "w_traj": 0.0},
        }
        return self.model_copy(update=changes.get(self.ablation, {}))

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        if self.stop is not None:
            self.stop.check(self.kind, teachers)
        effective = self.effective()
        if effective.distils:
            teachers.require_naming("pivotopd")
            self.check_committed(teachers)
        if effective.recovery_turns > 1 and not capabilities.deterministic:
            raise ConfigError(
                f"method.recovery_turns is {self.recovery_turns}, but this environment is not deterministic, so the "
                "state after a pivotal turn cannot be reproduced; set method.recovery_turns to 1"
            )
        if effective.distils:
            self.check_beyond(capabilities, teachers)

    def check_backend(
        self, policy: PolicySettings, capabilities: PolicyCapabilities, prompt: PromptSettings
    ) -> None:
        if self.recovery_ratio is not None:
            self.recovery_ratio.check_backend(policy, capabilities)

    @property
    def recovery_rules(self) -> RecoveryRules:
        """How recovery branches are played."""
        return RecoveryRules(
            turns=self.recovery_turns,
            gold=self.ablation != "hints_without_gold",
            hinted=self.ablation != "reverse_kl_recovery",
            require_agreement=self.require_agreement,
        )

    @property
    def distils(self) -> bool:
        """Whether any term needs the teacher."""
        return self.w_prev > 0 or self.w_traj > 0 or (self.w_rec > 0 and self.recovery_turns > 0)

    def build(self) -> PivotOPD:
        return PivotOPD(self)


@dataclass(frozen=True, slots=True)
class Job:
    """A queued recovery: branch off after ``turn`` of ``episode``."""

    group: Group
    episode: Episode
    turn: int


class PivotOPD(Stopping):
    """See the module text; ``collect`` and ``credit`` follow the paper's Algorithm 1."""

    def __init__(self, settings: PivotOPDSettings) -> None:
        self.settings = settings.effective()
        self.tally = Tally()
        self.stop = StopRule(settings.stop, self.tally)
        self.beyond = Beyond(
            self.settings,
            recovery_turns=self.settings.recovery_turns,
            w_rec=self.settings.w_rec,
            tally=self.tally,
        )

    def state_dict(self) -> dict[str, Any]:
        """What the stop rule and the options beyond the paper have learned."""
        beyond = self.beyond.state_dict()
        return super().state_dict() | ({"beyond": beyond} if beyond else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        super().load_state_dict(state)
        self.beyond.load_state_dict(state.get("beyond", {}))

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """G rollouts per task, a report on each, and recovery branches from the states after pivotal turns."""
        watch = self.stop.watch(rollouts, teachers)
        groups = await play_groups(tasks, rollouts, self.settings.group, watch)
        await self.stop.learn([episode for group in groups for episode in group.episodes], teachers)
        if not self.settings.distils:
            return groups
        teacher = teachers.require_naming("pivotopd")
        played = [episode for group in groups for episode in group.episodes if episode.turns]
        episodes = [episode for episode in played if episode.stop not in UNUSABLE]
        self.tally.add("reports_skipped/unusable_episode", len(played) - len(episodes))
        counsel = self.beyond.counsel(teacher, rollouts)
        await asyncio.gather(*(self._analyse(episode, counsel) for episode in episodes))
        jobs = self._queue(groups, rollouts)
        rules = replace(self.settings.recovery_rules, turns=self.beyond.recovery_turns)
        recovery = Recovery(rules, counsel, rollouts, self.tally, self.beyond.depth)
        branches = await asyncio.gather(*(recovery.play(job.episode, job.turn) for job in jobs))
        for job, branch in zip(jobs, branches, strict=True):
            if branch.turns:
                job.group.branches.append(branch)
        await self.beyond.learn(groups, branches, teacher, rollouts)
        return groups

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """Rows of all turns (outcome + preventive + lesson) and of all recovery turns."""
        s = self.settings
        pairs = s.outcome_rows(groups, self.tally, keep_unjudged=s.distils)
        episodes = {episode.id: episode for group in groups for episode in group.episodes}
        preventive = await self._add_distillation(pairs, episodes, scorer, teachers)
        branches = [branch for group in groups for branch in group.branches]
        pairs += await self._recovery_rows(branches, scorer, preventive)
        self._note_empty_signals()
        record_advantages(pairs)
        return [row for _, row in pairs]

    # ---- naming pivotal turns -------------------------------------------------------------------

    async def _analyse(self, episode: Episode, counsel: Counsel) -> None:
        """One report per episode, also for successes; a failed teacher costs its signal, not the rows."""
        if self.settings.pivot == "last":
            for turn, gold in await last_candidate(episode, counsel):
                keep_pivot(episode, Pivot(turn, "teacher", gold), self.tally)
                await counsel.weigh(episode, episode.pivots[-1], None)
            return
        report, shares = await counsel.report(episode, self.settings.max_pivots)
        if report is None:
            return
        candidates = [(c.turn, c.action) for c in report.candidates]
        source = "teacher"
        if self.settings.ablation == "random_turns":
            candidates, source = await self._random_candidates(episode, len(candidates), counsel), "random"
            shares = {}
        for turn, gold in candidates:
            pivot = Pivot(turn, source, gold, note=report.turn_lessons.get(turn, ""))
            keep_pivot(episode, pivot, self.tally)
            await counsel.weigh(episode, pivot, shares.get(turn))

    async def _random_candidates(
        self, episode: Episode, count: int, counsel: Counsel
    ) -> list[tuple[int, str]]:
        """Ablation: as many turns, drawn without replacement, with the teacher's action for each."""
        rng = counsel.rollouts.streams.rng("random_turns", episode.id)
        turns = sorted(
            rng.choice(len(episode.turns), size=min(count, len(episode.turns)), replace=False).tolist()
        )
        named = [(turn, await counsel.ask(situation(episode, turn))) for turn in turns]
        return [(turn, action) for turn, action in named if action is not None]

    # ---- recovery -------------------------------------------------------------------------------

    def _queue(self, groups: Sequence[Group], rollouts: Rollouts) -> list[Job]:
        """Jobs for pivotal turns that have a successor, at most ``max_recoveries``, uniformly chosen."""
        if self.settings.recovery_turns == 0 or self.settings.w_rec == 0:
            return []
        jobs = [
            Job(group, episode, pivot.turn)
            for group in groups
            for episode in group.episodes
            for pivot in episode.pivots
            if pivot.resolved is not None and pivot.turn + 1 < len(episode.turns)
        ]
        self.tally.add("recovery_jobs", len(jobs))
        if len(jobs) <= self.settings.max_recoveries:
            return jobs
        self.tally.add("recovery_jobs_over_cap", len(jobs) - self.settings.max_recoveries)
        rng = rollouts.streams.rng("recoveries", rollouts.step)
        kept = rng.choice(len(jobs), size=self.settings.max_recoveries, replace=False)
        return [jobs[i] for i in sorted(kept.tolist())]

    # ---- credit ---------------------------------------------------------------------------------

    async def _add_distillation(
        self,
        pairs: Sequence[tuple[Turn, Row]],
        episodes: dict[str, Episode],
        scorer: Scorer,
        teachers: Teachers,
    ) -> float:
        """Add the preventive and the lesson term to the outcome rows, in place.

        Returns the gradient weight of the preventive one: the sum over its tokens of their weights.
        """
        s, wanted = self.settings, list[Wanted]()
        for turn, row in pairs:
            episode = episodes[row.episode]
            pivot = next((p for p in episode.pivots if p.turn == turn.index and p.resolved), None)
            if s.w_prev > 0 and pivot is not None and pivot.resolved is not None:
                hint = s.recovery_rules.hint(scorer.prompter, pivot.resolved)
                assert_unhinted(turn.messages, [hint])
                weight = s.w_prev * (1.0 if pivot.score is None else pivot.score)
                self._want(wanted, "preventive", weight, turn, row, scorer.hinted(turn, hint))
            if s.w_traj > 0 and episode.lesson:
                assert_unhinted(turn.messages, [scorer.prompter.lesson_text(episode.lesson)])
                self._want(wanted, "lesson", s.w_traj, turn, row, scorer.with_lesson(turn, episode.lesson))
        if s.hinted_by == "scoring":
            scored = await outside_logprobs(wanted, episodes, teachers, self.tally)
        else:
            hinted = await scorer.logprobs([request for *_, request in wanted])
            scored = list(zip(wanted, hinted, strict=True))
        for (name, weight, turn, row, _), logprobs in scored:
            term = distillation_advantages(logprobs, row.old_logprobs, weight=weight)
            row.advantages = row.advantages + term
            turn.scores[name] = tuple(term.tolist())
            self.tally.add(f"{name}_tokens", len(term))
            self.tally.mean(f"{name}_gap", float(np.mean(logprobs - row.old_logprobs)), len(term))
        return sum(
            weight * len(row.response_ids) for (name, weight, _, row, _), _ in scored if name == "preventive"
        )

    def _note_empty_signals(self) -> None:
        """A configured signal that reached no token is counted, and the trainer says so aloud."""
        s = self.settings
        on = {"preventive": s.w_prev > 0, "lesson": s.w_traj > 0, "recovery": s.w_rec * s.recovery_turns > 0}
        for name, configured in on.items():
            if configured and self.tally.get(f"{name}_tokens") == 0:
                self.tally.add(f"signal_empty/{name}")

    def _want(
        self,
        wanted: list[Wanted],
        name: str,
        weight: float,
        turn: Turn,
        row: Row,
        request: ScoreRequest | None,
    ) -> None:
        if request is None:
            self.tally.add(f"{name}_skipped/prompt_too_long")
        else:
            wanted.append((name, weight, turn, row, request))

    async def _recovery_rows(
        self, branches: Sequence[Episode], scorer: Scorer, preventive: float
    ) -> list[tuple[Turn, Row]]:
        """``w_rec * clip(log pi(y|c+h) - log pi(y|c), -delta, delta)``, trained under the unhinted context c.

        ``preventive``: gradient weight of the preventive term, which ``w_rec`` may depend on.
        """
        from_student = self.settings.ablation == "reverse_kl_recovery"
        turns = [(branch, turn) for branch in branches for turn in branch.turns]
        requests = []
        for _, turn in turns:
            assert turn.hint is not None
            requests.append(scorer.hinted(turn, turn.hint) if from_student else scorer.plain(turn))
        kept = [(b, t, r) for (b, t), r in zip(turns, requests, strict=True) if r is not None]
        for (_, turn), request in zip(turns, requests, strict=True):
            if request is None:
                self.tally.add("recovery_skipped/prompt_too_long")
                self.tally.add("dropped_tokens/recovery_prompt_too_long", len(turn.response_ids))
        scored = await scorer.logprobs([request for *_, request in kept])
        tokens = sum(sum(_trust(turn)) for _, turn, _ in kept)
        w_rec = self.beyond.recovery_weight(preventive, tokens)
        return [
            (turn, self._recovery_row(branch, turn, request, logprobs, from_student, w_rec))
            for (branch, turn, request), logprobs in zip(kept, scored, strict=True)
        ]

    def _recovery_row(
        self,
        branch: Episode,
        turn: Turn,
        request: ScoreRequest,
        scored: np.ndarray,
        from_student: bool,
        w_rec: float,
    ) -> Row:
        assert turn.hint is not None
        assert_unhinted(turn.messages, [turn.hint])
        sampled = np.asarray(turn.logprobs)
        hinted, plain = (scored, sampled) if from_student else (sampled, scored)
        weight = w_rec * next(iter(_trust(turn)), 1.0)
        advantages = distillation_advantages(hinted, plain, weight=weight, clip=self.settings.delta)
        self.tally.add("recovery_tokens", len(advantages))
        self.tally.mean("recovery_gap", float(np.mean(hinted - plain)), len(advantages))
        self.tally.mean("recovery_clipped", float(np.mean(np.abs(hinted - plain) > self.settings.delta)))
        return Row(
            prompt_ids=turn.prompt_ids if from_student else request.prompt_ids,
            response_ids=turn.response_ids,
            old_logprobs=plain,
            advantages=advantages,
            kind=RowKind.RECOVERY,
            task=branch.task.id,
            episode=branch.id,
            attempt=branch.attempt.index,
            turn=turn.index,
            anchor=turn.observation.state_key,
        )


def _trust(turn: Turn) -> tuple[float, ...]:
    """Factor on the weight of each token of a recovery turn: its ``weight`` on record, else 1."""
    return turn.scores.get("weight", (1.0,) * len(turn.response_ids))
