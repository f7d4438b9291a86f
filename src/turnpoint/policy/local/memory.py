"""What happens when memory runs out: passes are halved and repeated, and the run is told once."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from turnpoint.config import ConfigError

T = TypeVar("T")
_WORDS = (
    "can't allocate memory",
    "not enough memory",
    "CUDA error: out of memory",
    "STATUS_ALLOC_FAILED",
)
"""How torch says that memory ran out: on a CPU, and on a GPU outside its own allocator (the driver, cuBLAS, cuDNN)."""
_TRAINING = ("gradient_checkpointing=true", "dtype=bfloat16", "lora")


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there is no memory left, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


@contextmanager
def told(message: str) -> Iterator[None]:
    """Where nothing can be halved: memory that runs out inside the block is a ``ConfigError`` of this message."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise ConfigError(message) from error


class Budget:
    """Tokens of one pass; halved as often as memory runs out, and never raised again."""

    def __init__(
        self, tokens: int, what: str, *, section: str = "policy", settings: Sequence[str] = _TRAINING
    ) -> None:
        """``what`` names the passes in messages, as "the update"; ``settings`` of ``section`` save memory."""
        self.tokens = tokens
        self.what = what
        self.section = section
        self.halvings = 0
        self._settings = settings

    def run(self, attempt: Callable[[int], T], longest: int) -> T:
        """``attempt(tokens)``, again with half as many while memory runs out.

        The attempt must leave nothing behind when it fails. ``longest`` is its longest sequence: once passes are no
        longer than that, halving would change nothing, and ``ConfigError`` says what to set instead.
        """
        while True:
            try:
                return attempt(self.tokens)
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
                if self.tokens <= longest:
                    settings = " or ".join(f"{self.section}.{name}" for name in self._settings)
                    raise ConfigError(
                        f"memory ran out in {self.what} on a pass of {longest} tokens, a single sequence that cannot "
                        f"be split; set {settings}, play shorter episodes (rollout.max_turns, "
                        "rollout.max_response_tokens, prompt.max_prompt_tokens), or use a smaller model"
                    ) from error
            self._halve()

    def _halve(self) -> None:
        gc.collect()  # what the failed pass held
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.tokens //= 2
        self.halvings += 1
        if self.halvings == 1:
            warnings.warn(
                f"memory ran out in {self.what}; it goes on with passes of half as many tokens ({self.tokens}) and "
                f"will halve again if it must. Results are the same; set {self.section}.token_budget to start there",
                RuntimeWarning,
                stacklevel=2,
            )
