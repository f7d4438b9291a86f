"""Credit: pure functions over NumPy arrays that turn rewards and log-probs into advantages.

Every formula names its paper and equation. Arrays are float64. Nothing here knows episodes, policies or
backends.
"""

from __future__ import annotations

from turnpoint.credit.categorical import (
    expected_logit_update,
    expected_preventive_update,
    expected_recovery_update,
)
from turnpoint.credit.curricula import (
    b2f_expert_turns,
    blended_token_weights,
    blended_turn_weights,
    coverage_depth,
    depth_cap,
    depth_horizon,
    depth_profile,
    effective_depth,
    f2b_depth,
    linear_alpha,
    smoothed_depth,
)
from turnpoint.credit.distillation import (
    combined_advantages,
    distillation_advantages,
    opid_advantages,
    reverse_kl_advantages,
)
from turnpoint.credit.divergences import divergence, generalised_jsd, with_tail_bucket
from turnpoint.credit.gates import (
    agentopsd_advantages,
    agentopsd_multipliers,
    pivotrl_keep,
    rlsd_advantages,
    rlsd_weights,
    sdar_advantages,
    sdar_gate,
    sod_step_weights,
)
from turnpoint.credit.gigpo import episode_row_advantages, gigpo_advantages
from turnpoint.credit.groups import group_advantages, step_advantages, zero_variance_fraction
from turnpoint.credit.pivoarl import Chain, new_turns, pivoarl_advantages
from turnpoint.credit.returns import (
    discounted_returns,
    lamer_reflection_returns,
    pivot_isolated_returns,
    reflection_returns,
)
from turnpoint.credit.surrogate import gspo_ratio, ppo_surrogate
from turnpoint.credit.trust import (
    agreement,
    posterior_share,
    recovered_within,
    recovery_weight,
    turns_to_recover,
    wilson_interval,
)
from turnpoint.credit.windows import (
    early_stop_token,
    early_stop_turn,
    leading_run,
    restart_turn,
    threshold_from_errors,
    threshold_from_successes,
)

__all__ = [
    "Chain",
    "agentopsd_advantages",
    "agentopsd_multipliers",
    "agreement",
    "b2f_expert_turns",
    "blended_token_weights",
    "blended_turn_weights",
    "combined_advantages",
    "coverage_depth",
    "depth_cap",
    "depth_horizon",
    "depth_profile",
    "discounted_returns",
    "distillation_advantages",
    "divergence",
    "early_stop_token",
    "early_stop_turn",
    "effective_depth",
    "episode_row_advantages",
    "expected_logit_update",
    "expected_preventive_update",
    "expected_recovery_update",
    "f2b_depth",
    "generalised_jsd",
    "gigpo_advantages",
    "group_advantages",
    "gspo_ratio",
    "lamer_reflection_returns",
    "leading_run",
    "linear_alpha",
    "new_turns",
    "opid_advantages",
    "pivoarl_advantages",
    "pivot_isolated_returns",
    "pivotrl_keep",
    "posterior_share",
    "ppo_surrogate",
    "recovered_within",
    "recovery_weight",
    "reflection_returns",
    "restart_turn",
    "reverse_kl_advantages",
    "rlsd_advantages",
    "rlsd_weights",
    "sdar_advantages",
    "sdar_gate",
    "smoothed_depth",
    "sod_step_weights",
    "step_advantages",
    "threshold_from_errors",
    "threshold_from_successes",
    "turns_to_recover",
    "wilson_interval",
    "with_tail_bucket",
    "zero_variance_fraction",
]
