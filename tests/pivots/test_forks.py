from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turnpoint.inspector.catalogue import Catalogue
from turnpoint.inspector.store import plan
from turnpoint.pivots.forks import ForkSession, branch_ids, find_episode, forks_file, save_branch
from turnpoint.pivots.intervene import OwnTurn, TypedTurn
from turnpoint.records import EpisodeWriter, RecordError, StopReason, read_episodes
from turnpoint.testing import toy_suite

from .tools import agent, lost_key, path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    with EpisodeWriter(folder / "eval" / "step_000004.jsonl") as writer:
        writer.write(lost_key())
        writer.write(path([2, 3, 3], "eval/other/0"))
    return folder


def fork(parent, turn: int, *taken, index: int = 0):
    rollouts, _ = agent(toy_suite(rooms=2, max_turns=12))

    async def go():
        session = ForkSession(rollouts, parent, turn, "t")
        await session.open()
        for one in taken:
            await session.take(one)
        return await session.finish(index)

    return asyncio.run(go())


def test_a_branch_lies_beside_its_parent_and_the_inspector_shows_it(run: Path) -> None:
    parent, file = find_episode([run / "eval" / "step_000004.jsonl"], "lost")
    ids = branch_ids(file)
    for index in range(2):
        branch = fork(parent, 2, TypedTurn("wait"), OwnTurn(), index=index)
        where = save_branch(branch, file, ids)
    assert where == run / "eval" / "step_000004.forks.jsonl"
    kept = read_episodes(where)
    assert len({episode.id for episode in kept}) == 2
    assert [t.reused for t in kept[0].turns[:4]] == [True, True, False, False]
    catalogue = Catalogue(plan(run))
    entry = next(e for e in catalogue.entries if e["id"] == "lost")
    assert len(catalogue.children(entry)) == 2
    assert catalogue.parent(catalogue.children(entry)[0]) is entry


def test_equal_ids_are_told_apart(run: Path) -> None:
    parent, file = find_episode([run / "eval" / "step_000004.jsonl"], "lost")
    ids = branch_ids(file)
    for _ in range(2):
        save_branch(fork(parent, 2), file, ids)
    assert len(branch_ids(file)) == 2


def test_episodes_are_found_by_the_end_of_their_id(run: Path) -> None:
    files = [run / "eval" / "step_000004.jsonl"]
    assert find_episode(files, "other/0")[0].id == "eval/other/0"
    with pytest.raises(RecordError, match="no episode is called 'nobody'"):
        find_episode(files, "nobody")
    with EpisodeWriter(files[0]) as writer:
        writer.write(path([1, 1], "train/other/0"))
    with pytest.raises(RecordError, match="2 episodes"):
        find_episode(files, "other/0")


def test_an_episode_of_several_files_is_no_choice_of_ours(run: Path) -> None:
    first, later = run / "eval" / "step_000004.jsonl", run / "eval" / "step_000008.jsonl"
    with EpisodeWriter(later) as writer:
        writer.write(path([2, 3, 3], "eval/other/0"))
    for wanted in ("eval/other/0", "other/0"):
        with pytest.raises(RecordError, match=r"step_000004\.jsonl, step_000008\.jsonl"):
            find_episode([later, first], wanted)
        assert find_episode([first], wanted)[1] == first


def test_branches_are_meant_where_nothing_else_ends_so(run: Path) -> None:
    parent = run / "eval" / "step_000004.jsonl"
    save_branch(path([1, 1], "lost/t2-0/other/0"), parent, set())
    assert find_episode([forks_file(parent), parent], "other/0")[0].id == "eval/other/0"
    assert find_episode([forks_file(parent), parent], "t2-0/other/0")[1] == forks_file(parent)


def test_a_branch_that_is_over_cannot_go_on() -> None:
    rollouts, _ = agent(toy_suite(rooms=2, max_turns=12))

    async def go():
        session = ForkSession(rollouts, lost_key(), 3, "t")
        await session.open()
        done = await session.take(TypedTurn("open chest"))
        assert done.stop == StopReason.SUCCESS
        assert await session.finish() is done
        with pytest.raises(ValueError, match="is over"):
            await session.take(OwnTurn())

    asyncio.run(go())


def test_branches_of_branches_stay_in_one_file() -> None:
    assert forks_file(Path("a/x.forks.jsonl")) == Path("a/x.forks.jsonl")
    assert forks_file(Path("a/x.jsonl")) == Path("a/x.forks.jsonl")
