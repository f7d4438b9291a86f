"""Training: run configs, the loop, evaluation, checkpoints, metrics, supervised warm starts."""

from turnpoint.policy.settings import policy_registry

policy_registry.add("small", "turnpoint.training.small_agent:SmallPolicySettings")  # it is made by training
policy_registry.add(
    "pretrained", "turnpoint.training.pretrained:PretrainedPolicySettings"
)  # warm-started by it
