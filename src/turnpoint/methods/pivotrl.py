"""PivotRL (arXiv 2603.21383): single-turn GRPO at the turns of recorded episodes that the policy is unsure of.

Offline: no episode is played. At each turn of a recorded episode the policy answers G times from the recorded
context, and each answer is judged on the spot: does it give the recorded action, or does it bring the
task as far forward (``distance``, by the environment's oracle)? A turn is a *pivot*, and trained, if the judgements
differ (σ² > 0) and average below τ; all other answers are dropped. The pivots are found anew with the
policy of every step, so turns leave as they are mastered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from turnpoint.config import ConfigError
from turnpoint.credit import pivotrl_keep
from turnpoint.envs import Capabilities, EnvError
from turnpoint.methods.parts import Stateless, outcome_rows, record_advantages
from turnpoint.methods.protocol import MethodSettings, Teachers
from turnpoint.methods.recorded import read_recorded
from turnpoint.methods.situations import resolve
from turnpoint.methods.tally import Tally
from turnpoint.policy import ContextOverflow
from turnpoint.records import Episode, EpisodeKind, Group, Row, Task, Turn
from turnpoint.rollouts import EnvCopy, Rollouts, Scorer

UNJUDGED = "unjudged"
"""Key of ``Episode.info``: why a local rollout could not be judged."""


class PivotRLSettings(MethodSettings):
    """Local rollouts at uncertain turns of recorded episodes."""

    title: ClassVar[str] = "PivotRL"
    paper: ClassVar[str] = "arXiv 2603.21383"
    terms: ClassVar[tuple[str, ...]] = ("turn-relative outcome of local rollouts",)

    kind: Literal["pivotrl"] = "pivotrl"
    episodes: Path
    """JSONL file of recorded episodes. ``train.tasks_per_step`` of them are used in a step, whatever its tasks."""
    solved_only: bool = True
    """Leave out episodes that did not succeed."""
    turns_per_episode: PositiveInt | None = None
    """Most turns of an episode that are tried in a step, drawn at random; null = all."""
    group: int = Field(default=8, ge=2)
    """G: local rollouts of each turn."""
    ceiling: float = Field(default=0.75, gt=0.0)
    """τ: turns whose local rollouts average this or more are mastered, and left out."""
    reward: Literal["action", "distance", "either"] = "action"
    """1 for an answer that gives the recorded (or a recorded gold) action, or for one after which the oracle needs
    fewer turns (functional equivalence), or for either; else 0."""
    normalise: Literal["mean", "mean_std"] = "mean_std"
    """Subtract the mean of the turn's local rollouts, or also divide by their standard deviation."""
    invalid_penalty: NonNegativeFloat = 0.0
    """Subtracted from the score of answers without a parsable action."""

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        if self.reward != "action" and not (capabilities.oracle and capabilities.deterministic):
            raise ConfigError(
                f"method.reward is {self.reward}, which brings recorded states back and asks the oracle, but this "
                "environment has no oracle or is not deterministic; set method.reward to action"
            )
        self.read()

    def read(self) -> list[Episode]:
        """The recorded episodes; raises ``ConfigError`` if the file holds none of use."""
        return read_recorded(self.episodes, "method.episodes", solved_only=self.solved_only)

    def build(self) -> PivotRL:
        return PivotRL(self)


class PivotRL(Stateless):
    """See the module text."""

    def __init__(self, settings: PivotRLSettings) -> None:
        self.settings = settings
        self.tally = Tally()
        self._recorded: list[Episode] | None = None

    @property
    def recorded(self) -> list[Episode]:
        """Recorded episodes, read when they are first needed: evaluation does without the file."""
        if self._recorded is None:
            self._recorded = self.settings.read()
        return self._recorded

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """G answers at each turn of as many recorded episodes as the step has tasks; a group is one turn."""
        places = [
            (episode, turn)
            for episode in self._drawn(rollouts, len(tasks))
            for turn in self._turns(rollouts, episode)
        ]
        groups = await asyncio.gather(*(self._answer(episode, turn, rollouts) for episode, turn in places))
        await self._judge(places, groups, rollouts)
        return [group for group in groups if group.episodes]

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """Rows of the turns that are pivots."""
        kept = [group for group in groups if self._is_pivot(group)]
        self.tally.add("turns_tried", len(groups))
        self.tally.add("turns_kept", len(kept))
        if not kept:
            self.tally.add("signal_empty/pivots")
        s = self.settings
        pairs = outcome_rows(
            kept, self.tally, normalise=s.normalise, baseline="episodes", invalid_penalty=s.invalid_penalty
        )
        record_advantages(pairs)
        return [row for _, row in pairs]

    def _is_pivot(self, group: Group) -> bool:
        reason = self._left_out(group)
        if reason is not None:
            self.tally.add(f"dropped_tokens/{reason}", sum(e.generated_tokens for e in group.episodes))
        return reason is None

    def _left_out(self, group: Group) -> str | None:
        """Why a turn is not trained; None for a pivot."""
        if any(UNJUDGED in episode.info for episode in group.episodes):
            return "unjudged"
        rewards = [episode.total_reward for episode in group.episodes]
        self.tally.mean("local_reward", sum(rewards) / len(rewards))
        if len(rewards) < 2:  # the others were too late: nothing to compare with
            return "too_few_answers"
        return None if pivotrl_keep(rewards, self.settings.ceiling) else "not_pivotal"

    # ---- which turns ----------------------------------------------------------------------------

    def _drawn(self, rollouts: Rollouts, count: int) -> list[Episode]:
        """Recorded episodes of this step: shuffled epoch after epoch, as a pure function of seed and step."""
        count = min(count, len(self.recorded))
        epoch, place = divmod(rollouts.step, len(self.recorded) // count)
        order = rollouts.streams.rng("pivotrl", epoch).permutation(len(self.recorded)).tolist()
        return [self.recorded[i] for i in order[place * count : (place + 1) * count]]

    def _turns(self, rollouts: Rollouts, episode: Episode) -> list[int]:
        count, most = len(episode.turns), self.settings.turns_per_episode
        if most is None or count <= most:
            return list(range(count))
        rng = rollouts.streams.rng("pivotrl_turns", rollouts.step, episode.id)
        return sorted(rng.choice(count, size=most, replace=False).tolist())

    # ---- local rollouts -------------------------------------------------------------------------

    async def _answer(self, episode: Episode, turn: int, rollouts: Rollouts) -> Group:
        """G single-turn episodes from the recorded context; none if its prompt is too long."""
        answers = await asyncio.gather(
            *(self._sample(episode, turn, i, rollouts) for i in range(self.settings.group))
        )
        found = [answer for answer in answers if isinstance(answer, Episode)]
        if not found:
            self.tally.add(f"turns_skipped/{answers[0]}")
        return Group(episode.task, found)

    async def _sample(self, episode: Episode, turn: int, index: int, rollouts: Rollouts) -> Episode | str:
        """One answer, or why there is none."""
        branch = rollouts.branch(episode, turn, name=f"{rollouts.prefix}-local-{turn}-{index}")
        branch.episode.kind, branch.episode.step = EpisodeKind.ROLLOUT, rollouts.step
        try:
            async with rollouts.place():
                branch.keep(await branch.sample())
        except ContextOverflow:
            return "prompt_too_long"
        except TimeoutError:
            self.tally.add("answers_skipped/time_out")
            return "time_out"
        finally:
            branch.close()
        return branch.episode

    # ---- judgement ------------------------------------------------------------------------------

    async def _judge(
        self, places: Sequence[tuple[Episode, int]], groups: Sequence[Group], rollouts: Rollouts
    ) -> None:
        """Set the reward of every answer."""
        for (episode, number), group in zip(places, groups, strict=True):
            recorded, answers = episode.turns[number], [answer.turns[0] for answer in group.episodes]
            for answer in answers:
                answer.gold_actions = recorded.gold_actions or (recorded.executed,)
                answer.reward = float(self.settings.reward != "distance" and same_action(answer, recorded))
            if self.settings.reward == "action":
                continue
            open_actions = dict.fromkeys(a.executed for a in answers if a.valid and a.reward == 0)
            try:
                gains = await self._gains(list(open_actions), episode, number, rollouts)
            except (EnvError, TimeoutError) as error:
                self.tally.add("turns_skipped/unjudged")
                for played in group.episodes:
                    played.info[UNJUDGED] = f"{type(error).__name__}: {error}"
                continue
            for answer in answers:
                answer.reward = max(answer.reward, float(answer.valid and gains.get(answer.executed, False)))

    async def _gains(
        self, actions: Sequence[str], episode: Episode, turn: int, rollouts: Rollouts
    ) -> dict[str, bool]:
        """Whether each action brings the task forward from the state before ``turn``. Raises ``EnvError``."""
        async with rollouts.envs.lend() as env:
            return {action: await self._gains_ground(action, env, episode, turn) for action in actions}

    async def _gains_ground(self, action: str, env: EnvCopy, episode: Episode, turn: int) -> bool:
        await env.restore(episode, turn)
        before = await env.call(env.env.distance)
        await env.call(env.env.step, action)
        after = await env.call(env.env.distance)
        return before is not None and after is not None and after < before


def same_action(answer: Turn, recorded: Turn) -> bool:
    """Whether an answer gives the recorded action, or one that was recorded as best there."""
    if not answer.valid:
        return False
    wanted = recorded.gold_actions or (recorded.executed,)
    given = resolve(answer.executed, recorded.observation)
    return given is not None and given in {resolve(action, recorded.observation) for action in wanted}
