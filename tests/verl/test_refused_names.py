"""The names of verl's config that are refused, against verl's own config: each still exists there."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from turnpoint.config import ConfigError
from turnpoint.policy.verl import VerlPolicySettings
from turnpoint.policy.verl.compose import compose_config
from turnpoint.policy.verl.translate import ROLLOUT, verl_settings
from turnpoint.policy.verl.unfit import OFF_POLICY, OURS, UNUSED

NOT_LISTED = (f"{ROLLOUT}.repetition_penalty",)
"""Names that verl's servers read and its config does not list; that alone keeps them out."""


def test_every_refused_name_is_one_of_verls() -> None:
    config = compose_config(verl_settings(VerlPolicySettings(model="models/m"), context=1024, seed=0))
    refused = [*UNUSED, *OURS, *(f"{ROLLOUT}.{last}" for last in OFF_POLICY)]
    unknown = []
    for name in refused:
        if "engine_kwargs.vllm." in name:  # arguments of vLLM, which verl passes on as they are
            continue
        head, _, last = name.rpartition(".")
        parent = OmegaConf.select(config, head) if head else config
        if parent is None or last not in parent.keys():  # noqa: SIM118  # a section is no plain dict
            unknown.append(name)
    assert sorted(unknown) == sorted(NOT_LISTED)


@pytest.mark.parametrize("name", ["rollout.skip_rollout", "rollout.repetition_penalty", "rollout.topp"])
def test_names_that_verl_does_not_list_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="which verl's config does not have"):
        compose_config({f"actor_rollout_ref.{name}": 1})
