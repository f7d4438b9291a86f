"""Rollouts by vLLM, updates by the local policy, on one GPU. vLLM and torch are imported when a policy is built."""

from turnpoint.policy.vllm.settings import VllmPolicySettings

__all__ = ["VllmPolicySettings"]
