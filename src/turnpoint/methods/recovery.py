"""Recovery branches (PivotOPD): hinted turns of the student from the state after a wrong turn."""

from __future__ import annotations

from dataclasses import dataclass

from turnpoint.envs import EnvError
from turnpoint.methods.counsel import Counsel
from turnpoint.methods.recovery_depth import AdaptiveTurns, Gauge
from turnpoint.methods.situations import branch_situation, resolve
from turnpoint.methods.tally import Tally
from turnpoint.policy import ContextOverflow
from turnpoint.prompts import Prompter, leaks
from turnpoint.records import Episode, Turn
from turnpoint.rollouts import Branch, Rollouts


@dataclass(frozen=True, slots=True)
class RecoveryRules:
    """How branches are played."""

    turns: int
    """K: most turns of a branch."""
    gold: bool = True
    """The hint names the teacher's action; otherwise it is a generic reflection that names none."""
    hinted: bool = True
    """The student reads the hint while sampling (forward KL); otherwise only while scoring (reverse KL)."""
    require_agreement: bool = False
    """End a branch whose sample commits another action than the one named."""

    def hint(self, prompter: Prompter, action: str | None) -> str:
        """The hint that names ``action``, or the generic one."""
        return prompter.hint_text(action) if self.gold and action is not None else prompter.generic_hint()


class Recovery:
    """Plays the branches of one step; whatever ends one is counted as ``recovery_ended/<reason>``."""

    def __init__(
        self,
        rules: RecoveryRules,
        counsel: Counsel,
        rollouts: Rollouts,
        tally: Tally,
        depth: AdaptiveTurns | None = None,
    ) -> None:
        """``depth`` measures when branches have recovered; their last turn is executed for it as well."""
        self.rules = rules
        self.counsel = counsel
        self.rollouts = rollouts
        self.tally = tally
        self.depth = depth

    async def play(self, episode: Episode, turn: int) -> Episode:
        """Up to K turns from the state after ``turn``, each in the student's own words."""
        branch = self.rollouts.branch(episode, turn + 1, name=f"recovery-{turn}")
        error = ""
        try:
            async with self.rollouts.place():
                gauge = None
                if self.depth is not None:
                    gauge = await self.depth.gauge(episode, turn, self.rollouts)
                end = await self._turns(branch, gauge)
        except ContextOverflow as overflow:
            end, error = "prompt_too_long", str(overflow)
        except TimeoutError as late:
            end, error = "time_out", str(late) or "the wall clock of the branch ran out"
        except EnvError as fault:
            end, error = f"{type(fault).__name__}", str(fault)
        finally:
            record = branch.close(error)
        self.tally.add(f"recovery_ended/{end}")
        return record

    async def _turns(self, branch: Branch, gauge: Gauge | None) -> str:
        """Play until K turns are kept or something ends the branch; returns what did."""
        for k in range(1, self.rules.turns + 1):
            target, weight = None, 1.0
            if self.rules.gold:
                if self.counsel.tries:
                    branch.pause()
                advice = await self.counsel.action(branch_situation(branch))
                target, weight = advice.action, advice.weight
                if target is None:
                    return advice.fault
            hint = self.rules.hint(self.rollouts.prompter, target)
            turn = await branch.sample(hint if self.rules.hinted else None)
            if (fault := self._fault(turn, target, hint)) is not None:
                self.tally.add("dropped_tokens/recovery", len(turn.response_ids))
                return fault
            turn.hint, turn.gold_actions = hint, () if target is None else (target,)
            if weight != 1.0:
                turn.scores["weight"] = (weight,) * len(turn.response_ids)
            branch.keep(turn)
            if k == self.rules.turns and gauge is None:
                break
            goes_on = await branch.step()
            if gauge is not None:
                await gauge.look(branch)
            if not goes_on and k < self.rules.turns:
                return "episode_over"
        return "complete"

    def _fault(self, turn: Turn, target: str | None, hint: str) -> str | None:
        """Why a sampled turn cannot be used, or None."""
        if not turn.valid:
            return "no_action"
        if turn.hint is not None and (leaks(turn.response) or hint in turn.response):
            return "hint_leaked"
        if target is not None:
            agrees = resolve(turn.executed, turn.observation) == target
            self.tally.mean("recovery_agreement", float(agrees))
            if self.rules.require_agreement and not agrees:
                return "other_action"
        return None
