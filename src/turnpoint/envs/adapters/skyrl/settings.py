"""Settings of the skyrl-gym adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from turnpoint.envs.adapters.settings import AdapterSettings

if TYPE_CHECKING:
    from turnpoint.envs.adapters.skyrl.game import SkyGame
    from turnpoint.envs.adapters.skyrl.suite import SkySuite

GENERATED = "generated"


class SkyrlGymSettings(AdapterSettings):
    """An environment of skyrl-gym, or a ``BaseTextEnv`` of your own. Set ``prompt.action_tags: false``: the whole
    reply is what the environment reads."""

    extra: ClassVar[str] = "skyrl-gym"
    packages: ClassVar[tuple[str, ...]] = ("skyrl_gym",)
    distributions: ClassVar[tuple[str, ...]] = ("skyrl-gym",)
    data: ClassVar[str] = "rows as SkyRL trains on, JSONL: train=FILE valid=FILE; generated sums for gsm8k"

    kind: Literal["skyrl_gym"] = "skyrl_gym"
    id: str = "gsm8k"
    """Registered environment (gsm8k, gsm8k_multi_turn, aime, text2sql, search, lcb, searchcode, ...) or
    ``module:Class``."""
    train: str = GENERATED
    """JSONL of the split ``train``: ``prompt`` (messages), and whatever the environment wants (``reward_spec``,
    ``extra_info``, ``db_id``, ...). ``generated``: sums in gsm8k's format, for gsm8k and gsm8k_multi_turn."""
    valid: str = GENERATED
    """JSONL of the split ``valid``, likewise."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The environment's ``env_config``, as ``db_path`` of text2sql or ``search_url`` of search."""
    success_reward: float = 1.0
    """Sum of rewards from which an episode counts as a success."""

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        for split in ("train", "valid"):
            if getattr(self, split) == GENERATED and self.id not in ("gsm8k", "gsm8k_multi_turn"):
                raise ValueError(
                    f"{split} is generated, which are rows for gsm8k; give a JSONL file of rows for '{self.id}'"
                )
        return self

    def game(self) -> SkyGame:
        """One player of rows."""
        from turnpoint.envs.adapters.skyrl.game import SkyGame

        return SkyGame(self)

    def build(self) -> SkySuite:
        """The suite; raises ``EnvDataError`` for an environment or file that is not there or does not fit."""
        from turnpoint.envs.adapters.skyrl.suite import SkySuite

        self.require()
        return SkySuite(self)
