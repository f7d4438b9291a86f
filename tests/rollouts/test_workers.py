from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from turnpoint.rollouts.workers import Worker


def test_calls_run_in_order_in_one_thread_of_their_own() -> None:
    async def go():
        worker, seen = Worker("test"), []
        calls = [worker.start(lambda i=i: seen.append((i, threading.get_ident()))) for i in range(5)]
        await asyncio.gather(*calls)
        worker.stop()
        return seen

    seen = asyncio.run(go())
    assert [number for number, _ in seen] == [0, 1, 2, 3, 4]
    assert len({thread for _, thread in seen} - {threading.get_ident()}) == 1


@pytest.mark.parametrize("exit_call", [False, True])
def test_what_a_call_raises_reaches_who_awaits_it_and_the_thread_lives_on(exit_call: bool) -> None:
    async def go():
        worker = Worker("test")
        with pytest.raises(RuntimeError, match="SystemExit: 7") if exit_call else pytest.raises(KeyError):
            await (worker.start(sys.exit, 7) if exit_call else worker.start({}.__getitem__, 1))
        return await worker.start(lambda: "alive")

    assert asyncio.run(go()) == "alive"


def test_the_loop_may_end_while_a_call_hangs() -> None:
    release, ended = threading.Event(), threading.Event()

    async def go():
        worker = Worker("test")
        hung = worker.start(release.wait)
        behind = worker.start(ended.set)
        hung.cancel()
        worker.stop()
        return behind

    behind = asyncio.run(go())
    assert not behind.done()
    release.set()
    assert ended.wait(20)


def test_a_forgotten_worker_ends_its_thread() -> None:
    Worker("forgotten")
    threads = [thread for thread in threading.enumerate() if thread.name == "forgotten"]
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
