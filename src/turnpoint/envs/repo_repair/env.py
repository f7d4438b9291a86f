"""One repository to repair, behind the environment contract."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.envs.repo_repair import oracle, text
from turnpoint.envs.repo_repair.actions import Command, Misunderstood, parse
from turnpoint.envs.repo_repair.drawing import draw
from turnpoint.envs.repo_repair.editing import edited
from turnpoint.envs.repo_repair.judge import Verdict, judge
from turnpoint.envs.repo_repair.proposals import squeezed
from turnpoint.envs.repo_repair.runner import Result, Runner
from turnpoint.envs.repo_repair.settings import RepoRepairSettings
from turnpoint.envs.repo_repair.state import Job, State
from turnpoint.envs.repo_repair.tree import Tree, TreeError, clean
from turnpoint.records import Observation, Step, Task

Opener = Callable[[Task], tuple[Job, Runner]]
"""The repository of a task, and what runs its tests."""


class RepoRepairEnv:
    """A repository that is read, edited, tested and handed in.

    The tree is held in memory and sent into a sandbox for each run of tests; what a run writes is not kept.
    """

    def __init__(self, settings: RepoRepairSettings, capabilities: Capabilities, open_task: Opener) -> None:
        self.capabilities = capabilities
        self._settings, self._open_task = settings, open_task
        self._listed = settings.actions == "listed"
        self._now: State | None = None
        self._runner: Runner | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Raises ``EnvError`` for tasks of another file."""
        job, self._runner = self._open_task(task)
        self._now = State(job, job.tree, said=text.start(job.record.problem, job.tree))
        return self._observation()

    def step(self, action: str) -> Step:
        """Execute a command; a submission is graded and ends the episode."""
        now = self._current()
        if now.verdict is not None:
            self._now = now._replace(said=text.ENDED)
            return self._step(0.0, effective=False)
        action = action.encode("utf-8", "replace").decode()
        try:
            command = self._listed_command(action) if self._listed else parse(action)
            if command.verb == "submit":
                return self._submit()
            self._now = self._carry_out(command)
        except (Misunderstood, TreeError) as error:
            self._now = now._replace(said=str(error))
            return self._step(0.0, effective=False)
        return self._step(0.0, effective=True)

    def snapshot(self) -> State:
        """The whole state; it fits every copy of the environment."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, State):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of repository repair")
        record = snapshot.job.record
        _, self._runner = self._open_task(Task(record.id, "repo_repair"))
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """Turns to a submission that counts; see ``oracle.distance``."""
        return oracle.distance(self._current(), self._tests(), listed=self._listed)

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """Actions towards the repaired repository; ``observed`` runs the tests and opens the file before."""
        ask = oracle.best_observed if knowledge == "observed" else oracle.best_full
        return ask(self._current(), self._tests(), listed=self._listed)

    def random_action(self, rng: random.Random) -> str:
        """Something to try, drawn without knowing the fault."""
        return draw(self._current().tree, rng)

    def close(self) -> None:
        """Forget the episode."""
        self._now = self._runner = None

    def _listed_command(self, action: str) -> Command:
        """The listed action that is meant; white space does not count. Raises ``Misunderstood`` for others."""
        wanted = squeezed(action) if len(action) < 10_000 else ""
        found = next((listed for listed in self._actions() if squeezed(listed) == wanted), None)
        if found is None:
            raise Misunderstood(text.NOT_LISTED)
        return parse(found)

    def _actions(self) -> tuple[str, ...]:
        now = self._current()
        opens = tuple(f"open {path}" for path in now.job.proposals.files)
        edits = now.job.proposals.actions(now.opened) if now.opened else ()
        return (*opens, "test", *edits, "submit")

    def _carry_out(self, command: Command) -> State:
        now = self._current()
        match command.verb:
            case "open":
                return self._view(command)
            case "list":
                return self._saying(text.listing(now.tree, command.path))
            case "search":
                path = clean(command.path) if command.path else ""
                return self._saying(text.hits(now.tree, command.text, path))
            case "test":
                return self._saying(self._test(command.text))._replace(tested=now.tree.key)
        # Listed: one changed line at a time, so that a new one takes the place of the one before.
        tree = edited(now.job.tree if self._listed else now.tree, command)
        return self._saying(self._after(tree, command))._replace(tree=tree)

    def _view(self, command: Command) -> State:
        now = self._current()
        path = clean(command.path)
        first = max(1, command.first)
        shown = self._window(now.tree, path, first, command.last)
        return self._saying(shown)._replace(opened=path, shown=now.shown | {path})

    def _window(self, tree: Tree, path: str, first: int, last: int = 0) -> str:
        lines = tree.lines(path)
        if lines and first > len(lines):
            raise TreeError(f"{path} has only {len(lines)} lines.")
        end = min(len(lines), first + self._settings.window - 1, last or len(lines))
        return text.view(path, lines, first, end)

    def _after(self, tree: Tree, command: Command) -> str:
        """The changed place, or that the file is gone."""
        path = clean(command.path)
        if path not in tree.paths:
            return f"{path} is gone."
        if not tree.lines(path):
            return f"{path} is empty."
        first = min(max(1, command.first - 3), len(tree.lines(path)))
        span = command.last - command.first + command.text.count("\n") + 7
        return "Done. " + self._window(tree, path, first, first + span)

    def _test(self, wanted: str) -> str:
        now, failing = self._current(), self._current().job.visible
        if wanted in ("", "all"):
            chosen = list(failing) if not wanted else []
        else:
            file, mark, name = wanted.partition("::")
            if clean(file) not in now.tree.paths:
                raise TreeError(f"There is no file {file}.")
            chosen = [clean(file) + mark + name]
        result: Result = self._tests().run(now.tree, chosen)
        return text.brief(result) if self._listed else text.report(result, self._settings.failures)

    def _submit(self) -> Step:
        now = self._current()
        verdict: Verdict = judge(now.tree, now.job.record, self._tests())
        self._now = now._replace(verdict=verdict, said=text.submitted(verdict))
        return self._step(self._settings.success_reward * verdict.solved, effective=True)

    def _saying(self, said: str) -> State:
        return self._current()._replace(said=text.cut(said, self._settings.shown))

    def _current(self) -> State:
        if self._now is None:
            raise EnvError("repository repair has not been reset to a task yet")
        return self._now

    def _tests(self) -> Runner:
        if self._runner is None:
            raise EnvError("repository repair has not been reset to a task yet")
        return self._runner

    def _step(self, reward: float, *, effective: bool) -> Step:
        verdict = self._current().verdict
        success = None if verdict is None else verdict.solved
        return Step(self._observation(), reward, verdict is not None, success, effective)

    def _observation(self) -> Observation:
        now = self._current()
        actions: tuple[str, ...] | None = () if now.verdict is not None else None
        if self._listed and now.verdict is None:
            actions = self._actions()
        return Observation(now.said, actions, now.key(listed=self._listed))
