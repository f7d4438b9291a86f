"""What a remote teacher may cost, and what it has cost: tokens and money of the whole run, resumed parts included."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from turnpoint.config import Settings

MILLION = 1_000_000


class PriceSettings(Settings):
    """What a million tokens cost, in any currency."""

    prompt: NonNegativeFloat = 0.0
    """A million tokens that the model reads."""
    completion: NonNegativeFloat = 0.0
    """A million tokens that it writes, reasoning included."""


class BudgetSettings(Settings):
    """What the teacher may use in the whole run; each limit stands by itself."""

    tokens: PositiveInt | None = None
    """Prompt and completion tokens together; null = no limit."""
    prompt_tokens: PositiveInt | None = None
    """Prompt tokens; null = no limit."""
    completion_tokens: PositiveInt | None = None
    """Completion tokens; null = no limit."""
    cost: PositiveFloat | None = None
    """Money, in the currency of ``price``; null = no limit."""
    then: Literal["stop", "go_on"] = "stop"
    """When a limit is reached: ``stop`` finishes the step (which may go beyond the limit), writes a checkpoint and ends
    the run, to be resumed with a larger budget; ``go_on`` finishes the calls that are under way, makes no further one
    and trains without the teacher, each call that was not made counted as ``failures/budget``. Outside of training both
    do this."""

    @property
    def limits(self) -> dict[str, float]:
        """Limits that are set, by name."""
        named = ("tokens", "prompt_tokens", "completion_tokens", "cost")
        return {name: float(limit) for name in named if (limit := getattr(self, name)) is not None}


class Costs(Settings):
    """Settings of teachers that cost tokens."""

    price: PriceSettings = PriceSettings()
    """Prices, for ``budget.cost`` and the cost in metrics and reports."""
    budget: BudgetSettings = BudgetSettings()
    """What the teacher may use in the whole run."""

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.budget.cost is not None and not (self.price.prompt or self.price.completion):
            raise ValueError(
                "budget.cost is set, but no price is: set price.prompt and price.completion, the cost of a million "
                "tokens each"
            )
        return self


class Spending:
    """The account of one teacher."""

    def __init__(self, settings: Costs, section: str) -> None:
        """``section`` names the settings in messages."""
        self.settings, self._section = settings, section
        self.prompt_tokens = self.completion_tokens = 0
        """Of the whole run, those before it was resumed included."""
        self.cost = self.cost_here = 0.0
        """Of the whole run, and of this process."""
        self._spared = (0, 0)
        """Prompt and completion tokens that the cache saved, in this process."""
        self.step_goes_on = False
        """A training loop looks at ``stops`` after each step, so that calls within one may go beyond a limit."""

    @property
    def counted(self) -> bool:
        """Whether the settings say that tokens matter: a price or a limit is set."""
        price = self.settings.price
        return bool(price.prompt or price.completion or self.settings.budget.limits)

    @property
    def priced(self) -> bool:
        """Whether there is a cost to tell."""
        return bool(self.settings.price.prompt or self.settings.price.completion)

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """An answer came and was paid for."""
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        cost = self._cost(prompt_tokens, completion_tokens)
        self.cost += cost
        self.cost_here += cost

    def spare(self, prompt_tokens: int, completion_tokens: int) -> None:
        """An answer came from the cache; this is what was paid for it once."""
        self._spared = (self._spared[0] + prompt_tokens, self._spared[1] + completion_tokens)

    def spared(self) -> dict[str, float]:
        """What answers from the cache would have cost: each count's own name after ``cached_``."""
        prompt_tokens, completion_tokens = self._spared
        tokens = {
            "cached_prompt_tokens": float(prompt_tokens),
            "cached_completion_tokens": float(completion_tokens),
        }
        return tokens | ({"cached_cost": self._cost(*self._spared)} if self.priced else {})

    def _cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        price = self.settings.price
        return (prompt_tokens * price.prompt + completion_tokens * price.completion) / MILLION

    def refusal(self) -> str | None:
        """Why no further call may be made now; None if it may."""
        if self.settings.budget.then == "stop" and self.step_goes_on:
            return None
        return self._over()

    def stops(self) -> str | None:
        """Why the run must end after this step; None if it need not."""
        return self._over() if self.settings.budget.then == "stop" else None

    def _over(self) -> str | None:
        used = self.totals() | {
            "tokens": float(self.prompt_tokens + self.completion_tokens),
            "cost": self.cost,
        }
        for name, limit in self.settings.budget.limits.items():
            if used[name] >= limit:
                return (
                    f"{self._section}.budget.{name} is used up: {self.text()}; the limit is {limit:,.10g}. To go "
                    "on set "
                    f"{self._section}.budget.{name} higher, or {self._section}.budget.then=go_on"
                )
        return None

    def totals(self) -> dict[str, float]:
        """Tokens of the run, and the cost where there is a price."""
        tokens = {
            "prompt_tokens": float(self.prompt_tokens),
            "completion_tokens": float(self.completion_tokens),
        }
        return tokens | ({"cost": self.cost} if self.priced else {})

    def text(self) -> str:
        """What was used, for people."""
        return spent_text(self.totals())

    def state_dict(self) -> dict[str, Any]:
        """The account, as plain JSON."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": self.cost,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the account where the run was interrupted."""
        self.prompt_tokens = int(state["prompt_tokens"])
        self.completion_tokens = int(state["completion_tokens"])
        self.cost = float(state["cost"])


def spent_text(totals: dict[str, float]) -> str:
    """``12,000 prompt and 300 completion tokens, cost 0.0451``."""
    text = f"{totals['prompt_tokens']:,.0f} prompt and {totals['completion_tokens']:,.0f} completion tokens"
    return text + (f", cost {totals['cost']:,.4f}" if "cost" in totals else "")
