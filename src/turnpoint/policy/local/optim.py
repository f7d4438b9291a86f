"""The optimizer step: AdamW, in 8 bit too, or Muon on hidden matrices; clipping, warm-up, float32 masters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from turnpoint.config import ConfigError
from turnpoint.policy.local.memory import told
from turnpoint.policy.local.muon import Muon
from turnpoint.policy.local.network import Network
from turnpoint.policy.settings import OptimizerSettings

EIGHT_BIT = "adamw8bit"


class NonFiniteGradient(ArithmeticError):
    """A loss or gradient is not finite; the weights were not changed."""


class Stepper:
    """Moves the weights of a network along their gradients.

    Weights in reduced precision get float32 masters: a small step would otherwise be rounded away, and so would the
    gradient of one micro-batch beside the sum of those before it.
    """

    def __init__(self, network: Network, settings: OptimizerSettings) -> None:
        self.settings = settings
        self.steps = 0
        named = [(name, weight) for name, weight in network.model.named_parameters() if weight.requires_grad]
        self.weights: dict[str, nn.Parameter] = dict(named)
        self.masters: dict[str, Tensor] = {
            name: weight if weight.dtype == torch.float32 else weight.detach().float().clone()
            for name, weight in named
        }
        for name, weight in named:
            if self.masters[name] is not weight:
                weight.register_post_accumulate_grad_hook(_add_to(self.masters[name]))
        matrices = _hidden_matrices(network) if settings.kind == "muon" else set()
        rest = [name for name in self.weights if name not in matrices]
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        rate = settings.lr
        if settings.kind == "muon":
            hidden = [self.masters[name] for name in self.weights if name in matrices]
            self.optimizers["muon"] = Muon(hidden, lr=settings.lr, weight_decay=settings.weight_decay)
            rate = settings.lr / 10 if settings.lr_rest is None else settings.lr_rest
        decayed = [self.masters[name] for name in rest if self.masters[name].ndim >= 2]
        plain = [self.masters[name] for name in rest if self.masters[name].ndim < 2]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": settings.weight_decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        adamw = "adamw" if settings.kind == "muon" else settings.kind
        if groups:  # adapters have nothing but matrices
            self.optimizers[adamw] = _adamw(adamw, groups, lr=rate, betas=settings.betas)
        self._rates = {"muon": settings.lr, adamw: rate}
        self._names = {id(master): name for name, master in self.masters.items()}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for name, weight in self.weights.items():
            weight.grad = self.masters[name].grad = None

    def gradient_norm(self) -> float:
        """Norm of the accumulated gradient, in float32."""
        grads = [master.grad for master in self.masters.values() if master.grad is not None]
        if not grads:
            return 0.0
        return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads])))

    def step(self, norm: float, scale: float = 1.0) -> float:
        """Clip the gradient of the given norm, take one step at ``scale`` times the learning rate and clear
        gradients; returns the rate used."""
        shrink = min(1.0, self.settings.grad_clip / (norm + 1e-6))
        for master in self.masters.values():
            if master.grad is not None:
                master.grad.mul_(shrink)
        warm = scale * min(1.0, (self.steps + 1) / max(1, self.settings.warmup_steps))
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = self._rates[name] * warm
            with told(
                "memory ran out in the optimizer's step, where its moments and what it computes with need a few bytes "
                "for each trained weight; set policy.lora or policy.optimizer.kind=adamw8bit, or use a smaller model"
            ):
                optimizer.step()
        with torch.no_grad():
            for name, weight in self.weights.items():
                if self.masters[name] is not weight:
                    weight.copy_(self.masters[name])
        self.zero_grad()
        self.steps += 1
        return self.settings.lr * warm

    def state_dict(self) -> dict[str, Tensor]:
        """Optimizer state and float32 masters as flat named tensors: copies on the CPU, where there is room."""
        result = {}
        for kind, optimizer in self.optimizers.items():
            for parameter, values in optimizer.state.items():
                for key, value in values.items():
                    result[f"{kind}/{self._names[id(parameter)]}/{key}"] = _on_cpu(torch.as_tensor(value))
        for name, master in self.masters.items():
            if master is not self.weights[name]:
                result[f"master/{name}/value"] = _on_cpu(master)
        return result

    def load_state_dict(self, state: dict[str, Tensor], steps: int) -> None:
        """Take over what ``state_dict`` gave. Raises ``ConfigError`` if it belongs to another optimizer."""
        known = {*self.optimizers, "master"}
        for key in state:
            kind, name = key.split("/")[:2]
            if kind not in known or name not in self.weights:
                raise ConfigError(
                    f"the saved optimizer state has '{key}', which this {self.settings.kind} optimizer lacks; "
                    "resume with the optimizer.kind and the model that the run was started with"
                )
        for optimizer in self.optimizers.values():
            optimizer.state.clear()
        with torch.no_grad():
            for key, value in state.items():
                kind, name, field = key.split("/")
                master = self.masters[name]
                if kind == "master":
                    master.copy_(value)
                elif field == "step":
                    # AdamW keeps its step counter on the CPU, the 8-bit one as a number.
                    counted = int(value) if kind == EIGHT_BIT else value.clone()
                    self.optimizers[kind].state[master][field] = counted
                else:
                    self.optimizers[kind].state[master][field] = value.to(master.device).clone()
        self.steps = steps

    def reset_masters(self) -> None:
        """The weights were replaced: follow them."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                if self.masters[name] is not weight:
                    self.masters[name].copy_(weight)


def _on_cpu(values: Tensor) -> Tensor:
    return values.detach().to("cpu", copy=True)


def _add_to(master: Tensor) -> Callable[[Tensor], None]:
    """What moves a weight's gradient into its master's as soon as a backward pass has it."""

    def add(weight: Tensor) -> None:
        assert weight.grad is not None
        if master.grad is None:
            master.grad = weight.grad.float()
        else:
            master.grad.add_(weight.grad)
        weight.grad = None

    return add


def _adamw(
    kind: str, groups: list[dict[str, Any]], *, lr: float, betas: tuple[float, float]
) -> torch.optim.Optimizer:
    """AdamW over parameter groups, its moments in float32 or in 8 bit."""
    if kind != EIGHT_BIT:
        return torch.optim.AdamW(groups, lr=lr, betas=betas)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError:
        raise ConfigError(
            "policy.optimizer.kind is adamw8bit and bitsandbytes is not installed: pip install 'turnpoint[8bit]', or "
            "set policy.optimizer.kind=adamw"
        ) from None
    optimizer: torch.optim.Optimizer = AdamW8bit(groups, lr=lr, betas=betas)
    return optimizer


def _hidden_matrices(network: Network) -> set[str]:
    """Names of two-dimensional weights other than embeddings and the output layer."""
    outside = {id(network.head.weight)}
    for module in network.model.modules():
        if isinstance(module, nn.Embedding):
            outside.add(id(module.weight))
    return {
        name
        for name, weight in network.model.named_parameters()
        if weight.ndim == 2 and id(weight) not in outside
    }
