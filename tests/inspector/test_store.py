from __future__ import annotations

import random
from pathlib import Path

import pytest

from turnpoint.inspector.store import find_sources, load, plan
from turnpoint.records import Observation, RecordError

from .samples import make_episode, write_episodes


def test_a_run_folder_has_evaluations_and_training_steps(run_folder: Path) -> None:
    sources = find_sources(run_folder)
    assert [(s.origin, s.step) for s in sources[:3]] == [("eval", 0), ("eval", 5), ("eval", 10)]
    assert [s.step for s in sources if s.origin == "train"] == list(range(1, 11))


def test_a_file_and_a_folder_of_files(run_folder: Path, tmp_path: Path) -> None:
    path = run_folder / "eval" / "step_000005.jsonl"
    assert [s.origin for s in find_sources(path)] == ["file"]
    assert len(find_sources(run_folder / "eval")) == 3
    with pytest.raises(RecordError, match="holds no episodes"):
        find_sources(tmp_path)
    with pytest.raises(RecordError, match="does not exist"):
        find_sources(tmp_path / "none")


def test_every_line_is_in_exactly_one_piece(run_folder: Path) -> None:
    made = plan(run_folder)
    refs = [(ref.path, ref.number) for piece in made.pieces for ref in piece.refs]
    assert len(refs) == len(set(refs)) == made.episodes
    assert made.episodes == sum(p.read_text().count("\n") for p in run_folder.glob("e*/*.jsonl"))
    assert len({piece.name for piece in made.pieces}) == len(made.pieces)
    assert not made.notes


def test_the_newest_steps_are_kept_where_not_everything_fits(run_folder: Path) -> None:
    made = plan(run_folder, most=45)
    assert made.episodes == 45
    kept = {(piece.source.origin, piece.source.step) for piece in made.pieces}
    assert kept == {("eval", 10), ("train", 10)}
    assert "left out" in made.notes[0]


def test_pieces_are_bounded_and_keep_their_names_when_a_file_grows(tmp_path: Path) -> None:
    rng, path = random.Random(1), tmp_path / "e.jsonl"
    episodes = [make_episode(rng, f"e{i}", turns=2) for i in range(150)]
    episodes[10].turns[0].observation = Observation("x" * 2_000_000)
    write_episodes(path, episodes[:140])
    before = plan(path).pieces
    assert all(len(piece.refs) <= 64 for piece in before)
    assert any(len(piece.refs) == 1 for piece in before)
    write_episodes(path, episodes[140:])
    after = plan(path).pieces
    assert before[:-1] == after[: len(before) - 1]


def test_places_in_a_piece_survive_an_unreadable_line(tmp_path: Path) -> None:
    rng, path = random.Random(1), tmp_path / "e.jsonl"
    write_episodes(path, [make_episode(rng, "a")])
    with path.open("a") as file:
        file.write('{"version": 1}\n')
    write_episodes(path, [make_episode(rng, "b")])
    loaded = load(plan(path).pieces[0], None)
    assert [(e["id"], e["p"]) for e in loaded.summaries] == [("a", 0), ("b", 2)]
    assert loaded.details[1] is None
    assert loaded.details[2]["id"] == "b"
    assert loaded.problems[0].startswith("e.jsonl:2:")
