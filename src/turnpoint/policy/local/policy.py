"""The local policy: one Hugging Face model that samples, scores and learns in this process."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_model as load_weights

from turnpoint.config import ConfigError
from turnpoint.policy.local import checkpoint, load
from turnpoint.policy.local.engine import Engine
from turnpoint.policy.local.lora import Adapters
from turnpoint.policy.local.measure import divergences
from turnpoint.policy.local.memory import Budget, told
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.optim import Stepper
from turnpoint.policy.local.scorer import longest, score
from turnpoint.policy.local.selftest import check_network
from turnpoint.policy.local.supervised import supervised_step
from turnpoint.policy.local.update import Updater
from turnpoint.policy.protocol import Floats, PolicyCapabilities, Sample, SampleRequest, ScoreRequest, Which
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.sources import model_folder, weights_name
from turnpoint.records import Row

CPU_TOKENS = 2048
"""Tokens of one scoring or training pass on a CPU, whatever the budget: more overflow its caches (12 % slower)."""


class LocalPolicy:
    """A policy on one CPU or GPU. Not thread-safe."""

    def __init__(self, settings: LocalPolicySettings, *, seed: int) -> None:
        """Load the model; raises ``ConfigError`` if the folder or the settings cannot work."""
        torch.set_num_threads(settings.threads)
        self._folder = folder = model_folder(settings.model)
        load.check_folder(folder)
        device = load.choose_device(settings.device)
        model = load.load_model(folder, load.DTYPES[settings.dtype])
        self._tokenizer = load.load_tokenizer(folder, model)
        self._eos_ids = load.end_of_turn_ids(model, self._tokenizer)
        prefill_budget = settings.token_budget
        if device.type == "cpu":
            budget = min(settings.token_budget, CPU_TOKENS)
            settings = settings.model_copy(update={"token_budget": budget})
        self.settings = settings
        self.context_length = load.context_length(model.config, settings.context_length)
        adapters = None
        if settings.lora is not None:
            adapters = Adapters(model, settings.lora, seed=seed, base=settings.model)
        self.network = Network(model.to(device), device, adapters)
        check_network(self.network)
        asked = settings.loss.kl > 0 or settings.keep_reference or adapters is not None
        self._reference = self._freeze() if asked else None
        self.capabilities = PolicyCapabilities(
            reference=self._reference is not None, sessions=True, full_distribution=True
        )
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.engine = Engine(
            self.network,
            self._eos_ids,
            context=self.context_length,
            max_rows=settings.cache_rows,
            token_budget=prefill_budget,
        )
        self._stepper = Stepper(self.network, settings.optimizer)
        self._scoring = Budget(settings.token_budget, "scoring", settings=["dtype=bfloat16"])
        self._training = Budget(settings.token_budget, "the update")
        self._halvings = 0
        """How many of both were reported."""
        self._updater = Updater(
            self.network,
            self._stepper,
            settings,
            context=self.context_length,
            seed=seed,
            reference=self._reference,
            budget=self._training,
        )

    def _freeze(self) -> Network:
        """The weights as they are now: a copy, or the model with its adapters off."""
        if self.network.adapters is not None:
            return self.network.without_adapters()
        model = copy.deepcopy(self.network.model)
        return Network(model.requires_grad_(False), self.network.device)

    @property
    def temperature(self) -> float:
        """Sampling and training temperature."""
        return self.settings.temperature

    @property
    def tokenizer(self) -> Any:
        """The Hugging Face tokenizer, chat template included."""
        return self._tokenizer

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a turn."""
        return self._eos_ids

    def submit(self, request: SampleRequest) -> int:
        """Queue a model call; the ticket identifies its result. Raises ``ContextOverflow``."""
        return self.engine.submit(request)

    def advance(self) -> list[tuple[int, Sample]]:
        """Work on what is queued until at least one call finishes; empty list if nothing is queued.

        Raises ``ConfigError`` that says what to lower if memory runs out.
        """
        with told(
            f"memory ran out while {self.engine.in_flight} calls were sampled; lower rollout.concurrent or "
            f"policy.cache_rows ({self.settings.cache_rows}), play shorter episodes, or set policy.dtype=bfloat16"
        ):
            return self.engine.advance()

    def end_session(self, session: str) -> None:
        """Forget a session's cache; unknown names are ignored."""
        self.engine.end_session(session)

    def forget_sessions(self) -> None:
        """Forget every cache. Raises ``RuntimeError`` while calls are in flight."""
        self.engine.forget()

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        """Log-probabilities of each response token at the training temperature.

        ``which="reference"`` scores with the weights the policy was made with; raises ``ConfigError`` if these
        were not kept.
        """
        network = self.network if which == "live" else self._reference
        if network is None:
            raise ConfigError(
                "the initial weights were not kept, so the reference policy cannot score; "
                "set policy.keep_reference=true (or policy.loss.kl above 0)"
            )
        scorer = network

        def attempt(tokens: int) -> list[Floats]:
            return score(
                scorer,
                requests,
                temperature=self.settings.temperature,
                token_budget=tokens,
                context=self.context_length,
                prefixes=self.engine.table if which == "live" else None,
            )

        return self._scoring.run(attempt, longest(requests))

    def divergences(
        self, pairs: Sequence[tuple[ScoreRequest, ScoreRequest]], direction: str = "forward"
    ) -> list[Floats]:
        """Full-vocabulary divergence [len(response)] of each (teacher, student) pair, at the training temperature."""

        def attempt(tokens: int) -> list[Floats]:
            return divergences(
                self.network,
                pairs,
                direction=direction,
                temperature=self.settings.temperature,
                token_budget=tokens,
            )

        return self._scoring.run(attempt, longest(request for pair in pairs for request in pair))

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        """Train on all rows, one optimizer step per mini-batch; returns metrics."""
        self.engine.forget()
        return self._updater.update(rows) | self._out_of_memory()

    def supervised_update(
        self,
        sequences: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]],
        *,
        lr_scale: float = 1.0,
    ) -> dict[str, float]:
        """One optimizer step on ``sum(weight * cross-entropy) / sum(weight)``; returns metrics.

        Each sequence is token ids ``[n]`` and the weight ``[n]`` of predicting each token from those before it
        (the first is never trained); ``lr_scale`` multiplies the learning rate of this step, for schedules.
        """
        self.engine.forget()
        metrics = supervised_step(
            self.network,
            self._stepper,
            sequences,
            budget=self._training,
            context=self.context_length,
            checkpointing=self.settings.gradient_checkpointing,
            lr_scale=lr_scale,
        )
        return metrics | self._out_of_memory()

    def _out_of_memory(self) -> dict[str, float]:
        """How often passes were halved since the last update, in scoring or training."""
        before, self._halvings = self._halvings, self._scoring.halvings + self._training.halvings
        return {"out_of_memory": float(self._halvings - before)}

    def save(self, folder: Path) -> None:
        """Write model and tokenizer in Hugging Face form and the training state beside them, atomically.

        With adapters the model is written with them merged in, and they in ``adapter``, as peft writes them.
        """
        adapters = self.network.adapters
        counters: dict[str, Any] = {"optimizer_steps": self._stepper.steps, "updates": self._updater.updates}
        if adapters is not None:
            counters["base"] = weights_name(self._folder)
        with told(
            "memory ran out while a checkpoint was written: main memory must have room for a copy of the optimizer's "
            "state, and with policy.lora of the weights; set policy.optimizer.kind=adamw8bit, or use a smaller model"
        ):
            checkpoint.write(
                Path(folder),
                self.network.model,
                self._tokenizer,
                self._stepper.state_dict(),
                counters,
                None if self._reference is None or adapters is not None else self._reference.model,
                adapters,
            )

    def load(self, folder: Path) -> None:
        """Read back what ``save`` wrote: weights, reference, optimizer and counters, bitwise."""
        folder = Path(folder)
        optimizer, counters, reference = checkpoint.read_state(folder)
        if (self.network.adapters is None) == ("base" in counters):
            raise ConfigError(
                f"'{folder}' was saved {'with' if 'base' in counters else 'without'} policy.lora; resume with the "
                "settings the run was started with, or start a new run with policy.model set to it"
            )
        if self.network.adapters is not None:
            self._load_adapters(self.network.adapters, folder, str(counters["base"]))
        else:
            self._load_weights(folder, reference)
        self._stepper.reset_masters()
        self._stepper.load_state_dict(optimizer, counters["optimizer_steps"])
        self._updater.updates = counters["updates"]

    def _load_adapters(self, adapters: Adapters, folder: Path, base: str) -> None:
        if base != weights_name(self._folder):
            raise ConfigError(
                f"the adapters in '{folder}' belong to other weights than those of policy.model ({self._folder}); "
                f"resume with the model they were trained on, or start a new run with policy.model={folder}"
            )
        self.engine.forget()
        adapters.load(folder / checkpoint.ADAPTER)

    def _load_weights(self, folder: Path, reference: Path | None) -> None:
        if self._reference is not None and reference is None:
            raise ConfigError(
                f"'{folder}' was saved without reference weights, which policy.keep_reference or policy.loss.kl "
                "asks for; resume with the settings the run was started with"
            )
        fresh = load.load_model(folder, self.network.dtype)
        self.engine.forget()
        try:
            self.network.model.load_state_dict(fresh.state_dict())
        except RuntimeError as error:
            raise ConfigError(
                f"the weights in '{folder}' are of another model than policy.model: {error}; resume with the model "
                "that the run was started with"
            ) from error
        if self._reference is not None and reference is not None:
            load_weights(self._reference.model, str(reference), device=str(self.network.device))
