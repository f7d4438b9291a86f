"""verl (Ray, FSDP2, vLLM) behind the policy contract; verl itself is imported when a policy is built."""

from turnpoint.policy.verl.backend import with_backend
from turnpoint.policy.verl.settings import VerlPolicySettings

__all__ = ["VerlPolicySettings", "with_backend"]
