"""What a policy is: plain ints and numpy at the border, whatever engine sits behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from turnpoint.records import Row

Floats = npt.NDArray[np.float64]
Which = Literal["live", "reference"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn."""

    temperature: float = 1.0
    """0 = greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 = off."""
    max_tokens: int = 512


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One model call."""

    prompt_ids: tuple[int, ...]
    seed: int
    """Seed of this call's own random stream: the sample does not depend on what else is in the batch."""
    sampling: Sampling = Sampling()
    session: str = ""
    """Calls of one session extend each other's tokens; an engine may keep their key-value cache."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What came back."""

    token_ids: tuple[int, ...]
    """Sampled tokens, the end-of-turn token included if it was sampled; at least one."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token at the sampling weights and temperature (1 when greedy)."""
    truncated: bool
    """``max_tokens`` or the context length ended it."""


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Score ``response_ids`` after ``prompt_ids``; both non-empty."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PolicyCapabilities:
    """What a backend can do beyond the protocol."""

    reference: bool
    """``logprobs(which="reference")`` works."""
    sessions: bool
    """Keeps key-value caches between the calls of a session."""
    full_distribution: bool
    """Losses over the whole vocabulary are possible."""


class ContextOverflow(ValueError):
    """A request does not fit the context length; the message has both lengths."""


class Policy(Protocol):
    """The trained model: samples, scores and updates. Not thread-safe; calls come one at a time."""

    capabilities: PolicyCapabilities
    context_length: int

    @property
    def temperature(self) -> float:
        """Sampling and training temperature."""

    @property
    def tokenizer(self) -> Any:
        """The Hugging Face tokenizer, chat template included."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a turn."""

    def submit(self, request: SampleRequest) -> int:
        """Queue a model call; the ticket identifies its result. Raises ``ContextOverflow``."""

    def advance(self) -> list[tuple[int, Sample]]:
        """Work on what is queued until at least one call finishes; empty list if nothing is queued."""

    def end_session(self, session: str) -> None:
        """Forget a session's cache; unknown names are ignored."""

    def forget_sessions(self) -> None:
        """Forget every cache, so that what follows does not depend on what was sampled before, bit for bit.

        Raises ``RuntimeError`` while calls are in flight.
        """

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        """Log-probabilities [len(response_ids)] of each response token at the training temperature, fp32 maths."""

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        """Train on all rows (one epoch of mini-batches); returns metrics. The only call that changes weights."""

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), config and tokenizer in Hugging Face form, and optimizer state beside them."""

    def load(self, folder: Path) -> None:
        """Read back what ``save`` wrote, bitwise."""


@runtime_checkable
class Elsewhere(Protocol):
    """What a policy has besides whose calls run in other processes, so that ``advance`` does nothing but wait."""

    def finished(self) -> bool:
        """Whether ``advance`` would return at once: a call has ended, or none is open."""
