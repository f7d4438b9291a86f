"""A model of a folder that only scores: the weights never change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from turnpoint.config import ConfigError
from turnpoint.policy.local import load
from turnpoint.policy.local.memory import Budget
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.scorer import longest, score
from turnpoint.policy.local.selftest import check_network
from turnpoint.policy.local.sessions import SessionScorer
from turnpoint.policy.passages import Passage
from turnpoint.policy.protocol import Floats, ScoreRequest
from turnpoint.policy.sources import model_folder


class FrozenModel:
    """Network and tokenizer of a folder, with cached and uncached scoring."""

    def __init__(
        self,
        folder: Path,
        *,
        section: str,
        dtype: Literal["float32", "bfloat16"] = "float32",
        device: str = "auto",
        context_length: int | None = None,
        cache_rows: int = 128,
        token_budget: int = 16384,
        temperature: float = 1.0,
    ) -> None:
        """Load; ``section`` names the settings in messages. Raises ``ConfigError`` if the folder cannot work."""
        try:
            folder = model_folder(str(folder))
            load.check_folder(folder)
            target = load.choose_device(device)
            model = load.load_model(folder, load.DTYPES[dtype])
            self.tokenizer: Any = load.load_tokenizer(folder, model)
            self.context_length = load.context_length(model.config, context_length)
            self.network = Network(model.requires_grad_(False).to(target), target)
            check_network(self.network)
        except ConfigError as error:
            raise ConfigError(str(error).replace("policy.", f"{section}.")) from error
        self._temperature = temperature
        self.budget = Budget(
            token_budget, "the scoring teacher", section=section, settings=["dtype=bfloat16"]
        )
        """Of passes with and without the cache."""
        self.sessions = SessionScorer(
            self.network,
            context=self.context_length,
            max_rows=cache_rows,
            budget=self.budget,
            temperature=temperature,
        )

    @property
    def vocabulary(self) -> int:
        """Number of tokens the model can score."""
        return self.network.vocabulary

    def score(self, passages: Sequence[Passage]) -> list[list[Floats]]:
        """Log-probs of each span of each passage, without touching the cache.

        Raises ``ConfigError`` if there is no memory for a single passage.
        """
        requests = [
            ScoreRequest(passage.ids[:start], passage.ids[start:stop])
            for passage in passages
            for start, stop in passage.spans
        ]

        def attempt(tokens: int) -> list[Floats]:
            return score(
                self.network,
                requests,
                temperature=self._temperature,
                token_budget=tokens,
                context=self.context_length,
            )

        values = iter(self.budget.run(attempt, longest(requests)))
        return [[next(values) for _ in passage.spans] for passage in passages]
