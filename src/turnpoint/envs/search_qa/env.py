"""One question behind the environment contract."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.envs.retrieval import Retriever
from turnpoint.envs.search_qa import oracle, text
from turnpoint.envs.search_qa.answers import exact_match
from turnpoint.envs.search_qa.oracle import Progress
from turnpoint.envs.search_qa.settings import SearchQASettings
from turnpoint.records import Observation, Step, Task

Lister = Callable[[str, Progress], tuple[str, ...]]
"""Admissible actions for a question and what was shown."""


class State(NamedTuple):
    """All that changes in an episode; immutable, so taking and restoring a snapshot is a reference."""

    question: str
    answers: tuple[str, ...]
    """Accepted ones."""
    progress: Progress = Progress()
    given: str | None = None
    """The answer; None while the question is open."""
    said: str = ""
    """The current observation."""


class SearchQAEnv:
    """A question to search for and to answer.

    Actions hold ``<search>query</search>`` or ``<answer>answer</answer>``; of several the first counts, and what stands
    around it does not. A retriever that fails raises ``RetrieverError``, and the state stays as it was.
    """

    def __init__(
        self,
        settings: SearchQASettings,
        capabilities: Capabilities,
        retriever: Retriever,
        list_actions: Lister | None = None,
    ) -> None:
        """``list_actions``: only what it lists is accepted; None = anything is."""
        self.capabilities = capabilities
        self._settings, self._retriever, self._list = settings, retriever, list_actions
        self._now: State | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Raises ``EnvError`` if it has no question with answers."""
        answers = task.data.get("answers")
        if not task.instruction or not isinstance(answers, list | tuple) or not answers:
            raise EnvError(f"task {task.id} is no question: it needs an instruction, and answers in its data")
        asked = text.QUESTION.format(task.instruction)
        self._now = State(task.instruction, tuple(map(str, answers)), said=asked)
        return self._observation()

    def step(self, action: str) -> Step:
        """Search or answer; an answer ends the episode. Raises ``RetrieverError``."""
        now = self._current()
        if now.given is not None:
            self._now = now._replace(said=text.ENDED)
            return self._step(0.0, effective=False)
        parsed = text.parse(action)
        if parsed is None or not self._accepted(parsed):
            self._now = now._replace(said=text.MALFORMED)
            return self._step(-self._settings.malformed_penalty, effective=False)
        if parsed.verb == "answer":
            self._now = now._replace(given=parsed.argument, said=text.GIVEN.format(parsed.argument))
            return self._step(self._settings.success_reward * self._correct(), effective=True)
        found = self._retriever.search([parsed.argument], self._settings.topk)[0]
        shown = [
            passage._replace(text=passage.text[: self._settings.passage_characters]) for passage in found
        ]
        said = text.information(shown, self._settings.passage_characters)
        self._now = now._replace(progress=now.progress.after(parsed.argument, shown), said=said)
        return self._step(0.0, effective=True)

    def snapshot(self) -> State:
        """The whole state; it fits every copy of the environment."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, State):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of search QA")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """1 while the question is open, as it can be answered at once; after a right answer 0, else None."""
        now = self._current()
        if now.given is None:
            return 1 if self._best("full") else None
        return 0 if self._correct() else None

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """The accepted answers (``full``); an answer or a search that the shown passages suggest (``observed``)."""
        return [] if self._current().given is not None else self._best(knowledge)

    def random_action(self, rng: random.Random) -> str:
        """A search for, or an answer of, a few neighbouring words of the question and the passages shown."""
        now = self._current()
        if self._list is not None:
            return rng.choice(self._list(now.question, now.progress))
        texts = [now.question, *(f"{p.title} {p.text}" for p in now.progress.passages)]
        words = [word.strip(".,;:?!()\"'") for word in " ".join(texts).replace("<", " ").split()]
        at, length = rng.randrange(len(words)), rng.randint(1, 3)
        said = " ".join(words[at : at + length]) or words[0]
        return text.search(said) if rng.random() < 0.5 else text.answer(said)

    def close(self) -> None:
        """Forget the episode; the retriever is the suite's."""
        self._now = None

    def _best(self, knowledge: Knowledge) -> list[str]:
        now = self._current()
        if knowledge == "observed":
            best = oracle.observed(now.question, now.answers, now.progress)
        else:
            best = oracle.full(now.answers)
        if self._list is None:
            return best
        listed = self._list(now.question, now.progress)
        return [action for action in best if action in listed]

    def _accepted(self, action: text.Action) -> bool:
        if self._list is None:
            return True
        now = self._current()
        return f"<{action.verb}>{action.argument}</{action.verb}>" in self._list(now.question, now.progress)

    def _current(self) -> State:
        if self._now is None:
            raise EnvError("search QA has not been reset to a task yet")
        return self._now

    def _correct(self) -> bool:
        now = self._current()
        return now.given is not None and exact_match(now.given, now.answers)

    def _step(self, reward: float, *, effective: bool) -> Step:
        done = self._current().given is not None
        return Step(self._observation(), reward, done, self._correct() if done else None, effective)

    def _observation(self) -> Observation:
        now = self._current()
        actions: tuple[str, ...] | None = None
        if now.given is not None:
            actions = ()
        elif self._list is not None:
            actions = self._list(now.question, now.progress)
        return Observation(now.said, actions, state_key(now))


def state_key(state: State) -> str:
    """Equal where the same has been found and answered; how it was asked for does not count."""
    found = sorted(passage.id for passage in state.progress.passages)
    parts = repr((found, state.given)).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(parts, digest_size=8).hexdigest()
