from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnpoint.inspector import write_run_report
from turnpoint.records import Observation, StopReason

from .conftest import embedded, plain_text
from .samples import make_branch, make_episode, random, write_episodes, write_run


@pytest.fixture(scope="module")
def page(run_folder: Path) -> str:
    return write_run_report(run_folder).read_text(encoding="utf-8")


def evals(run_folder: Path) -> list[dict[str, Any]]:
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["kind"] == "eval"]


def test_it_says_what_was_run(page: str) -> None:
    text = plain_text(page)
    for words in (
        "pivotopd",
        "household",
        "oracle",
        "seed 3",
        "0.1.0",
        "torch 2.13.0",
        "ab" * 32,
        "10 of 10",
    ):
        assert words in text


def test_success_before_and_after_with_intervals(page: str, run_folder: Path) -> None:
    text, records = plain_text(page), evals(run_folder)
    for record in (records[0], records[-1]):
        for value in (record["success"], *record["by_type"].values()):
            assert (
                f"{100 * value['mean']:.1f}% [{100 * value['low']:.1f}%, {100 * value['high']:.1f}%]" in text
            )
    assert "before (step 0)" in text
    assert "after (step 10)" in text


def test_curves_table_stops_and_losses(page: str) -> None:
    for title in ("Success", "Reward of an episode", "Invalid and refused turns", "Seconds of a step"):
        assert f'aria-label="{title}"' in page
    assert page.count('class="band s0"') >= 1
    text = plain_text(page)
    assert "dropped_tokens/recovery 120 10 10" in text
    assert "teacher_failures/time_out 10 10 10" in text
    assert "pivots_skipped/unresolved 20 10 10" in text
    assert "max_turns" in text
    assert len(re.findall(r"<tr>(?:<td class=\"n\">)", page)) == 10


def test_episodes_are_bounded_and_branches_follow_their_parents(page: str) -> None:
    data = embedded(page)
    assert len(data["eval"]) == 40
    trains = [e for e in data["train"] if e["kind"] == "rollout"]
    branches = [e for e in data["train"] if e["kind"] == "recovery"]
    assert len(trains) == 60
    assert len({e["step"] for e in trains}) == 6
    assert branches
    known = {e["id"] for e in trains}
    assert all(branch["fork"][0] in known for branch in branches)
    turn = branches[0]["turns"][0]
    assert turn["hint"].startswith("Hint:")
    assert turn["gold"] == ["open box"]
    assert len(turn["tokens"]) == len(turn["signals"]["advantage"]) == turn["ntokens"]
    assert "".join(turn["tokens"][:-1]) == turn["response"][0]


def test_the_policy_allows_the_pages_own_script_and_style_only(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    allowed = policy.group(1).replace("&#39;", "'")
    assert allowed.startswith("default-src 'none'")
    assert "unsafe" not in allowed
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    styles = re.findall(r"<style>(.*?)</style>", page, re.S)
    assert len(scripts) == len(styles) == 1
    for text in (*scripts, *styles):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in allowed
    assert "<!--" not in scripts[0]
    assert not re.search(
        r"\b(src|href)=|style=\"|innerHTML|insertAdjacent|document\.write|https?://(?!www\.w3\.org/2000/svg)",
        page,
    )


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "<b>run</b>", steps=1, eval_tasks=2)
    attack = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp\u0000\u2028 & \"'"
    episode = make_episode(random.Random(1), attack, turns=3, text=attack)
    episode.turns[0].observation = Observation("x" * 1_000_000 + attack)
    episode.turns[1].response, episode.turns[1].action, episode.turns[1].hint = attack, attack, attack
    episode.lesson = episode.error = episode.summary = attack
    write_episodes(folder / "eval" / "step_000009.jsonl", [episode])
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("name: sample", f"name: {json.dumps(attack)}"))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(
            json.dumps({"step": 9, "kind": "train", f"dropped_{attack}": 1, "stops": {attack: 3}}) + "\n"
        )
    page = write_run_report(folder).read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "\u202e" not in json.dumps(embedded(page), ensure_ascii=False)
    assert page.count("<script") == 2
    shown = embedded(page)["eval"][0]
    assert shown["turns"][0]["obs"] == ["x" * 4000, 1_000_000 + len(attack) - 4000]
    assert shown["turns"][1]["response"][0].startswith("</script><script>alert(1)</script>")
    assert "⟨U+202E⟩" in shown["lesson"]
    assert len(page) < 300_000


def test_a_torn_metrics_line_is_left_out_and_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=2, eval_tasks=3)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'7\n{"kind": "train"}\n\xff\xfe\n{"step": 3, "kind": "tr')
    text = plain_text(write_run_report(folder).read_text(encoding="utf-8"))
    assert "metrics.jsonl: 4 lines could not be read and were left out" in text
    assert "2 of 10" in text


@pytest.mark.parametrize("absent", ["eval", "episodes", "metrics.jsonl", "header.json", "config.yaml"])
def test_it_works_without_any_part(run_folder: Path, tmp_path: Path, absent: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    path = folder / absent
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    page = write_run_report(folder).read_text(encoding="utf-8")
    assert len(embedded(page)["eval"]) == (0 if absent == "eval" else 40)
    if path.suffix:
        assert f"{absent} could not be read" in plain_text(page)


def test_curves_and_losses_of_other_methods(tmp_path: Path) -> None:
    values = {
        "success_at/1": 0.2,
        "success_at/2": 0.6,
        "restarted": 3,
        "teacher_gap": -0.1,
        "restore_failed/time_out": 2,
    }
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in (1, 2):
            file.write(json.dumps({"step": step, "kind": "train", **values}) + "\n")
    page = write_run_report(tmp_path).read_text(encoding="utf-8")
    for words in ("success_at/2, step 2: 60%", "restarts at a pivot, step 1: 3", "teacher_gap, step 1: -0.1"):
        assert words in page
    assert "restore_failed/time_out 4 2 2" in plain_text(page)


def test_an_empty_folder_and_a_run_without_evaluation(tmp_path: Path) -> None:
    text = plain_text(write_run_report(tmp_path).read_text(encoding="utf-8"))
    assert "This run has no evaluation." in text
    assert "This run kept no episodes." in text


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a folder"):
        write_run_report(tmp_path / "none")


def test_unreadable_episodes_are_said_and_the_others_shown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, eval_tasks=3)
    with (folder / "eval" / "step_000001.jsonl").open("a") as file:
        file.write('{"version": 99}\nno json\n{"version": 1, "id": "torn')
    page = write_run_report(folder).read_text(encoding="utf-8")
    assert len(embedded(page)["eval"]) == 3
    assert plain_text(page).count("step_000001.jsonl:") == 3


def test_odd_values_in_metrics_do_no_harm(tmp_path: Path) -> None:
    records = [
        {"step": 0, "kind": "eval", "success": None, "by_type": [], "turns": 3, "stops": "x"},
        {"step": 1, "kind": "train", "success": "high", "seconds": None, "stops": None, "dropped_x": None},
        {
            "step": 2,
            "kind": "train",
            "success": True,
            "seconds": 1e300,
            "signal_empty/lesson": 1.0,
            "invalid": -1,
        },
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    text = plain_text(write_run_report(tmp_path).read_text(encoding="utf-8"))
    assert "signal_empty/lesson: a configured signal reached no token in 1 step (last: step 2)" in text


def test_a_run_of_thousands_of_steps_stays_small(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(5_000):
            file.write(
                json.dumps({"step": step, "kind": "train", "success": 0.5, "seconds": step % 7}) + "\n"
            )
    page = write_run_report(tmp_path).read_text(encoding="utf-8")
    assert len(page) < 250_000
    assert "Every 25th step" in plain_text(page)


def test_large_episodes_do_not_make_a_large_page(tmp_path: Path) -> None:
    rng = random.Random(2)
    episodes = [make_episode(rng, f"e{i}", turns=60, skill=0.4, task=i) for i in range(40)]
    for episode in episodes:
        for turn in episode.turns:
            turn.observation = Observation("<y>" * 2_000)
        episode.stop = StopReason.MAX_TURNS
    write_episodes(tmp_path / "eval" / "step_000001.jsonl", episodes)
    page = write_run_report(tmp_path)
    assert page.stat().st_size < 13_000_000
    assert len(embedded(page.read_text(encoding="utf-8"))["eval"]) > 5


def test_a_failed_write_leaves_the_old_page(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    before = write_run_report(folder).read_bytes()
    files = set(folder.iterdir())

    def refuse(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_run_report(folder)
    assert (folder / "report.html").read_bytes() == before
    assert set(folder.iterdir()) == files


def test_branches_of_hidden_parents_are_not_shown(tmp_path: Path) -> None:
    rng = random.Random(3)
    parent = make_episode(rng, "parent", train=True, step=1)
    stray = make_branch(rng, make_episode(rng, "elsewhere", train=True), 0)
    write_episodes(tmp_path / "episodes" / "step_000001.jsonl", [parent, make_branch(rng, parent, 0), stray])
    shown = embedded(write_run_report(tmp_path).read_text(encoding="utf-8"))["train"]
    assert [e["id"] for e in shown] == ["parent", "parent/recovery-0"]


def test_no_torch_is_loaded() -> None:
    code = "import sys, turnpoint.inspector; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
    )
