"""Environment copies in workers that die, hang and lie; the workers here are threads' own objects, killed by script."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.envs import EnvError
from turnpoint.envs.replay import Sent
from turnpoint.methods import Teachers
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.pivots.oracle import measure_distances
from turnpoint.records import StopReason
from turnpoint.rollouts import RolloutSettings
from turnpoint.rollouts.envs import EnvPool
from turnpoint.rollouts.ray_workers import start_workers
from turnpoint.rollouts.remote import COUNTS, EnvServer, EnvWorkers, RemoteEnv, WorkerDied, WorkerLost
from turnpoint.rollouts.sampler import Sampler
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.testing import ToyEnv, ToySettings, ToySuite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

Dies = Callable[[int, str], bool]
"""(number of the call among all workers', method) -> whether the worker dies in it."""


class FakeHandle:
    """A worker in this process; what goes in and out is pickled, as between processes."""

    calls = 0

    def __init__(self, settings: ToySettings, dies: Dies, kind: type[EnvServer] = EnvServer) -> None:
        self.server, self.dies, self.dead = kind(settings), dies, False

    def call(self, method: str, arguments: tuple[Any, ...], seconds: float | None) -> Any:
        number, FakeHandle.calls = FakeHandle.calls, FakeHandle.calls + 1
        if self.dead or self.dies(number, method):
            self.dead = True
            raise WorkerDied("signal 9")
        answer = self.server.answer(method, pickle.loads(pickle.dumps(arguments)))
        return pickle.loads(pickle.dumps(answer))

    def kill(self) -> None:
        self.dead = True


def workers_for(settings: ToySettings, dies: Dies = lambda *_: False, *, count: int = 2, **options: Any):
    FakeHandle.calls = 0
    capabilities = settings.build().capabilities
    return EnvWorkers(lambda: FakeHandle(settings, dies, **options), capabilities, count=count, seconds=5.0)


def once(method: str, after: int) -> Dies:
    """Dies in the first call of ``method`` from call ``after`` on."""
    left = [1]

    def dies(number: int, called: str) -> bool:
        hit = called == method and number >= after and bool(left)
        if hit:
            left.pop()
        return hit

    return dies


def play(workers: EnvWorkers, settings: ToySettings, episodes: int = 4, **rollout: Any):
    suite = settings.build()
    made = RolloutSettings(**{"max_response_tokens": 200, "env_seconds": 5.0} | rollout)
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()), rollout=made, workers=workers)

    async def go():
        played = await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:episodes]))
        await rollouts.close()
        return played

    return asyncio.run(go())


def collect(settings: ToySettings, workers: EnvWorkers | None):
    """Recovery branches of three tasks, after the oracle's reports and with every action tried; what was counted."""
    suite = settings.build()
    rollouts, _ = make_rollouts(
        suite,
        ScriptedPolicy(random_agent()),
        rollout=RolloutSettings(max_response_tokens=200, env_seconds=30.0),
        workers=workers,
    )
    method = PivotOPDSettings(group=4, recovery_turns=3, verify={"level": "exists"}).build()
    teachers = Teachers(naming=OracleTeacherSettings(knowledge="full").build(suite))

    async def go():
        groups = await method.collect(suite.tasks("train")[:3], rollouts, teachers)
        await rollouts.close()
        return [branch for group in groups for branch in group.branches]

    return asyncio.run(asyncio.wait_for(go(), 60)), method.tally.take()


def what_happened(episodes):
    return [(e.stop, e.success, [(t.executed, t.observation) for t in e.turns]) for e in episodes]


def test_episodes_in_workers_are_those_of_this_process() -> None:
    settings = ToySettings()
    workers = workers_for(settings)
    assert what_happened(play(workers, settings)) == what_happened(play(None, settings))
    assert workers.counts() == {f"env_workers/{n}": 2.0 * (n == "started") for n in COUNTS}


@pytest.mark.parametrize(
    ("method", "snapshots"),
    [("reset", True), ("reset", False), ("step", True), ("step", False), ("snapshot", True)],
)
def test_an_episode_goes_on_when_its_worker_dies(method: str, snapshots: bool) -> None:
    settings = ToySettings(snapshots=snapshots)
    workers = workers_for(settings, once(method, 0 if method == "reset" else 12))
    assert what_happened(play(workers, settings)) == what_happened(play(None, settings))
    counts = workers.counts()
    assert (counts["env_workers/started"], counts["env_workers/lost"]) == (3, 1)
    assert counts["env_workers/resumed"] == (method != "reset")
    assert (counts["env_workers/replayed_turns"] > 0) == (method != "reset")


def test_a_restored_state_survives_a_worker_too() -> None:
    settings, task = ToySettings(), toy_suite().tasks("train")[0]
    workers, here = workers_for(settings, once("distance", 0)), settings.build().make()
    env, other = RemoteEnv(workers), RemoteEnv(workers)
    for copy in (env, here):
        copy.reset(task)
        copy.step("switch on the lamp")
    state = env.snapshot()
    seen = other.restore(state)
    assert other.step("go left") == here.step("go left")
    assert other.distance() == here.distance()  # asked of the new worker
    assert workers.counts()["env_workers/resumed"] == 1
    assert workers.counts()["env_workers/replayed_turns"] == 1
    assert other.restore(state) == seen


def test_where_nothing_can_be_replayed_the_episode_ends_with_a_reason_and_a_count() -> None:
    settings = ToySettings(slip=0.3, snapshots=False)
    workers = workers_for(settings, once("step", 10))
    episodes = play(workers, settings)
    lost = [e for e in episodes if e.stop == StopReason.ENV_ERROR]
    assert len(lost) == 1
    assert "worker died in step" in lost[0].error
    assert "not deterministic" in lost[0].error
    assert lost[0].success is None
    counts = workers.counts()
    assert (counts["env_workers/lost"], counts["env_workers/resumed"]) == (1, 0)


def test_an_action_that_kills_every_worker_costs_its_episode_only() -> None:
    class Poisoned(EnvServer):
        def _step(self, action: str):
            if self._suite.tasks("train").index(self.task) == 1:
                raise SystemExit
            return super()._step(action)

        def _reset(self, task):
            self.task = task
            return super()._reset(task)

    class Handle(FakeHandle):
        def call(self, method, arguments, seconds):
            try:
                return super().call(method, arguments, seconds)
            except SystemExit:
                self.dead = True
                raise WorkerDied("signal 11") from None

    settings = ToySettings()
    capabilities = settings.build().capabilities
    workers = EnvWorkers(
        lambda: Handle(settings, lambda *_: False, Poisoned), capabilities, count=2, seconds=5.0
    )
    episodes = play(workers, settings)
    assert [e.stop == StopReason.ENV_ERROR for e in episodes] == [False, True, False, False]
    assert "died twice in step" in episodes[1].error
    assert workers.counts()["env_workers/lost"] == 2


def test_a_new_worker_that_answers_otherwise_is_not_believed() -> None:
    made = []

    class Forgetful(EnvServer):
        def _step(self, action: str):
            step = super()._step(action)
            return step if len(made) == 1 else type(step)(step.observation, step.reward + 1, step.done)

    settings = ToySettings()
    capabilities = settings.build().capabilities
    dies = once("step", 4)
    workers = EnvWorkers(
        lambda: (made.append(1), FakeHandle(settings, dies, Forgetful))[1], capabilities, count=1, seconds=5.0
    )
    FakeHandle.calls = 0
    env = RemoteEnv(workers)
    env.reset(settings.build().tasks("train")[0])
    env.step("go left")
    env.step("go left")
    with pytest.raises(WorkerLost, match="the answer to turn 0 came out otherwise"):
        env.step("go left")


def test_a_call_that_hangs_ends_the_episode_and_the_worker() -> None:
    hangs = [True]

    class Hanging(FakeHandle):
        def call(self, method, arguments, seconds):
            if method == "step" and hangs:
                raise TimeoutError
            return super().call(method, arguments, seconds)

    settings = ToySettings()
    capabilities = settings.build().capabilities
    workers = EnvWorkers(lambda: Hanging(settings, lambda *_: False), capabilities, count=1, seconds=5.0)
    (episode,) = play(workers, settings, 1)
    assert episode.stop == StopReason.TIME_OUT
    assert episode.error == "step took longer than rollout.env_seconds (5.0) in its worker, which was ended"
    assert workers.counts()["env_workers/hung"] == 1
    hangs.clear()
    (episode,) = play(workers, settings, 1)
    assert episode.stop is not None
    assert episode.stop.has_outcome
    assert workers.counts()["env_workers/started"] == 2


class SlowToStart(FakeHandle):
    """Its first answer takes 12 s, by its own account."""

    left = 12.0

    def call(self, method, arguments, seconds):
        if seconds is not None and seconds < self.left:
            raise TimeoutError
        self.left = 0.0
        return super().call(method, arguments, seconds)


def test_the_start_of_a_worker_is_no_part_of_a_call() -> None:
    settings, dies = ToySettings(), once("step", 12)
    FakeHandle.calls = 0
    workers = EnvWorkers(
        lambda: SlowToStart(settings, dies), settings.build().capabilities, count=1, seconds=5.0
    )
    assert what_happened(play(workers, settings)) == what_happened(play(None, settings))
    counts = workers.counts()
    assert (counts["env_workers/started"], counts["env_workers/lost"]) == (2, 1)
    assert (counts["env_workers/resumed"], counts["env_workers/hung"]) == (1, 0)


def test_a_worker_that_never_starts_is_told_as_such() -> None:
    class Never(SlowToStart):
        left = 1e9

    settings = ToySettings()
    workers = EnvWorkers(
        lambda: Never(settings, lambda *_: False), settings.build().capabilities, count=1, seconds=5.0
    )
    (episode,) = play(workers, settings, 1)
    assert episode.stop == StopReason.ENV_ERROR
    assert episode.error == "a worker did not start and make its environment within 300 s"
    assert workers.counts()["env_workers/hung"] == 1


def test_copies_that_are_given_up_never_make_more_workers_than_there_may_be() -> None:
    """Every third step fails, and to close a copy takes a while; its worker is then used again."""
    alive: list[int] = []
    steps: list[int] = []

    class Failing(EnvServer):
        def _step(self, action: str):
            alive.append(len(workers._all))
            steps.append(1)
            if len(steps) % 3 == 0:
                raise EnvError("boom")
            return super()._step(action)

        def _close(self) -> None:
            time.sleep(0.02)
            super()._close()

    settings = ToySettings()
    workers = workers_for(settings, kind=Failing)
    episodes = play(workers, settings, 16)
    assert [e.error for e in episodes if e.stop == StopReason.ENV_ERROR].count("boom") > 2
    assert max(alive) == 2
    assert workers.counts()["env_workers/started"] == 2


def test_branches_whose_actions_are_tried_do_not_wait_for_each_other() -> None:
    """Each branch has a copy and asks for another one; there are two in all."""
    settings = ToySettings(snapshots=False)
    branches, tally = collect(settings, workers_for(settings, count=2))
    alone, expected = collect(settings, None)
    assert what_happened(branches) == what_happened(alone)
    assert tally == expected
    assert sum(len(branch.turns) > 1 for branch in branches) > 2


def test_states_sent_by_workers_are_brought_back_in_this_process_as_well() -> None:
    """The oracle teacher has a copy of its own here, and branches and verification have theirs in workers."""
    settings = ToySettings(snapshots=True)
    branches, tally = collect(settings, workers_for(settings, count=2))
    alone, expected = collect(settings, None)
    assert what_happened(branches) == what_happened(alone)
    assert tally == expected
    assert tally["reports"] > 2
    assert tally["verify/verified"] > 2
    (episode,) = play(workers_for(settings), settings, 1)
    assert all(isinstance(turn.snapshot, Sent) for turn in episode.turns)
    measure_distances(settings.build().make(), episode)
    assert episode.distances_known


def test_a_worker_takes_snapshots_of_copies_in_this_process() -> None:
    settings = ToySettings()
    here, there = settings.build().make(), RemoteEnv(workers_for(settings))
    here.reset(settings.build().tasks("train")[0])
    seen = here.step("switch on the lamp").observation
    assert there.restore(here.snapshot()) == seen
    assert there.step("go left") == here.step("go left")


def test_no_more_copies_are_lent_than_there_are_workers() -> None:
    settings = ToySettings()
    workers, order = workers_for(settings, count=2), list[str]()

    async def go():
        pool = EnvPool(settings.build(), Sampler(ScriptedPolicy(random_agent())), 5.0, workers)
        first, second = await pool.borrow(), await pool.borrow()

        async def third():
            copy = await pool.borrow()
            order.append("lent")
            pool.give_back(copy)

        waiting = asyncio.create_task(third())
        await asyncio.sleep(0.05)
        order.append("given back")
        pool.give_back(first, broken=True)
        await waiting
        pool.give_back(second)
        await pool.close()

    asyncio.run(go())
    assert order == ["given back", "lent"]
    assert workers.counts()["env_workers/started"] == 2
    assert len(play(workers, settings, 12)) == 12


def test_workers_are_used_again_in_the_next_step_and_ended_at_last() -> None:
    settings = ToySettings()
    workers = workers_for(settings)
    play(workers, settings)
    play(workers, settings)
    assert workers.counts()["env_workers/started"] == 2
    handles = list(workers._all)
    workers.close()
    workers.close()
    assert all(handle.dead for handle in handles)


def test_a_call_that_meets_the_end_of_its_worker_starts_no_other_one() -> None:
    """A call that was given up may still be under way when the run ends."""
    settings = ToySettings()
    workers = workers_for(settings)
    env = RemoteEnv(workers)
    env.reset(settings.build().tasks("train")[0])
    workers.close()
    with pytest.raises(WorkerLost, match="the environment workers of this run are closed"):
        env.step("go left")
    assert workers.counts()["env_workers/started"] == 1
    assert workers._all == []


class Locked(ToyEnv):
    """Its snapshots cannot leave the process."""

    def snapshot(self):
        return threading.Lock()


class LockedServer(EnvServer):
    def __init__(self, settings: ToySettings) -> None:
        super().__init__(settings)
        self._suite = ToySuite(settings, Locked)


def test_a_state_that_cannot_be_sent_comes_back_by_replay_or_not_at_all() -> None:
    task = toy_suite().tasks("train")[0]
    env = RemoteEnv(workers_for(ToySettings(), kind=LockedServer))
    env.reset(task)
    assert env.snapshot() is None
    env = RemoteEnv(workers_for(ToySettings(slip=0.3), kind=LockedServer))
    env.reset(task)
    with pytest.raises(EnvError, match=r"set rollout\.env_workers=threads"):
        env.snapshot()


def test_errors_of_the_environment_are_told_as_text() -> None:
    settings = ToySettings(fault="crash")
    env = RemoteEnv(workers_for(settings))
    env.reset(settings.build().tasks("train")[0])
    env.step("go left")
    env.step("go left")
    with pytest.raises(EnvError, match="RuntimeError: the corridor collapsed"):
        env.step("go left")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"env_workers": "ray"}, "set env_seconds"),
        ({"env_worker_count": 8}, "env_worker_count=8 is for env_workers=ray"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RolloutSettings(**changes)


def test_without_ray_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    settings = RolloutSettings(env_workers="ray", env_seconds=60)
    with pytest.raises(ConfigError, match=r"pip install 'turnpoint\[ray\]'"):
        start_workers(ToySettings(), toy_suite().capabilities, settings)


def test_a_pool_without_workers_is_as_before() -> None:
    suite = toy_suite()

    async def go():
        pool = EnvPool(suite, Sampler(ScriptedPolicy(random_agent())), None)
        async with pool.lend() as one, pool.lend() as two:
            await one.reset(suite.tasks("train")[0])
            await two.reset(suite.tasks("train")[1])
        await pool.close()

    asyncio.run(go())


def test_hundreds_of_episodes_on_workers_that_keep_dying_are_those_of_this_process() -> None:
    """Every 37th call kills its worker; 200 episodes share 12 workers, and not a token is different."""
    settings = ToySettings(train_tasks=200, max_turns=4)
    deaths: list[int] = []

    def dies(number: int, method: str) -> bool:
        hit = number % 37 == 36 and method != "close"
        deaths.extend([number] * hit)
        return hit

    workers = workers_for(settings, dies, count=12)
    assert what_happened(play(workers, settings, 200)) == what_happened(play(None, settings, 200))
    counts = workers.counts()
    assert counts["env_workers/lost"] == len(deaths) > 20
    assert counts["env_workers/resumed"] > 20
    assert counts["env_workers/started"] <= 12 + counts["env_workers/lost"]
