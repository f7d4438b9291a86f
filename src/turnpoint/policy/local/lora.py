"""Low-rank adapters (LoRA, arXiv 2106.09685) in a model's linear layers, through peft."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from turnpoint.config import ConfigError
from turnpoint.policy.settings import LoraSettings

ADAPTER = "default"
"""peft's name of the one adapter a model has."""
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
_PREFIX = "base_model.model."
"""What peft's files put in front of the names of a model's modules."""


class Adapters:
    """The adapters of one model: float32, the only weights that train."""

    def __init__(self, model: Any, settings: LoraSettings, *, seed: int, base: str) -> None:
        """Put adapters into ``model``, which changes nothing until they are trained; ``base`` names its weights.

        Raises ``ConfigError`` if peft is missing or the targets name no layer, or the output layer.
        """
        peft = _peft()
        from peft.tuners.lora import LoraLayer

        self.settings = settings
        self.config = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=settings.dropout,
            target_modules=settings.targets,
            task_type="CAUSAL_LM",
            fan_in_fan_out=any(type(module).__name__ == "Conv1D" for module in model.modules()),
            base_model_name_or_path=base,
        )
        head = model.get_output_embeddings()
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                peft.inject_adapter_in_model(self.config, model, ADAPTER)
        except ValueError as error:
            raise ConfigError(f"policy.lora.targets is {settings.targets!r}: {error}") from error
        self.layers: dict[str, Any] = {
            name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)
        }
        tied = [n for n, layer in self.layers.items() if isinstance(layer.get_base_layer(), nn.Embedding)]
        if model.get_output_embeddings() is not head or tied:
            raise ConfigError(
                f"policy.lora.targets is {settings.targets!r}, which includes embeddings or the output layer; an "
                "adapter there cannot be merged into tied weights: name layers inside the blocks, or use all-linear"
            )
        for layer in self.layers.values():
            layer.lora_A.float()
            layer.lora_B.float()

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside the block the model computes what it did before it had adapters; for passes without gradients."""
        for layer in self.layers.values():
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in self.layers.values():
                layer.enable_adapters(True)

    @contextmanager
    def dropping(self, seed: int) -> Iterator[None]:
        """Inside the block adapters drop inputs as the settings say, drawn from ``seed``."""
        if not self.settings.dropout:
            yield
            return
        drops = [layer.lora_dropout[ADAPTER] for layer in self.layers.values()]
        before = [(drop.p, drop.training) for drop in drops]
        try:
            with torch.random.fork_rng(devices=_gpus(self.layers)):
                torch.manual_seed(seed)
                for drop in drops:
                    drop.p, drop.training = self.settings.dropout, True
                yield
        finally:
            for drop, (p, training) in zip(drops, before, strict=True):
                drop.p, drop.training = p, training

    def merged_weights(self, model: Any) -> Iterator[tuple[str, Tensor]]:
        """Names and values of the weights without adapters that compute what ``model`` computes with them.

        Each adapted layer is merged when it is asked for: whoever lets go of it holds one at a time.
        """
        for name, value in model.state_dict().items():
            if ".lora_" not in name:
                plain = name.replace(".base_layer.", ".")
                layer = self.layers.get(plain.removesuffix(".weight"))
                yield plain, value.detach() if layer is None else _merge(value, layer)

    def merged(self, model: Any) -> Any:
        """A model to be saved, on the CPU: the merged weights under the names of one without adapters."""
        state = {name: value.cpu() for name, value in self.merged_weights(model)}
        with torch.device("meta"):
            plain = type(model)(model.config)
        plain.load_state_dict(state, assign=True)
        plain.tie_weights()
        plain.generation_config = model.generation_config
        return plain.eval()

    def save(self, folder: Path) -> None:
        """Write the adapters as peft does, so that ``PeftModel.from_pretrained(base, folder)`` reads them."""
        folder.mkdir(parents=True)
        tensors = {f"{_PREFIX}{name}": weight.detach().cpu() for name, weight in self._weights().items()}
        save_file({name: value.contiguous() for name, value in tensors.items()}, folder / WEIGHTS)
        self.config.inference_mode = True
        self.config.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Take over what ``save`` wrote. Raises ``ConfigError`` if it has other layers or another rank."""
        way_out = "resume with the policy.lora and the policy.model that the run was started with"
        try:
            found = load_file(folder / WEIGHTS)
        except (OSError, SafetensorError) as error:
            raise ConfigError(f"the adapters in '{folder}' cannot be read: {error}; {way_out}") from error
        weights = {f"{_PREFIX}{name}": weight for name, weight in self._weights().items()}
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        if shapes != {name: tuple(value.shape) for name, value in found.items()}:
            raise ConfigError(f"the adapters in '{folder}' are of other layers or another rank; {way_out}")
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(found[name])

    def _weights(self) -> dict[str, Tensor]:
        """Adapter weights by the names peft's files give them, without the prefix."""
        return {
            f"{name}.{part}.weight": getattr(layer, part)[ADAPTER].weight
            for name, layer in self.layers.items()
            for part in ("lora_A", "lora_B")
        }


@torch.no_grad()
def _merge(base: Tensor, layer: Any) -> Tensor:
    """The weight of an adapted layer with its adapter in it, in the precision of ``base``."""
    delta: Tensor = layer.get_delta_weight(ADAPTER)
    return (base.float() + delta.float()).to(base.dtype)


def _peft() -> Any:
    try:
        import peft
    except ImportError:
        raise ConfigError(
            "policy.lora is set and peft is not installed: pip install 'turnpoint[lora]', or leave policy.lora out to "
            "train all weights"
        ) from None
    return peft


def _gpus(layers: dict[str, Any]) -> list[int]:
    devices = {layer.lora_A[ADAPTER].weight.device for layer in layers.values()}
    return [device.index or 0 for device in devices if device.type == "cuda"]
