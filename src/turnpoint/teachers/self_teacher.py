"""The student as its own naming teacher: the same questions, answered by the weights being trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turnpoint.config import ConfigError
from turnpoint.envs.protocol import EnvSuite
from turnpoint.policy.protocol import ContextOverflow
from turnpoint.records import Message
from turnpoint.teachers.chat import ChatTeacher, ChatTeacherSettings
from turnpoint.teachers.protocol import Complete, TeacherError, TeacherFailure


class SelfTeacherSettings(ChatTeacherSettings):
    """The student names its own mistakes."""

    kind: Literal["self"] = "self"

    def build(self, suite: EnvSuite, complete: Complete | None = None) -> SelfTeacher:
        if complete is None:
            raise ConfigError(
                "teacher.kind is self, but there is no model to ask here; use it in training, or set "
                "teacher.kind to oracle or http"
            )
        return SelfTeacher(self, suite.instructions, complete)


class SelfTeacher(ChatTeacher):
    """Asks the student through ``complete``; a prompt that does not fit counts as ``budget``."""

    remote = False
    varies = True
    """Answers are sampled."""
    label = "self"

    def __init__(self, settings: SelfTeacherSettings, instructions: str, complete: Complete) -> None:
        super().__init__(settings, instructions)
        self.settings = settings
        self._complete = complete

    async def complete(self, messages: Sequence[Message]) -> str:
        try:
            reply = await (self._complete(messages, self.number) if self.number else self._complete(messages))
        except TeacherError as error:
            self.counters.failures[error.reason] += 1
            raise
        except TimeoutError as error:
            raise self.counters.fail(TeacherFailure.TIME_OUT, "the student did not answer in time") from error
        except ContextOverflow as error:
            raise self.counters.fail(
                TeacherFailure.BUDGET, f"the student cannot be asked: {error}"
            ) from error
        self.counters.requests += 1
        return reply

    async def check(self) -> None:
        """Nothing to prove: the student answers whenever the run can train it."""

    async def close(self) -> None:
        """The student belongs to the run."""
