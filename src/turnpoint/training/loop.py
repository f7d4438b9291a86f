"""The training loop: it samples tasks, calls the method, updates the policy, and knows no method by name."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from turnpoint.config import ConfigError
from turnpoint.policy import ScoreRequest
from turnpoint.prompts import ChatRenderer
from turnpoint.records import Episode, EpisodeWriter, Group, Reflection, Row, Turn
from turnpoint.rollouts import Rollouts, Scorer
from turnpoint.teachers.protocol import Account, Spends
from turnpoint.training.checkpoint import list_checkpoints, load_checkpoint, save_checkpoint
from turnpoint.training.evaluate import evaluate
from turnpoint.training.folder import continue_folder, write_header
from turnpoint.training.metrics import MetricsLog, open_loggers, scalars
from turnpoint.training.run import Run, kinds
from turnpoint.training.tasks import TaskSampler
from turnpoint.training.view import View


class Trainer:
    """One run from its first (or resumed) step to its last."""

    def __init__(self, run: Run, view: View, *, force: bool = False) -> None:
        """``force``: go on with a resumed run even where the environment's data changed."""
        self.run = run
        self.view = view
        self.force = force
        self.step = 0
        """Completed training steps."""
        self._interactions = 0
        """Turns played in training so far."""
        self._totals: dict[str, float] = {}
        self._resumed = False
        self.stopped: str | None = None
        """Why the run ended before its last step, in a sentence: a budget is used up."""

    def resume(self, checkpoint: Path | None = None) -> int:
        """Go back to a checkpoint (default: the newest of the run folder); returns its step.

        The folder stays as it is until ``train`` goes on.
        """
        if checkpoint is None:
            found = list_checkpoints(self.run.folder / "checkpoints")
            if not found:
                raise ConfigError(
                    f"{self.run.folder} has no checkpoint to resume from; start it again with train"
                )
            checkpoint = found[-1][1]
        run = self.run
        self.step = load_checkpoint(
            checkpoint, run.policy, run.method, run.teachers.named(), kinds=kinds(run.config)
        )
        self._resumed = True
        return self.step

    async def train(self) -> None:
        """Train to ``train.steps``, evaluating and checkpointing on the way."""
        run, config = self.run, self.run.config
        self._refuse_spent()
        for teacher in run.teachers.named().values():
            await teacher.check()
        done, notes = None, list[str]()
        if self._resumed:
            done, notes = self.step, continue_folder(run, self.step, force=self.force)
        else:
            write_header(run)
        log = MetricsLog(run.folder / "metrics.jsonl", keep_until=done)
        self._interactions = sum(r["interactions"] for r in log.kept if r["kind"] == "train")
        loggers, missing = open_loggers(config.loggers, run.folder, done=done)
        for note in [*notes, *missing]:
            self.view.note(note)
        sampler = TaskSampler(run.suite.tasks("train"), config.train.tasks_per_step, run.streams)
        try:
            if not self._resumed and config.eval.before:
                await self._evaluate(log)
            while not self._ended():
                metrics = await self._step(sampler)
                self._interactions += metrics["interactions"]
                log.write(self.step, "train", metrics)
                for logger in loggers:
                    logger.log(self.step, scalars(metrics, "train"))
                self.view.step(self.step, metrics)
                self.stopped = self._spent()
                if self._due(config.eval.every):
                    summary = await self._evaluate(log)
                    for logger in loggers:
                        logger.log(self.step, scalars(summary, "eval"))
                if self._due(config.train.checkpoint_every):
                    self._checkpoint()
        finally:
            log.close()
            for logger in loggers:
                logger.close()
            for teacher in run.teachers.named().values():
                await teacher.close()
            if run.env_workers is not None:
                run.env_workers.close()

    def _ended(self) -> bool:
        train = self.run.config.train
        played = train.interactions is not None and self._interactions >= train.interactions
        return played or self.stopped is not None or self.step >= train.steps

    def _accounts(self) -> dict[str, Account]:
        """Accounts of the teachers that cost tokens, by section."""
        return {name: t.spending for name, t in self.run.teachers.named().items() if isinstance(t, Spends)}

    def _refuse_spent(self) -> None:
        """Let calls of a step go beyond a budget; refuse to begin with one that is used up. Raises ``ConfigError``."""
        for account in self._accounts().values():
            account.step_goes_on = True
        spent = self._spent()
        if spent is not None and self.step < self.run.config.train.steps:
            raise ConfigError(f"{spent}; nothing was done")

    def _spent(self) -> str | None:
        """Why a teacher's budget ends the run; None if none does, or if the last step is done anyway."""
        reasons = [reason for account in self._accounts().values() if (reason := account.stops()) is not None]
        return reasons[0] if reasons and self.step < self.run.config.train.steps else None

    def _due(self, every: int) -> bool:
        return self._ended() or (every > 0 and self.step % every == 0)

    async def _step(self, sampler: TaskSampler) -> dict[str, Any]:
        run, began = self.run, time.perf_counter()
        async with closed_at_the_end(run.open_rollouts(self.step)) as rollouts:
            groups = await self._collect(sampler, rollouts)
            collected = time.perf_counter()
            try:
                if run.config.train.recompute_old_logprobs:
                    await recompute_logprobs(run.scorer, groups)
                rows = await run.method.credit(groups, run.scorer, run.teachers)
            finally:  # whatever fails from here on, the episodes are on record
                credited = time.perf_counter()
                if run.config.train.save_episodes:
                    self._save_episodes(groups)
        update = run.policy.update(rows) if rows else {}
        tally = run.method.tally.take()
        conserve(self.step, rollouts.sampled_tokens, rows, tally)
        self.step += 1
        finished = time.perf_counter()
        return {
            **rollout_metrics(groups),
            "sampled_tokens": rollouts.sampled_tokens,
            "rows": len(rows),
            **tally,
            **self._counted(),
            **self._run_totals(),
            **{f"update/{name}": value for name, value in update.items()},
            "seconds": finished - began,
            "seconds_collect": collected - began,
            "seconds_credit": credited - collected,
            "seconds_update": finished - credited,
        }

    async def _collect(self, sampler: TaskSampler, rollouts: Rollouts) -> list[Group]:
        """The groups of the step; what is lost if it fails is said with the error."""
        try:
            return await self.run.method.collect(sampler.step(self.step), rollouts, self.run.teachers)
        except BaseException as error:
            error.add_note(
                f"step {self.step + 1} ended while it collected: {rollouts.finished} finished episodes and "
                f"{rollouts.sampled_tokens} sampled tokens are lost; resume goes on from the last checkpoint"
            )
            raise

    def _counted(self) -> dict[str, float]:
        """What teachers and the environment counted since the last step."""
        totals = {
            f"{section}/{name}": value
            for section, teacher in self.run.teachers.named().items()
            for name, value in teacher.metrics().items()
        }
        counters: Callable[[], Mapping[str, float]] = getattr(self.run.suite, "counters", dict)
        totals |= {f"env/{name}": value for name, value in counters().items()}
        totals |= self.run.env_workers.counts() if self.run.env_workers is not None else {}
        fresh = {name: value - self._totals.get(name, 0.0) for name, value in totals.items()}
        self._totals = dict(totals)
        return fresh

    def _run_totals(self) -> dict[str, float]:
        """What teachers cost in the whole run, resumed parts included."""
        return {
            f"spent/{section}/{name}": value
            for section, account in self._accounts().items()
            for name, value in account.totals().items()
        }

    def _save_episodes(self, groups: Sequence[Group]) -> None:
        """Write the episodes of the step in progress."""
        path = self.run.folder / "episodes" / f"step_{self.step + 1:06d}.jsonl"
        path.unlink(missing_ok=True)  # a resumed run repeats the step
        with EpisodeWriter(path) as writer:
            for group in groups:
                for episode in (*group.episodes, *group.branches):
                    writer.write(episode)

    async def _evaluate(self, log: MetricsLog) -> dict[str, Any]:
        began = time.perf_counter()
        evaluation = await evaluate(self.run, self.run.config.eval)
        path = self.run.folder / "eval" / f"step_{self.step:06d}.jsonl"
        path.unlink(missing_ok=True)
        with EpisodeWriter(path) as writer:
            for episode in evaluation.episodes:
                writer.write(episode)
        figures = evaluation.as_dict() | {"seconds": time.perf_counter() - began}
        log.write(self.step, "eval", figures)
        if evaluation.summary is None:
            self.view.note(f"eval at step {self.step}: {evaluation.without_outcome()}")
        else:
            self.view.evaluation(self.step, evaluation.summary)
        return figures

    def _checkpoint(self) -> None:
        save_checkpoint(
            self.run.folder / "checkpoints", self.step, self.run.policy, self.run.method,
            self.run.teachers.named(), kinds=kinds(self.run.config), keep=self.run.config.train.keep_checkpoints,
        )  # fmt: skip


@asynccontextmanager
async def closed_at_the_end(rollouts: Rollouts) -> AsyncIterator[Rollouts]:
    """Close rollouts in any case; a failure of that does not hide the error that came before."""
    try:
        yield rollouts
    except BaseException as error:
        try:
            await rollouts.close()
        except Exception as another:
            error.add_note(f"closing the rollouts failed as well: {type(another).__name__}: {another}")
        raise
    await rollouts.close()


async def recompute_logprobs(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Put the trainer's log-probs of every sampled token in place of the sampler's."""
    episodes = [e for g in groups for e in (*g.episodes, *g.branches)]
    calls: list[Turn | Reflection] = [t for e in episodes for t in e.new_turns if t.response_ids]
    calls += [e.reflection for e in episodes if e.reflection is not None and e.reflection.response_ids]
    scored = await scorer.logprobs([ScoreRequest(c.prompt_ids, c.response_ids) for c in calls])
    for call, logprobs in zip(calls, scored, strict=True):
        call.logprobs = tuple(logprobs.tolist())


def conserve(step: int, sampled: int, rows: Sequence[Row], tally: dict[str, float]) -> None:
    """Every sampled token is in a row or was dropped by name; anything else is a defect of the method.

    Raises ``RuntimeError`` that gives the numbers.
    """
    in_rows = sum(len(row.response_ids) for row in rows)
    dropped = sum(value for name, value in tally.items() if name.startswith("dropped_tokens/"))
    if in_rows + dropped != sampled:
        raise RuntimeError(
            f"step {step}: {sampled} tokens were sampled, but {in_rows} are in rows and {dropped:.0f} were "
            "dropped by name; the method lost or repeated turns"
        )


def rollout_metrics(groups: Sequence[Group]) -> dict[str, Any]:
    """What the episodes of a step look like, whatever the method."""
    episodes: list[Episode] = [episode for group in groups for episode in group.episodes]
    turns = [turn for episode in episodes for turn in episode.new_turns]
    branch_turns = sum(len(branch.turns) for group in groups for branch in group.branches)
    ended = [episode for episode in episodes if episode.stop is not None and episode.stop.has_outcome]
    scores = [episode.score for episode in ended if episode.score is not None]
    return {
        "episodes": len(episodes),
        "success": float(np.mean([bool(e.success) for e in ended])) if ended else None,
        "reward": float(np.mean([e.total_reward for e in ended])) if ended else None,
        **({"score": float(np.mean(scores))} if scores else {}),  # only some environments give one
        "turns": float(np.mean([len(e.turns) for e in episodes])) if episodes else 0.0,
        "interactions": len(turns) + branch_turns,
        "invalid": float(np.mean([not t.valid for t in turns])) if turns else 0.0,
        "truncated": float(np.mean([t.truncated for t in turns])) if turns else 0.0,
        "rows_anew": rows_anew(episodes),
        "stops": dict(sorted(Counter(str(e.stop) for e in episodes).items())),
    }


def rows_anew(episodes: Sequence[Episode]) -> float:
    """Share of turns, after the first of their episodes, whose prompt does not extend the tokens before it.

    Each of them begins a sequence of its own, because the template or the history rewrote what came before.
    """
    pairs = [(a, b) for episode in episodes for a, b in pairwise(episode.new_turns)]
    anew = [
        not ChatRenderer.extends((*a.prompt_ids, *a.response_ids), b.prompt_ids)
        for a, b in pairs
        if a.prompt_ids and b.prompt_ids
    ]
    return float(np.mean(anew)) if anew else 0.0
