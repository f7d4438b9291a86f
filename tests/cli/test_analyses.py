"""Commands that read episodes: diagnose, analyse, export, compare; and those that play on from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from turnpoint.cli import app
from turnpoint.config import Registry
from turnpoint.pivots.oracle import first_oracle_pivot, measure_distances
from turnpoint.policy.settings import PolicySettings, policy_registry
from turnpoint.records import EpisodeKind, EpisodeWriter, Pivot, StopReason, read_episodes
from turnpoint.testing import play_actions, toy_suite
from turnpoint.testing.harness import random_agent
from turnpoint.testing.scripted_policy import Script, ScriptedPolicy
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.metrics import MetricsLog

ACTIONS = [
    "switch on lamp",
    "wait",
    "go left",
    "go right",
    "wait",
    "switch on lamp",
    "go right",
    "wait",
    "wait",
]


class RandomPolicySettings(PolicySettings):
    kind: str = "random_agent"

    def prepare(self, suite, prompter, *, cache, seed):
        return self

    def build(self, *, seed: int) -> ScriptedPolicy:
        return ScriptedPolicy(_player())


def _player() -> Script:
    """The random agent where actions are listed; otherwise it has nothing to say."""
    usual = random_agent()

    def script(prompt: str, seed: int) -> str:
        try:
            return usual(prompt, seed)
        except IndexError:
            return "?"

    return script


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Registry.get

    def get(self, kind: str):
        return (
            RandomPolicySettings if self is policy_registry and kind == "random_agent" else usual(self, kind)
        )

    monkeypatch.setattr(Registry, "get", get)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the corridor game with one evaluation, in which every game fails."""
    folder = tmp_path / "run"
    folder.mkdir()
    config = {
        "env": {"kind": TOY, "max_turns": 12},
        "policy": {"kind": "random_agent"},
        "method": {"kind": "grpo"},
        "teacher": {"kind": "oracle"},
        "eval": {"tasks": 4},
        "loggers": [],
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    suite = toy_suite(max_turns=12)
    with EpisodeWriter(folder / "eval" / "step_000003.jsonl") as writer:
        for task in suite.tasks("valid")[:8]:
            episode = play_actions(suite.make(), task, ACTIONS, snapshots=False)
            measure_distances(suite.make(), episode)
            episode.pivots = [Pivot(1, "teacher", "go right", "go right")]
            writer.write(episode)
    return folder


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_diagnose_in_words_and_in_json(run: Path) -> None:
    result = call("diagnose", run)
    assert result.exit_code == 0
    assert "failures with a pivot" in result.stdout
    assert "report" in result.stdout
    found = json.loads(call("diagnose", run, "--json").stdout)
    assert found["counted"] == 8
    assert found["detectors"]["report"]["agreement"]["n"] > 0
    assert found["by_step"]["3"]["episodes"] == 8
    assert found["detectors"]["logprob_drop"]["left_out"] == {"not on record": 8}


def test_diagnose_replays_where_distances_are_missing(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    with EpisodeWriter(path) as writer:
        for episode in read_episodes(run / "eval" / "step_000003.jsonl"):
            episode.distances_known = False
            writer.write(episode)
    bare = json.loads(call("diagnose", path, "--json").stdout)
    assert "pivot_rate" not in bare["overall"]
    assert bare["detectors"]["oracle"]["left_out"] == {"not on record": 8}
    full = json.loads(call("diagnose", path, "--env", run, "--json").stdout)
    known = json.loads(call("diagnose", run, "--json").stdout)
    assert full["overall"]["pivot_rate"] == known["overall"]["pivot_rate"]


def test_diagnose_asks_the_runs_model_and_teachers(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.cli import runs

    usual = runs.open_run
    monkeypatch.setattr(runs, "open_run", lambda *a, **k: usual(*a, **{**k, "initial": True}))
    found = json.loads(
        call(
            "diagnose", run, "--ask", "--json", "--detector", "hinted", "--detector", "reflection",
            "--save", run / "deep" / "found.jsonl",
        ).stdout
    )  # fmt: skip
    assert found["detectors"]["reflection"]["named_rate"]["n"] == 8
    assert found["detectors"]["hinted"]["left_out"]["answer: turn without prompt or tokens"] > 0
    lines = (run / "deep" / "found.jsonl").read_text().splitlines()
    assert len(lines) == 8
    assert json.loads(lines[0])["detections"]["oracle"]


def test_diagnose_samples_as_in_training_and_learns_from_first_attempts_alone(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.cli import runs
    from turnpoint.pivots.detectors import detector_registry

    config = json.loads((run / "config.yaml").read_text())
    config |= {"rollout": {"temperature": 0.9}, "eval": {"tasks": 4, "temperature": 0.1}}
    (run / "config.yaml").write_text(json.dumps(config))
    episodes = read_episodes(run / "eval" / "step_000003.jsonl")
    shown: list[list[str]] = []
    temperatures: list[float] = []
    usual, made = runs.open_run, detector_registry.get("reflection").build

    async def prepare(self, some) -> None:
        shown.append([episode.id for episode in some])

    def build(settings, sources):
        temperatures.append(sources.rollouts.settings.temperature)
        return made(settings, sources)

    monkeypatch.setattr(runs, "open_run", lambda *a, **k: usual(*a, **{**k, "initial": True}))
    monkeypatch.setattr("turnpoint.pivots.detectors.logprob_drop.LogprobDrop.prepare", prepare)
    monkeypatch.setattr(detector_registry.get("reflection"), "build", build)
    with EpisodeWriter(run / "eval" / "step_000003.jsonl") as writer:
        episodes[0].kind = EpisodeKind.RECOVERY
        writer.write(episodes[0])
    options = ["--ask", "--json", "--detector", "logprob_drop", "--detector", "reflection"]
    assert call("diagnose", run, *options).exit_code == 0
    assert call("diagnose", run, *options, "--limit", 3).exit_code == 0
    assert temperatures == [0.9, 0.9]
    assert shown == [[e.id for e in episodes], [e.id for e in episodes[:3]]]


def test_diagnose_says_why_a_teacher_never_answered(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.cli import runs
    from turnpoint.pivots.detectors import DetectorFailure
    from turnpoint.pivots.detectors.report import ReportDetector

    async def fail(self, episode):
        raise DetectorFailure("teacher: unreachable", "connection refused")

    usual = runs.open_run
    monkeypatch.setattr(runs, "open_run", lambda *a, **k: usual(*a, **{**k, "initial": True}))
    monkeypatch.setattr(ReportDetector, "recorded", lambda self, episode: None)
    monkeypatch.setattr(ReportDetector, "detect", fail)
    said = call("diagnose", run, "--ask", "--detector", "report").stderr
    assert "report: teacher: unreachable: 8" in said
    assert "connection refused" in said
    assert "--ask asks" not in said
    assert "nothing on record for hinted; --ask asks" in call("diagnose", run, "--detector", "hinted").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["diagnose", "{run}", "--detector", "reprot"], "did you mean 'report'"),
        (["diagnose", "{run}", "hinted.top=2", "--detector", "report"], "not measured"),
        (["diagnose", "{run}", "report.samples=none", "--detector", "report"], "samples"),
        (["diagnose", "{run}/nothing"], "does not exist"),
        (["diagnose", "{run}/eval/step_000003.jsonl", "--ask"], "name one with --run"),
        (["diagnose", "{run}", "--env", "nowhere"], "nowhere"),
        (
            ["replay", "{run}", "{run}/eval/step_000003.jsonl", "--condition", "magic"],
            "no condition is called",
        ),
        (["replay", "{run}", "{run}/eval/step_000003.jsonl"], "has no checkpoint"),
        (["fork", "{run}"], "--episode"),
        (["fork", "{run}", "--episode", "x", "--hint", "a", "--action", "b"], "exclude each other"),
        (["fork", "{run}", "--episode", "nobody", "--action", "wait", "--initial"], "no episode is called"),
        (["compare", "{run}"], "no metrics"),
        (["export", "{run}", "{run}/x.xyz"], "--to"),
    ],
)
def test_wrong_use_is_said_with_code_2(run: Path, arguments: list[str], words: str) -> None:
    result = call(*(a.format(run=run) for a in arguments))
    assert result.exit_code == 2
    assert words in result.stderr


def test_replay(run: Path) -> None:
    episodes, out = run / "eval" / "step_000003.jsonl", run / "replays.jsonl"
    found = json.loads(
        call(
            "replay", run, episodes, "--initial", "--limit", 2, "--replays", 1, "--json", "--out", out
        ).stdout
    )
    assert found["failures"] == 2
    assert set(found["conditions"]) >= {"none", "resample", "oracle_at_pivot", "oracle_after_2"}
    assert all(e.forked_from for e in read_episodes(out))
    assert "no intervention" in call(
        "replay", run, episodes, "--initial", "--limit", 1, "--replays", 1, "--condition", "none"
    ).stdout  # fmt: skip


def test_replay_and_recover_count_episodes_without_a_mistake(run: Path) -> None:
    path = run / "eval" / "step_000003.jsonl"
    episodes = read_episodes(path)
    usable = sum(first_oracle_pivot(e) is not None for e in episodes)
    with EpisodeWriter(path) as writer:  # as two evaluations in one file
        for episode in episodes:
            writer.write(episode)
    options = ["--initial", "--replays", 1]
    found = json.loads(call("recover", run, path, *options, "--json").stdout)
    assert found["mistakes"] == 2 * usable
    left_out = (
        {"failed without an oracle pivot": 2 * (len(episodes) - usable)} if usable < len(episodes) else {}
    )
    assert found["left_out"] == left_out
    with path.open("a") as file:
        file.write('{"torn')
    shown = call("replay", run, path, *options, "--condition", "none", "--limit", 1)
    assert "unfinished last line: 1" in shown.stderr
    bare = path.with_name("solved.jsonl")
    with EpisodeWriter(bare) as writer:
        episodes[0].success, episodes[0].stop = True, StopReason.SUCCESS
        writer.write(episodes[0])
    nothing = call("recover", run, bare, *options)
    assert nothing.exit_code == 2
    assert "(solved: 1)" in nothing.stderr


def test_diagnose_prints_what_a_detector_says(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    with EpisodeWriter(path) as writer:
        for episode in read_episodes(run / "eval" / "step_000003.jsonl")[:2]:
            episode.distances_known = False
            episode.turns[0].executed = "switch off lamp"
            writer.write(episode)
    result = call("diagnose", path, "--env", run)
    assert "oracle: ReplayMismatch: 2" in result.stderr
    assert "the first ReplayMismatch: replay of episode toy-" in result.stderr


def test_recover_keeps_its_replays_and_compares_with_an_earlier_call(run: Path) -> None:
    episodes = run / "eval" / "step_000003.jsonl"
    first = call("recover", run, episodes, "--initial", "--limit", 2, "--replays", 2, "--json")
    (run / "base.json").write_text(first.stdout)
    again = call(
        "recover", run, episodes, "--initial", "--limit", 2, "--replays", 2, "--json", "--against",
        run / "base.json", "--out", run / "r.jsonl",
    )  # fmt: skip
    found = json.loads(again.stdout)
    assert found["paired"] == {"improved": 0, "worse": 0, "same": 2, "unpaired": 0}
    assert len(read_episodes(run / "r.jsonl")) == 4
    assert call("recover", run, episodes, "--initial", "--against", "initial").exit_code == 2
    (run / "base.json").write_text("{}")
    wrong = call("recover", run, episodes, "--initial", "--against", run / "base.json")
    assert "no 'per_mistake'" in wrong.stderr


def test_fork_saves_branches_beside_the_parent(run: Path) -> None:
    parent = read_episodes(run / "eval" / "step_000003.jsonl")[0]
    result = call(
        "fork",
        run,
        "--episode",
        parent.id,
        "--turn",
        2,
        "--action",
        "wait",
        "--initial",
        "--branches",
        2,
        "--json",
    )
    found = json.loads(result.stdout)
    assert [b["actions"][0] for b in found["branches"]] == ["wait", "wait"]
    assert Path(found["file"]) == run / "eval" / "step_000003.forks.jsonl"
    assert call("fork", run, "--episode", parent.id, "--hint", "wait", "--initial").exit_code == 0
    assert call("fork", run, "--episode", parent.id, "--oracle", 1, "--initial").exit_code == 0
    assert len(read_episodes(run / "eval" / "step_000003.forks.jsonl")) == 4
    page = json.loads(call("inspect", run, "--json").stdout)
    assert page["episodes"] == 12
    assert json.loads(call("diagnose", run, "--json").stdout)["episodes"] == 8


def test_fork_wants_to_know_which_step_is_meant(run: Path) -> None:
    """Evaluations play the same tasks at every step, under the same ids."""
    first, later = run / "eval" / "step_000000.jsonl", run / "eval" / "step_000003.jsonl"
    parent = read_episodes(later)[0]
    with EpisodeWriter(first) as writer:
        writer.write(parent)
    one = ["--episode", parent.id, "--action", "wait", "--initial"]
    unclear = call("fork", run, *one)
    assert unclear.exit_code == 2
    assert "is in 2 files: step_000000.jsonl, step_000003.jsonl" in unclear.stderr
    found = json.loads(call("fork", run, *one, "--step", 0, "--json").stdout)
    assert Path(found["file"]) == run / "eval" / "step_000000.forks.jsonl"
    wrong = call("fork", run, *one, "--step", 7)
    assert wrong.exit_code == 2
    assert "it has those of steps 0, 3" in wrong.stderr


def test_fork_without_an_oracle_saves_nothing(run: Path) -> None:
    config = json.loads((run / "config.yaml").read_text()) | {"teacher": None}
    config["env"]["oracle"] = False
    (run / "config.yaml").write_text(json.dumps(config))
    parent = read_episodes(run / "eval" / "step_000003.jsonl")[0]
    result = call("fork", run, "--episode", parent.id, "--oracle", 1, "--initial")
    assert result.exit_code == 2
    assert "has no oracle" in result.stderr
    assert not (run / "eval" / "step_000003.forks.jsonl").exists()


def test_fork_prints_the_fault_that_ended_a_branch(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.envs import EnvError
    from turnpoint.testing.toy_env import ToyEnv

    def broken(self: ToyEnv, knowledge: str = "full") -> list[str]:
        raise EnvError("the oracle lost its map")

    monkeypatch.setattr(ToyEnv, "best_actions", broken)
    parent = read_episodes(run / "eval" / "step_000003.jsonl")[0]
    result = call("fork", run, "--episode", parent.id, "--oracle", 1, "--initial")
    assert "env_error" in result.stdout
    assert "the oracle lost its map" in result.stderr


def test_analyse(run: Path) -> None:
    found = json.loads(call("analyse", run, "--json").stdout)
    assert found["teacher"]["left_out"] == {"no teacher scores": 8}
    assert call("analyse", run).exit_code == 0


def test_analyse_measures_distances_where_an_environment_is_named(run: Path) -> None:
    path = run / "eval" / "step_000003.jsonl"
    episodes = read_episodes(path)
    path.unlink()
    with EpisodeWriter(path) as writer:
        for episode in episodes:
            wrong = first_oracle_pivot(episode)
            for turn in episode.turns:
                turn.response_ids, turn.logprobs = (1,), (-0.1,)
                after = wrong is not None and turn.index >= wrong
                turn.scores = {"teacher": (-2.0 - 0.01 * turn.index if after else -0.1,)}
                turn.distance = None
            episode.distances_known, episode.pivots = False, []
            writer.write(episode)
    blind = json.loads(call("analyse", run, "--json").stdout)["teacher"]
    assert blind["logprob"]["cohens_d"] is None
    assert blind["left_out"]["no error to align at"] == 8
    shown = call("analyse", run, "--skip-tokens", 0).stdout
    rows = [line.split() for line in shown.splitlines() if line.startswith("mean") and "–" in line]
    # turns of one token lie in the sixth tenth, of both signals
    assert [[cell == "–" for cell in row[1:]] for row in rows] == [[n != 5 for n in range(10)]] * 2
    seen = json.loads(call("analyse", run, "--env", run, "--json").stdout)["teacher"]
    assert seen["logprob"]["cohens_d"] < 0
    assert seen["left_out"].get("no error to align at", 0) < 8


@pytest.mark.parametrize("name", ["chat", "verifiers", "atif", "inspect"])
def test_other_tools_trajectories_open_everywhere(run: Path, name: str) -> None:
    file = run / f"out.{'eval' if name == 'inspect' else 'jsonl'}"
    made = json.loads(call("export", run, file, "--to", name, "--json").stdout)
    assert made["episodes"] == 8
    assert json.loads(call("diagnose", file, "--json").stdout)["counted"] == 8
    page = json.loads(call("inspect", file, "--json").stdout)
    assert page["episodes"] == 8
    assert Path(page["page"]) == file.with_suffix(".html")


def test_export_says_which_parts_of_a_run_go_out(run: Path) -> None:
    episode = read_episodes(run / "eval" / "step_000003.jsonl")[0]
    episode.id = "s0/toy/0"
    for name in ("episodes/step_000001.jsonl", "eval/step_000003.forks.jsonl"):
        with EpisodeWriter(run / name) as writer:
            writer.write(episode)
    whole = json.loads(call("export", run, run / "all.jsonl", "--json").stdout)
    assert (whole["episodes"], whole["parts"]) == (9, {"eval": 8, "train": 1})
    assert whole["dropped"] == {"branch forked by hand (name its .forks.jsonl file)": 1}
    assert any("8 episodes are of evaluations" in note for note in whole["notes"])
    train = json.loads(call("export", run, run / "train.jsonl", "--part", "train", "--json").stdout)
    assert train["parts"] == {"train": 1}
    assert [e.id for e in read_episodes(run / "train.jsonl")] == ["s0/toy/0"]
    assert call("export", run / "eval" / "step_000003.forks.jsonl", run / "forks.jsonl").exit_code == 0


@pytest.mark.parametrize("text", ["", '{"version": 1, "id": "x", "task": {}}\n'])
@pytest.mark.parametrize("command", ["diagnose", "analyse", "export"])
def test_nothing_to_read_is_said_and_writes_nothing(tmp_path: Path, command: str, text: str) -> None:
    path, out = tmp_path / "x.jsonl", tmp_path / "new.jsonl"
    path.write_text(text)
    rest = {"diagnose": ["--save", out], "export": [out]}.get(command, [])
    result = call(command, path, *rest)
    assert result.exit_code == 2
    assert "gives no episode: " in result.stderr
    assert ("x.jsonl:1" if text else "it is empty") in result.stderr
    assert not out.exists()


def test_export_of_solved_episodes_alone_where_there_is_none(run: Path) -> None:
    result = call("export", run, run / "x.jsonl", "--solved-only")
    assert result.exit_code == 2
    assert "8 records left out: not solved" in result.stderr
    assert not (run / "x.jsonl").exists()


def test_compare(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        log = MetricsLog(folder / "metrics.jsonl")
        log.write(1, "train", {"success": 0.5, "interactions": 10, "sampled_tokens": 100, "seconds": 1.0})
        log.write(1, "eval", {"success": {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 2}})
        log.close()
        with EpisodeWriter(folder / "eval" / "step_000001.jsonl") as writer:
            for task in toy_suite().tasks("valid")[:2]:
                won = folder.name == "b"
                episode = play_actions(toy_suite().make(), task, ["wait"], snapshots=False)
                episode.success, episode.stop = won, StopReason.SUCCESS if won else StopReason.FAILURE
                writer.write(episode)
    result = call("compare", *folders, "--out", tmp_path / "c.html", "--svg", tmp_path / "svg")
    assert result.exit_code == 0
    assert "paired" in result.stdout
    assert (tmp_path / "c.html").is_file()
    assert json.loads(call("compare", *folders, "--json").stdout)["pairs"][0]["better"] == 2


def test_hostile_text_stays_text(run: Path) -> None:
    path = run / "eval" / "step_000003.jsonl"
    text = path.read_text().replace('"type": "', '"type": "[red]\\u001b[31m\\u202e')
    path.write_text(text)
    shown = call("diagnose", run).stdout
    assert "\x1b[31m" not in shown
    assert "\u202e" not in shown
    assert "[red]" in shown
