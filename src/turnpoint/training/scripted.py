"""Agents without a model, played on an environment alone: a random one, and those that follow the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal

from turnpoint.config import ConfigError
from turnpoint.envs import Env, EnvError, EnvSuite
from turnpoint.envs.draw import DrawsActions, draw_action
from turnpoint.envs.sound import SoundEnv
from turnpoint.pivots import summarise
from turnpoint.records import Episode, Observation, StopReason, Turn
from turnpoint.rollouts.ending import end_episode, end_with_fault
from turnpoint.training.evaluate import Evaluation
from turnpoint.training.settings import EvalSettings

ScriptedAgent = Literal["random", "oracle", "observer"]
Chooser = Callable[[Observation], str | None]


def evaluate_scripted(
    suite: EnvSuite, agent: ScriptedAgent, settings: EvalSettings, *, seed: int = 0
) -> Evaluation:
    """Play ``settings.tasks`` tasks, ``settings.samples`` times each, one after the other.

    ``random`` takes any admissible action, or one that the environment draws; ``oracle`` and ``observer`` the first of
    the best actions with full and with observed knowledge, and give up where there is none. Raises ``ConfigError`` if
    the environment cannot serve the agent.
    """
    if agent != "random" and not suite.capabilities.oracle:
        raise ConfigError(
            f"environment '{suite.name}' has no oracle, so agent '{agent}' cannot play it; use random"
        )
    env = suite.make()
    if agent == "random" and not (suite.capabilities.admissible or isinstance(env, DrawsActions)):
        raise ConfigError(
            f"environment '{suite.name}' neither lists its actions nor draws any, so a random agent has nothing to do"
        )
    tasks = suite.tasks(settings.split)
    episodes = []
    try:
        for number in range(min(settings.tasks, len(tasks))):
            for sample in range(settings.samples):
                episode = Episode(id=f"{agent}/{tasks[number].id}/{sample}", task=tasks[number])
                rng = random.Random(f"{agent}/{seed}/{tasks[number].id}/{sample}")
                _play(
                    suite,
                    env,
                    episode,
                    _chooser(env, agent, rng),
                    settings.measure and suite.capabilities.oracle,
                )
                episodes.append(episode)
    finally:
        env.close()
    known = any(episode.stop is not None and episode.stop.has_outcome for episode in episodes)
    return Evaluation(episodes, summarise(episodes) if known else None)


def _chooser(env: Env, agent: ScriptedAgent, rng: random.Random) -> Chooser:
    if agent == "random":
        return random_chooser(env, rng)
    knowledge: Literal["full", "observed"] = "full" if agent == "oracle" else "observed"
    return lambda seen: next(iter(env.best_actions(knowledge)), None)


def random_chooser(env: Env, rng: random.Random) -> Chooser:
    """Any admissible action; one that the environment draws where none are listed; None where it draws none."""
    return lambda seen: draw_action(env, seen, rng)


def _play(suite: EnvSuite, env: Env, episode: Episode, choose: Chooser, measure: bool) -> None:
    sound = SoundEnv(env)
    try:
        observation = sound.reset(episode.task)
        for index in range(suite.max_turns):
            turn = Turn(index, observation)
            if measure:
                turn.distance = sound.distance()
            action = choose(observation)
            if action is None:
                end_episode(episode, StopReason.FAILURE, success=False, error="the agent knows nothing to do")
                break
            turn.response = turn.action = turn.executed = action
            step = sound.step(action)
            turn.reward, turn.done, turn.effective = step.reward, step.done, step.effective
            episode.turns.append(turn)
            observation = episode.final_observation = step.observation
            episode.score = step.score
            if step.done:
                reason = StopReason.SUCCESS if step.success else StopReason.FAILURE
                end_episode(episode, reason, success=bool(step.success))
                break
        else:
            end_episode(episode, StopReason.MAX_TURNS)
        if measure:
            episode.final_distance, episode.distances_known = sound.distance(), True
    except EnvError as fault:
        end_with_fault(episode, fault)
    except Exception as fault:  # whatever an environment raises is the record of one episode
        end_with_fault(episode, EnvError(f"{type(fault).__name__}: {fault}"))
