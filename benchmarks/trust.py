"""What votes and trials make of a teacher that errs, without any training: which named actions are distilled.

    python -m benchmarks.trust --episodes 200

Generated household games are played by an agent that takes a random action now and then; the oracle, some of whose
named actions are wrong, reports on each episode, and every turn that would be distilled is judged by the exact oracle.
Errors are drawn anew for each answer, or half of them come back in every answer, where no vote can find them. The code
is that of PivotOPD's options ``consistency`` and ``verify``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence

import numpy as np

from benchmarks.runs import markdown_table
from turnpoint.envs.household.settings import HouseholdSettings
from turnpoint.envs.household.suite import HouseholdSuite
from turnpoint.methods.consistency import ConsistencySettings
from turnpoint.methods.counsel import Counsel
from turnpoint.methods.naming import keep_pivot
from turnpoint.methods.oracle_judge import OracleJudge
from turnpoint.methods.tally import Tally
from turnpoint.methods.verification import VerifySettings
from turnpoint.pivots import Interval, bootstrap_interval
from turnpoint.records import Episode, Pivot
from turnpoint.teachers.noise import NoiseSettings
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.testing import play_actions
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

TRIAL = VerifySettings(level="moves")
ROWS: tuple[tuple[str, int, VerifySettings | None], ...] = (
    ("asked once", 1, None),
    ("asked once, trial", 1, TRIAL),
    ("3 votes", 3, None),
    ("5 votes", 5, None),
    ("9 votes", 9, None),
    ("5 votes, trial", 5, TRIAL),
)


def main() -> None:
    """Ask, judge, and print a table for each kind of error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument(
        "--random", type=float, default=0.3, help="share of the agent's actions that are random"
    )
    parser.add_argument("--errors", type=float, default=0.4, help="share of named actions that are wrong")
    parser.add_argument("--min-agreement", type=float, default=0.4)
    options = parser.parse_args()
    suite = HouseholdSettings(train_tasks=options.episodes).build()
    for repeated in (0.0, 0.5):
        print(
            f"\n{100 * options.errors:.0f} % of actions wrong, {100 * repeated:.0f} % of errors in every answer\n"
        )
        header = ["teacher", "turns kept", "right", "mean weight: right", "wrong", "right by weight",
                  "answers an episode", "trials an episode"]  # fmt: skip
        noise = NoiseSettings(actions=options.errors, repeated=repeated)
        rows = [asyncio.run(row(suite, noise, name, n, trial, options)) for name, n, trial in ROWS]
        print(markdown_table(header, rows))


def episodes(suite: HouseholdSuite, options: argparse.Namespace) -> list[Episode]:
    """One of each game: the oracle's best action for what was seen, at times a random one."""
    env, found = suite.make(), []
    for number, task in enumerate(suite.tasks("train")[: options.episodes]):
        rng, actions, shown = random.Random(number), [], env.reset(task)
        for _ in range(options.turns):
            best = env.best_actions("observed")
            wild = rng.random() < options.random or not best
            actions.append(rng.choice(list(shown.admissible or ())) if wild else best[0])
            step = env.step(actions[-1])
            shown = step.observation
            if step.done:
                break
        found.append(play_actions(env, task, actions))
    return found


async def row(
    suite: HouseholdSuite,
    noise: NoiseSettings,
    name: str,
    samples: int,
    trial: VerifySettings | None,
    options: argparse.Namespace,
) -> list[str]:
    """Cells of one way to ask."""
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()))
    tally, teacher = Tally(), OracleTeacherSettings(error=noise).build(suite)
    votes = ConsistencySettings(samples=samples, min_agreement=options.min_agreement) if samples > 1 else None
    counsel = Counsel(teacher, rollouts, tally, consistency=votes, verify=trial)
    judge = OracleJudge(rollouts, "observed", Tally())
    played = episodes(suite, options)
    weights: dict[bool, list[float]] = {True: [], False: []}
    right: list[tuple[str, float]] = []
    for episode in played:
        report, shares = await counsel.report(episode, 5)
        for candidate in report.candidates if report is not None else ():
            pivot = Pivot(candidate.turn, "teacher", candidate.action)
            keep_pivot(episode, pivot, tally)
            await counsel.weigh(episode, pivot, shares.get(candidate.turn))
            if pivot.resolved is None:
                continue
            verdict = await judge.pivot(episode, pivot)
            if verdict is not None:
                weights[verdict[1]].append(1.0 if pivot.score is None else pivot.score)
                right.append((episode.id, float(verdict[1])))
    await rollouts.close()
    total = {kind: sum(found) for kind, found in weights.items()}
    return [
        name,
        str(len(right)),
        percent(bootstrap_interval([value for _, value in right], units=[owner for owner, _ in right])),
        *(f"{mean(weights[kind]):.2f}" for kind in (True, False)),
        f"{100 * total[True] / (total[True] + total[False]):.0f} %",
        f"{teacher.metrics()['reports'] / len(played):.0f}",
        f"{tally.get('verify/interactions') / len(played):.1f}",
    ]


def percent(interval: Interval) -> str:
    """Mean with its 95 % interval over episodes."""
    return f"{100 * interval.mean:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def mean(values: Sequence[float]) -> float:
    """Mean; NaN of nothing."""
    return float(np.mean(values)) if values else float("nan")


if __name__ == "__main__":
    main()
