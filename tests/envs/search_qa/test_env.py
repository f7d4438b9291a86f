"""The loop of search and answer, its rewards, its oracle, and the contract."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.envs import EnvError
from turnpoint.envs.check import check_env
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.retrieval import Passage
from turnpoint.envs.search_qa import text
from turnpoint.envs.search_qa.answers import exact_match, holds, normalise
from turnpoint.envs.search_qa.env import SearchQAEnv
from turnpoint.envs.search_qa.prepare import FILE, prepare, write_data
from turnpoint.envs.search_qa.settings import SearchQASettings
from turnpoint.envs.search_qa.suite import SearchQASuite
from turnpoint.records import Task

LONG = "word " * 500


@pytest.fixture(scope="module")
def world() -> SearchQASuite:
    return SearchQASettings().build()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Two passages in Search-R1's form, a question of each known form."""
    source = tmp_path / "source"
    source.mkdir()
    passages = [
        {"id": "7", "contents": f'"Ada Lovelace"\nAda Lovelace wrote programs. {LONG}'},
        {"id": "8", "title": "Paris", "contents": "Paris is the capital of France."},
    ]
    questions = [
        {
            "dataset": "nq",
            "question": "Who wrote programs?",
            "answers": ["Ada Lovelace", "Lovelace"],
            "split": "train",
        },
        {
            "data_source": "hotpotqa",
            "question": "What is the capital of France?",
            "golden_answers": ["Paris"],
            "split": "test",
        },
    ]
    (source / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)))
    (source / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n\n")
    return Path(prepare(source, tmp_path / "out")["data_file"])


def test_a_search_shows_passages_and_an_answer_ends(own: Path) -> None:
    suite = SearchQASettings(data_file=str(own)).build()
    env, task = suite.make(), suite.tasks("train")[0]
    assert (task.type, task.data["answers"]) == ("nq", ["Ada Lovelace", "Lovelace"])
    assert env.reset(task).text == "Question: Who wrote programs?"
    step = env.step("I will look. <search> programs of France </search> and more")
    assert (step.reward, step.done, step.success, step.effective) == (0.0, False, None, True)
    shown = step.observation.text
    assert shown.startswith(
        '<information>Doc 1(Title: "Paris") Paris is the capital of France.\nDoc 2(Title: "Ada Love'
    )
    assert len(shown.split('Lovelace") ')[1].removesuffix("</information>")) in (1023, 1024)
    assert (
        env.step("<search>zebra</search>").observation.text
        == "<information>No passage was found.</information>"
    )
    step = env.step("<answer>the LOVELACE!</answer>")
    assert (step.reward, step.done, step.success) == (10.0, True, True)
    assert env.step("<search>x</search>").effective is False


def test_a_wrong_answer_earns_nothing_and_a_malformed_action_costs(world: SearchQASuite) -> None:
    env = world.make()
    env.reset(world.tasks("train")[0])
    before = env.snapshot()
    for action in (
        "",
        "Arvik",
        "<search>Arvik",
        "<search> </search>",
        "<answer></answer>",
        "</search>x<search>",
    ):
        step = env.step(action)
        assert (step.reward, step.done, step.effective) == (-0.5, False, False)
        assert step.observation.text == text.MALFORMED
        assert env.snapshot()._replace(said=before.said) == before
    step = env.step("<answer>nobody knows</answer>")
    assert (step.reward, step.done, step.success, env.distance()) == (0.0, True, False, None)


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("<search>a</search><answer>b</answer>", ("search", "a")),
        ("<answer>b</answer> <search>a</search>", ("answer", "b")),
        ("<search><answer>b</answer>", ("answer", "b")),
        ("<answer>a\nb</answer>", ("answer", "a\nb")),
        ("<SEARCH>a</SEARCH>", None),
    ],
)
def test_the_first_complete_tag_counts(action: str, parsed: tuple[str, str] | None) -> None:
    assert text.parse(action) == parsed


@given(st.text())
def test_any_action_is_read(action: str) -> None:
    text.parse(action)
    wrapped = text.parse(text.answer(action))
    assert wrapped is None or action.strip().startswith(wrapped.argument)


def test_answers_are_compared_as_in_the_field() -> None:
    assert normalise(" The  Beatles' (album), a-ha ") == "beatles album aha"
    assert exact_match("20th June, 1837", ["20th june 1837"])
    assert not exact_match("", ["", "the"])
    assert not exact_match("1837", ["20 June 1837"])
    assert holds("It was in Paris, France.", "paris")
    assert not holds("Parisian", "Paris")


@pytest.mark.parametrize(
    "changes", [{}, {"actions": "listed", "world": {"people": 3}}, {"topk": 1, "max_turns": 6}]
)
def test_the_contract_is_kept(changes: dict[str, Any]) -> None:
    report = check_env(SearchQASettings(**changes).build(), quick=True, tasks=3)
    assert report.ok, report.failures
    skipped = {check.name for check in report.checks if check.skipped}
    assert skipped == (set() if "actions" in changes else {"admissible actions", "vocabulary"})


def test_the_observer_finds_what_the_world_tells(world: SearchQASuite) -> None:
    env, right = world.make(), 0
    tasks = [*world.tasks("train"), *world.tasks("valid")]
    for task in tasks:
        env.reset(task)
        for _ in range(world.max_turns):
            step = env.step(env.best_actions("observed")[0])
            if step.done:
                break
        right += bool(step.success)
    assert right >= 0.95 * len(tasks)


def test_an_observer_never_answers_before_a_passage_holds_the_answer(world: SearchQASuite) -> None:
    env = world.make()
    for task in world.tasks("train")[:40]:
        env.reset(task)
        seen = ""
        for _ in range(world.max_turns):
            action = env.best_actions("observed")[0]
            if action.startswith("<answer>"):
                assert holds(seen, task.data["answers"][0])
                break
            seen += env.step(action).observation.text


def test_settings_and_data_that_do_not_fit_are_refused(own: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="would be ignored"):
        SearchQASettings(data_file=str(own), world={"people": 3})
    with pytest.raises(ValueError, match="set actions: open"):
        SearchQASettings(data_file=str(own), actions="listed")
    with pytest.raises(EnvDataError, match="no questions of 'popqa'; there are hotpotqa, nq"):
        SearchQASettings(data_file=str(own), sets=("popqa",)).build()
    with pytest.raises(EnvDataError, match="split 'valid'"):
        SearchQASettings(data_file=str(own), sets=("nq",)).build()
    with pytest.raises(EnvDataError, match="no folder"):
        prepare(own, tmp_path)
    (tmp_path / "questions.jsonl").write_text('{"question": "x"}')
    with pytest.raises(EnvDataError, match="corpus"):
        prepare(tmp_path, tmp_path)
    (tmp_path / "corpus.jsonl").write_text('{"contents": "t\\nx"}')
    with pytest.raises(EnvDataError, match="needs 'question' and 'answers'"):
        prepare(tmp_path, tmp_path)
    env = SearchQASettings().build().make()
    with pytest.raises(EnvError, match="no question"):
        env.reset(Task("mine", "search_qa", "Who?"))


def test_splits_go_by_their_names_and_others_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    known = ("valid", "validation", "dev", "test")
    rows = [
        {"question": f"{name} {number}?", "answers": ["x"], "split": name}
        for name in ("train", *known, None)
        for number in range(20)
    ]
    (source / "corpus.jsonl").write_text(json.dumps({"contents": "t\nx"}))
    (source / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    suite = SearchQASettings(data_file=prepare(source, tmp_path)["data_file"]).build()
    train, valid = (Counter(t.instruction.split()[0] for t in suite.tasks(s)) for s in ("train", "valid"))
    assert train.pop("None") + valid.pop("None") == 20  # divided by a hash
    assert train == {"train": 20}
    assert valid == dict.fromkeys(known, 20)
    (source / "questions.jsonl").write_text('{"question": "q", "answers": ["x"], "split": "dev_hard"}')
    with pytest.raises(EnvDataError, match="split 'dev_hard'; use train, valid, validation, dev, test"):
        prepare(source, tmp_path / "other")


def test_a_split_of_an_older_file_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {"question": "q", "answers": ["x"], "set": "s", "id": "", "split": "dev_hard"}
    store = write_data([], [odd], None, {})
    monkeypatch.setattr("turnpoint.envs.search_qa.suite._file", lambda settings: store)
    with pytest.raises(EnvDataError, match="split 'dev_hard'"):
        SearchQASettings(data_file="older.sqlite").build()


class Found:
    """Finds documents of a server of the protocol, in their order."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = list(documents)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        return [[Passage.of(self.documents.pop(0))] for _ in queries]

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("name", [{}, {"id": None}, {"id": ""}])
def test_documents_without_an_id_are_told_apart(world: SearchQASuite, name: dict[str, Any]) -> None:
    ada, paris = (
        {**name, "contents": '"Ada"\nShe wrote programs.'},
        {**name, "contents": '"Paris"\nA capital.'},
    )
    env = SearchQAEnv(world.settings, world.capabilities, Found(ada, ada, paris))
    env.reset(Task("t", "search_qa", "Who?", data={"answers": ["Paris"]}))
    keys = [env.step(f"<search>{query}</search>").observation.state_key for query in ("a", "b", "c")]
    assert [passage.title for passage in env.snapshot().progress.passages] == ["Ada", "Paris"]
    assert keys[0] == keys[1] != keys[2]
    assert env.best_actions("observed") == [text.answer("Paris")]


def test_an_id_of_zero_is_an_id() -> None:
    assert Passage.of({"id": 0, "contents": "x"}).id == "0"


def test_real_questions_find_their_passages(shared_data: Path, tmp_path: Path) -> None:
    facts = SearchQASettings.prepare(shared_data / "search_qa", tmp_path)
    assert facts["sets"] == {
        "2wiki": 600, "bamboogle": 75, "hotpotqa": 600, "musique": 600, "nq": 600, "popqa": 600, "triviaqa": 600,
    }  # fmt: skip
    suite = SearchQASettings(data_file=str(tmp_path / FILE)).build()
    env, found = suite.make(), {"nq": [0, 0], "triviaqa": [0, 0], "popqa": [0, 0]}
    for task in suite.tasks("train"):
        if task.type in found and found[task.type][1] < 100:
            env.reset(task)
            shown = env.step(text.search(task.instruction)).observation.text
            found[task.type][0] += any(holds(shown, answer) for answer in task.data["answers"])
            found[task.type][1] += 1
    rates = {name: hits / tried for name, (hits, tried) in found.items()}
    assert rates["nq"] > 0.45
    assert rates["triviaqa"] > 0.55
    assert rates["popqa"] > 0.25
