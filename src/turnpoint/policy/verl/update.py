"""One update: rows to mini-batches, and one ``update_actor`` call with one optimizer step for each."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray

from turnpoint.policy.local.batch import select_rows
from turnpoint.policy.local.merge import chains, mini_batches
from turnpoint.policy.local.optim import NonFiniteGradient
from turnpoint.policy.verl.batch import TokenSequence, fill_up, sequence_of, tensor_batch
from turnpoint.policy.verl.engine import VerlEngine
from turnpoint.policy.verl.errors import EngineError
from turnpoint.records import Row

METRICS = {
    "loss": "loss",
    "actor/pg_loss": "pg_loss",
    "kl_loss": "kl",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/ppo_kl": "ppo_kl",
    "grad_norm": "grad_norm",
    "lr": "lr",
}
"""verl's metrics of a mini-batch under our names; others are passed on under their own, led by ``verl/``."""


class Updater:
    """Trains verl's actor on rows."""

    def __init__(self, engine: VerlEngine, *, context: int, seed: int) -> None:
        self.engine, self.context, self.seed = engine, context, seed
        self.updates = 0
        self.optimizer_steps = 0

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        """One pass over the rows; metrics of the whole.

        Raises ``NonFiniteGradient`` if verl skipped a step, and ``EngineError`` if a worker died.
        """
        began = time.perf_counter()
        loss = self.engine.settings.loss
        kept, metrics = select_rows(
            rows, context=self.context, drop_zero_advantage=loss.drop_zero_advantage_rows
        )
        if any(row.divergence is not None for row in kept):
            raise ValueError("verl's loss has no divergence of whole distributions; train with backend=local")
        groups = chains([(row.prompt_ids, row.response_ids) for row in kept])
        batches = mini_batches(
            groups, self.engine.settings.mini_batch_rows, seed=self.seed, update=self.updates
        )
        self.engine.to_trainer()
        collected: list[dict[str, float]] = []
        for batch in batches:
            collected.append(self._step([[kept[i] for i in group] for group in batch]))
        self.updates += 1
        names = dict.fromkeys(name for found in collected for name in found)
        metrics |= {name: float(np.mean([m[name] for m in collected if name in m])) for name in names}
        for name in ("tokens", "tokens_processed", "sequences", "padding_sequences"):
            metrics[name] = sum(found[name] for found in collected)
        metrics["optimizer_steps"] = float(len(batches))
        metrics["seconds"] = time.perf_counter() - began
        return metrics

    def _step(self, groups: list[list[Row]]) -> dict[str, float]:
        """One mini-batch: one call, one optimizer step."""
        settings = self.engine.settings
        merge = settings.merge_rows == "chains"
        merge &= settings.loss.aggregation == "token-mean" and settings.loss.ratio == "token"
        parts = groups if merge else [[row] for group in groups for row in group]
        sequences = [sequence_of(part) for part in parts]
        full = fill_up(sequences, settings.gpus)
        try:
            metrics = self._train(full, len(sequences))
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"a training worker failed in an update of {sum(map(len, groups))} rows: {error}; "
                "resume from the last checkpoint"
            ) from error
        self.engine.weights_changed()
        self.optimizer_steps += 1
        if not math.isfinite(metrics.get("grad_norm", 0.0)):
            names = ", ".join(row.name for group in groups for row in group[:1])
            raise NonFiniteGradient(
                f"the gradient of a mini-batch is not finite; verl took no step on {names[:200]}"
            )
        metrics["tokens"] = float(sum(int(s.mask.sum()) for s in sequences))
        metrics["tokens_processed"] = float(sum(map(len, full)))
        metrics["sequences"] = float(len(sequences))
        metrics["padding_sequences"] = float(len(full) - len(sequences))
        return metrics

    def _train(self, full: list[TokenSequence], real: int) -> dict[str, float]:
        actor = self.engine.config.actor_rollout_ref.actor
        extra: dict[str, Any] = {
            "mini_batch_size": len(full),
            "epochs": 1,
            "seed": self.seed,
            "dataloader_kwargs": {"shuffle": False},
            "calculate_entropy": bool(actor.calculate_entropy or actor.entropy_coeff),
        }
        batch = tensor_batch(full, temperature=self.engine.settings.temperature, real=real, extra=extra)
        if self.engine.settings.loss.kl > 0:
            batch["ref_log_prob"] = self._reference(full, real)
        output = self.engine.workers.update_actor(batch)
        return renamed(output["metrics"])

    def _reference(self, full: list[TokenSequence], real: int) -> Any:
        from verl.workers.utils.padding import response_from_nested

        batch = tensor_batch(
            full, temperature=self.engine.settings.temperature, real=real, extra={"compute_loss": False}
        )
        output = self.engine.workers.compute_ref_log_prob(batch)
        return response_from_nested(output["log_probs"], batch["response_mask"]).float()


def renamed(metrics: dict[str, Any]) -> dict[str, float]:
    """verl's metrics of one step as plain numbers under our names."""
    result: dict[str, float] = {}
    for name, value in metrics.items():
        number = value.aggregate() if hasattr(value, "aggregate") else np.mean(value)
        result[METRICS.get(name, f"verl/{name.removeprefix('actor/')}")] = float(number)
    return result
