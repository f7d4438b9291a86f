"""Answers kept on disk: found again, told apart, never mixed up, and no loss where the file is not as it should be."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.records import Message
from turnpoint.teachers.cache import TeacherCache, key_of
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.teachers.scoring.http import HttpScoring, HttpScoringSettings
from turnpoint.testing import FakeEndpoint, Request, Scripted
from turnpoint.testing.fake_scorer import Scorer, scores
from turnpoint.testing.scripted_policy import CharTokenizer

ASK = (Message("user", "what now?"),)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def cache_at(path: Path, most: int = 10_000) -> TeacherCache:
    return TeacherCache(path, "teacher", most)


def key(text: str) -> bytes:
    return key_of("test", {}, text)


# ---- the file ---------------------------------------------------------------------------------


def test_answers_survive_closing_and_are_counted(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "deep" / "c.sqlite")
    assert cache.get(key("a")) is None
    cache.put(key("a"), b"one")
    cache.put(key("a"), b"two")
    assert cache.get(key("a")) == b"two"
    cache.close()
    assert cache.get(key("a")) == b"two", "a closed cache opens again"
    assert cache_at(cache.path).get(key("a")) == b"two"
    assert cache.metrics() == {"cache_hits": 2, "cache_misses": 1, "cache_evicted": 0, "cache_faults": 0}


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "c.sqlite", most=1100)
    for name in "abc":
        cache.put(key(name), bytes(300))
    assert cache.get(key("a")) is not None
    cache.put(key("d"), bytes(300))
    assert [cache.get(key(name)) is not None for name in "abcd"] == [True, False, True, True]
    assert cache.counts["evicted"] == 1
    cache.put(key("e"), bytes(2000))
    assert cache.get(key("e")) is None, "larger than the whole cache"
    assert cache.get(key("a")) is not None
    with sqlite3.connect(cache.path) as db:
        total, size = db.execute("SELECT (SELECT bytes FROM total), sum(size) FROM answers").fetchone()
    assert total == size <= 1100


@pytest.mark.parametrize("what", ["text", "database", "damaged", "folder", "newer"])
def test_files_that_are_no_cache_are_refused_and_left_alone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "c.sqlite"
    if what == "text":
        path.write_text("my notes, which are longer than a header")
    elif what == "database":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE mine (x)")
    elif what == "folder":
        path.mkdir()
    else:
        cache = cache_at(path, most=10**7)
        for i in range(100):
            cache.put(key(str(i)), bytes(3000))
        cache.close()
        data = bytearray(path.read_bytes())
        if what == "damaged":
            data[4096:40960] = b"\xff" * 36864
        else:
            data[60:64] = (99).to_bytes(4, "big")
        path.write_bytes(data)
    before = path.read_bytes() if path.is_file() else b""
    message = {
        "text": "is no cache of teachers' answers; it was left as it is",
        "database": "a database of another program; it was left as it is",
        "damaged": "is damaged or locked.*nothing in it was changed: move the file away",
        "folder": "cannot be written",
        "newer": "has format 99, this release reads 1",
    }[what]
    with pytest.raises(ConfigError, match=f"teacher.cache.*{message}"):
        cache_at(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_damage_during_a_run_costs_the_saving_and_nothing_else(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "c.sqlite")
    cache.put(key("a"), b"one")
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE answers SET value = ?", (b"12345678two",))
    assert cache.get(key("a")) is None, "its checksum does not match"
    with sqlite3.connect(cache.path) as db:
        db.execute("DROP TABLE answers")
    with pytest.warns(RuntimeWarning, match=r"cache .* cannot be used .*; the teacher is asked instead"):
        cache.get(key("a"))
    cache.put(key("b"), b"x")
    assert cache.get(key("b")) is None
    assert cache.counts["faults"] == 3


WORK = """
import sys
from pathlib import Path
from turnpoint.teachers.cache import TeacherCache, key_of
cache = TeacherCache(Path(sys.argv[1]), "teacher", 10**7)
for i in range(40):
    key = key_of("test", {}, i)
    found = cache.get(key)
    assert found in (None, str(i).encode()), found
    cache.put(key, str(i).encode())
    cache.put(key_of("own", {}, [sys.argv[2], i]), b"mine")
assert all(cache.get(key_of("own", {}, [sys.argv[2], i])) == b"mine" for i in range(40))
assert not cache.counts["faults"]
cache.close()
"""


def test_several_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    workers = [subprocess.Popen([sys.executable, "-c", WORK, path, str(n)]) for n in range(3)]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0]
    with sqlite3.connect(path) as db:
        assert db.execute(
            "SELECT count(*), sum(size) = (SELECT bytes FROM total) FROM answers"
        ).fetchone() == (160, 1)


# ---- naming teachers --------------------------------------------------------------------------


def naming(endpoint: FakeEndpoint, path: Path, **settings: Any) -> HttpTeacher:
    data = {"base_url": endpoint.url, "model": "fake-model", "backoff": 0.01, "cache": str(path)}
    return HttpTeacher(HttpTeacherSettings.model_validate(data | settings))


async def answers(teacher: HttpTeacher, times: int) -> list[str]:
    given = [await teacher.complete(ASK) for _ in range(times)]
    await teacher.close()
    return given


class Counting:
    """An endpoint whose answers are numbered."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: Request) -> Scripted:
        self.calls += 1
        return Scripted(f"answer {self.calls}")


def test_an_answer_is_bought_once_and_free_afterwards(tmp_path: Path) -> None:
    with FakeEndpoint(Counting()) as endpoint:
        first = naming(endpoint, tmp_path / "c", budget={"tokens": 4}, price={"prompt": 1.0})
        assert asyncio.run(answers(first, 3)) == ["answer 1"] * 3
        assert first.spending.stops() is not None, "what is known is given although the budget is used up"
        again = naming(endpoint, tmp_path / "c")
        assert asyncio.run(answers(again, 2)) == ["answer 1"] * 2
        assert len(endpoint.requests) == 1
    assert {k: first.metrics()[k] for k in ("cache_hits", "cache_misses", "prompt_tokens", "requests")} == {
        "cache_hits": 2, "cache_misses": 1, "prompt_tokens": 2, "requests": 1,
    }  # fmt: skip
    assert (again.metrics()["prompt_tokens"], again.spending.prompt_tokens) == (0, 0)
    spared = ("cached_requests", "cached_prompt_tokens", "cached_completion_tokens")
    assert [again.metrics()[name] for name in spared] == [2, 4, 4]
    assert first.metrics()["cached_cost"] == pytest.approx(4e-6)
    assert "cost" in first.metrics()


@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 7},
        {"extra_body": {"seed": 3}},
        {"revision": "b"},
        {"temperature": 0.1},
        {"reply_format": "json_object"},
    ],
)
def test_other_settings_have_other_answers(tmp_path: Path, other: dict[str, Any]) -> None:
    question = (Message("user", "<action>...</action>"),)
    with FakeEndpoint(Counting()) as endpoint:
        first = naming(endpoint, tmp_path / "c", revision="a")
        second = naming(endpoint, tmp_path / "c", **({"revision": "a"} | other))
        assert asyncio.run(first.complete(question)) == "answer 1"
        assert asyncio.run(second.complete(question)) == "answer 2"


def test_a_revision_takes_the_place_of_the_address(tmp_path: Path) -> None:
    for revision, expected in ((None, "answer 1"), ("v1", "answer 2")):
        script = Counting()
        for _ in range(2):
            with FakeEndpoint(script) as endpoint:  # at another port each time
                assert asyncio.run(answers(naming(endpoint, tmp_path / str(revision), revision=revision), 1))
        assert script.calls == (2 if revision is None else 1), expected


def test_other_weights_in_the_listing_are_another_model(tmp_path: Path) -> None:
    script = Counting()
    for root in ("/weights/a", "/weights/a", "/weights/b"):
        listing = [{"id": "fake-model", "root": root, "created": script.calls}]
        with FakeEndpoint(script, models=listing) as endpoint:
            teacher = naming(endpoint, tmp_path / "c", revision="v1", probe="reach")

            async def go(teacher: HttpTeacher = teacher) -> list[str]:
                await teacher.check()
                return await answers(teacher, 1)

            asyncio.run(go())
    assert script.calls == 2


def test_sampled_answers_stay_different_and_repeat_in_order(tmp_path: Path) -> None:
    with FakeEndpoint(Counting()) as endpoint:
        first = naming(endpoint, tmp_path / "c", temperature=0.7)
        assert asyncio.run(answers(first, 3)) == ["answer 1", "answer 2", "answer 3"]
        drawn = first.draw(1)
        assert asyncio.run(drawn.complete(ASK)) == "answer 4"
        again = naming(endpoint, tmp_path / "c", temperature=0.7)
        assert asyncio.run(answers(again, 2)) == ["answer 1", "answer 2"]
        resumed = naming(endpoint, tmp_path / "c", temperature=0.7)
        resumed.load_state_dict(again.state_dict())
        assert asyncio.run(answers(resumed, 1)) == ["answer 3"]
        assert asyncio.run(resumed.draw(1).complete(ASK)) == "answer 4"
        seeded = naming(endpoint, tmp_path / "c", temperature=0.7, extra_body={"seed": 1})
        assert asyncio.run(answers(seeded, 2)) == ["answer 5"] * 2, "a seed repeats its answer"
        assert asyncio.run(seeded.draw(1).complete(ASK)) == "answer 6"
        assert endpoint.requests[-1].body["seed"] == 2


def test_refusals_and_failures_are_not_kept(tmp_path: Path) -> None:
    declined = Scripted(body={"choices": [{"message": {"content": None, "refusal": "no"}}]})
    with FakeEndpoint([declined, Scripted("bad", status=400), "fine"]) as endpoint:
        teacher = naming(endpoint, tmp_path / "c")
        for _ in range(2):
            with pytest.raises(RuntimeError):
                asyncio.run(teacher.complete(ASK))
        assert asyncio.run(answers(teacher, 2)) == ["fine", "fine"]


# ---- scoring teachers -------------------------------------------------------------------------


def scoring(endpoint: FakeEndpoint, path: Path | None, **settings: Any) -> HttpScoring:
    kept = {"cache": str(path)} if path else {}
    data = {"base_url": endpoint.url, "model": "fake-model", "backoff": 0.01} | kept | settings
    return HttpScoring(HttpScoringSettings.model_validate(data), CharTokenizer())


def episode_and_turns() -> Any:
    from turnpoint.testing import toy_suite
    from turnpoint.testing.harness import make_rollouts, random_agent
    from turnpoint.testing.scripted_policy import ScriptedPolicy

    suite = toy_suite(max_turns=3)
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()))
    return asyncio.run(rollouts.play(suite.tasks("train")[0], 0))


def test_scores_are_bitwise_those_of_the_server(tmp_path: Path) -> None:
    episode = episode_and_turns()

    async def score(teacher: HttpScoring, times: int = 1) -> list[Any]:
        given = [await teacher.score(episode, episode.turns) for _ in range(times)]
        await teacher.close()
        return given

    with FakeEndpoint(Scorer()) as endpoint:
        (plain,) = asyncio.run(score(scoring(endpoint, None)))
        asked = len(endpoint.requests)
        first = scoring(endpoint, tmp_path / "c")
        one, two = asyncio.run(score(first, 2))
        again = scoring(endpoint, tmp_path / "c")
        (three,) = asyncio.run(score(again))
        whole = len(episode.turns[-1].prompt_ids) + len(episode.turns[-1].response_ids)
        for teacher, read in ((first, whole), (again, 0)):
            assert teacher.metrics()["read_tokens"] == read
            assert teacher.metrics()["cached_read_tokens"] == whole
        for given in (one, two, three):
            for a, b in zip(plain, given, strict=True):
                assert (a.turn, a.start, a.token_ids) == (b.turn, b.start, b.token_ids)
                assert a.logprobs.tobytes() == b.logprobs.tobytes()
        assert len(endpoint.requests) == 3 * asked - 1, (
            "of the two later ones only the checks, and one episode once"
        )
        turn = plain[0]
        expected = scores([*episode.turns[0].prompt_ids, *turn.token_ids])[turn.start - 1 :]
        np.testing.assert_array_equal(turn.logprobs, expected)
        other = scoring(endpoint, tmp_path / "c", extra_body={"add_special_tokens": False})
        asyncio.run(score(other))
        assert other.metrics()["cache_hits"] == 0


def test_a_model_that_changed_behind_its_name_is_noticed(tmp_path: Path) -> None:
    class Moved(Scorer):
        def _values(self, ids: list[int]) -> Any:
            values, tops = super()._values(ids)
            return [v if v is None else v - 0.3 for v in values], tops

    with FakeEndpoint(Scorer()) as endpoint:
        teacher = scoring(endpoint, tmp_path / "c", revision="v1")
        asyncio.run(teacher.check())
    with FakeEndpoint(Moved()) as endpoint:
        with pytest.raises(
            ConfigError, match=r"not the one whose scores are in scoring\.cache .* up to 0\.3 nats"
        ):
            asyncio.run(scoring(endpoint, tmp_path / "c", revision="v1").check())
        asyncio.run(scoring(endpoint, tmp_path / "c", revision="v2").check())
