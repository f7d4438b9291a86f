from __future__ import annotations

import asyncio

import pytest

from turnpoint.teachers.scoring.batcher import Batcher


def run(coroutine):
    return asyncio.run(coroutine)


def test_what_becomes_ready_together_is_one_batch_in_order_of_keys() -> None:
    seen: list[list[int]] = []

    def work(items: list[int]) -> list[int]:
        seen.append(items)
        return [item * 10 for item in items]

    batcher = Batcher(work, 100)

    async def one(i: int) -> int:
        for _ in range(i % 3):  # some take a few rounds longer
            await asyncio.sleep(0)
        return await batcher.do(f"{9 - i}", i)

    async def go():
        return await asyncio.gather(*(one(i) for i in range(10)))

    assert run(go()) == [i * 10 for i in range(10)]
    assert seen == [list(reversed(range(10)))]


def test_no_batch_is_larger_than_the_most() -> None:
    seen: list[int] = []

    def work(items: list[int]) -> list[int]:
        seen.append(len(items))
        return items

    batcher = Batcher(work, 4)

    async def go():
        return await asyncio.gather(*(batcher.do(str(i), i) for i in range(10)))

    assert run(go()) == list(range(10))
    assert sum(seen) == 10
    assert max(seen) == 4


def test_a_failure_reaches_every_item_of_its_batch_and_the_next_batch_works() -> None:
    def work(items: list[int]) -> list[int]:
        if 3 in items:
            raise ValueError("three")
        return items

    batcher = Batcher(work, 10)

    async def go():
        results = await asyncio.gather(*(batcher.do(str(i), i) for i in range(5)), return_exceptions=True)
        return results, await batcher.do("9", 9)

    results, later = run(go())
    assert all(isinstance(result, ValueError) for result in results)
    assert later == 9


def test_works_in_one_event_loop_after_another() -> None:
    batcher = Batcher(lambda items: items, 10)
    for i in range(3):
        assert run(batcher.do("x", i)) == i


def test_a_cancelled_item_is_left_out() -> None:
    seen: list[list[int]] = []

    def work(items: list[int]) -> list[int]:
        seen.append(items)
        return items

    batcher = Batcher(work, 10)

    async def go():
        first, second = asyncio.create_task(batcher.do("a", 1)), asyncio.create_task(batcher.do("b", 2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 2
        with pytest.raises(asyncio.CancelledError):
            await first

    run(go())
    assert seen == [[2]]
