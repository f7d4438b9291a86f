"""One update: rows to mini-batches of whole chains, to trees and micro-batches, to optimizer steps."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turnpoint.policy.local.batch import TokenBatch, gather_tokens, row_alone, row_names, select_rows
from turnpoint.policy.local.divergence import Teacher, read_teacher
from turnpoint.policy.local.forest import Tree, forest, sequence_trees
from turnpoint.policy.local.memory import Budget
from turnpoint.policy.local.merge import Item, chains, mini_batches
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.optim import NonFiniteGradient, Stepper
from turnpoint.policy.local.passes import MASK_ELEMENTS, tree_batches, tree_states
from turnpoint.policy.local.scorer import head_logprobs
from turnpoint.policy.loss import policy_loss
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.records import Row

ADDED = ("loss", "pg_loss", "kl")
"""Metrics that are shares of a mini-batch's total."""
AVERAGED = ("clip_fraction", "ppo_kl")
"""Metrics that are means over tokens."""


class Updater:
    """Trains a network on rows."""

    def __init__(
        self,
        network: Network,
        stepper: Stepper,
        settings: LocalPolicySettings,
        *,
        context: int,
        seed: int,
        reference: Network | None,
        budget: Budget,
    ) -> None:
        self.network, self.stepper, self.settings, self.budget = network, stepper, settings, budget
        self.context, self.seed, self.reference = context, seed, reference
        self.updates = 0
        self._teacher: Teacher | None = None

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        """One pass over the rows, an optimizer step per mini-batch; metrics of the whole.

        Raises ``NonFiniteGradient`` naming rows, before any step of the mini-batch it happens in.
        """
        began = time.perf_counter()
        kept, metrics = select_rows(
            rows, context=self.context, drop_zero_advantage=self.settings.loss.drop_zero_advantage_rows
        )
        items = [(row.prompt_ids, row.response_ids) for row in kept]
        groups = chains(items)
        totals: dict[str, float] = dict.fromkeys((*ADDED, *AVERAGED, "grad_norm", "lr"), 0.0)
        totals |= dict.fromkeys(("ratio_max", "tokens", "tokens_processed", "sequences"), 0.0)
        batches = self._mini_batches(groups)
        self._teacher = self._read_teacher(kept, freeze_head=len(batches) > 1)
        for number, batch in enumerate(batches):
            self._train(kept, items, batch, totals, metrics, number)
        for name in (*ADDED, "grad_norm", "lr"):
            totals[name] /= max(1, len(batches))
        for name in AVERAGED:
            totals[name] /= max(1.0, totals["tokens"])
        if self._teacher is not None:
            totals["divergence"] /= max(1.0, totals["divergence_tokens"])
        self._teacher = None
        self.updates += 1
        metrics |= totals
        metrics["optimizer_steps"] = float(len(batches))
        metrics["seconds"] = time.perf_counter() - began
        return metrics

    def _mini_batches(self, groups: list[list[int]]) -> list[list[list[int]]]:
        return mini_batches(groups, self.settings.mini_batch_rows, seed=self.seed, update=self.updates)

    def _trees(self, items: Sequence[Item], groups: Sequence[Sequence[int]], most: int) -> list[Tree]:
        """The chains of a mini-batch as what is computed, trees of at most ``most`` tokens."""
        chosen = [i for group in groups for i in group]
        if self.settings.merge_rows == "trees":
            return forest(items, token_budget=most, mask_elements=MASK_ELEMENTS, chosen=chosen)
        return sequence_trees(
            items, groups if self.settings.merge_rows == "chains" else [[i] for i in chosen]
        )

    def _train(
        self,
        rows: list[Row],
        items: Sequence[Item],
        groups: Sequence[Sequence[int]],
        totals: dict[str, float],
        metrics: dict[str, float],
        number: int,
    ) -> None:
        """Gradient of one mini-batch, micro-batch by micro-batch, and the step."""
        used = [i for group in groups for i in group]
        by_token = self.settings.loss.aggregation == "token-mean"
        denominator = float(sum(rows[i].trained_tokens for i in used) if by_token else len(used))

        def attempt(most: int) -> tuple[dict[str, float], npt.NDArray[np.float64]]:
            found = dict(totals)
            return found, self._gradient(rows, self._trees(items, groups, most), denominator, found, most)

        longest = max(len(prompt) + len(response) for prompt, response in (items[i] for i in used))
        found, difference = self.budget.run(attempt, longest)
        totals |= found
        norm = self.stepper.gradient_norm()
        if not np.isfinite(norm):
            self._explain(rows, used, denominator)
        totals["lr"] += self.stepper.step(norm)
        totals["grad_norm"] += norm
        if number == 0:
            metrics["logprob_diff_mean"] = float(difference.mean())
            metrics["logprob_diff_max"] = float(difference.max())

    def _gradient(
        self, rows: list[Row], batch: list[Tree], denominator: float, totals: dict[str, float], most: int
    ) -> npt.NDArray[np.float64]:
        """Leave the gradient of a mini-batch in the weights; how far its log-probs are from the recorded ones."""
        self.stepper.zero_grad()
        differences: list[npt.NDArray[np.float64]] = []
        with self.network.training(checkpointing=self.settings.gradient_checkpointing):
            for trees in tree_batches(batch, most):
                tokens = gather_tokens(rows, trees)
                new = self._backward(rows, tokens, denominator, totals)
                differences.append(np.abs(new - tokens.old))
                totals["tokens_processed"] += len(trees) * max(map(len, trees))
        totals["sequences"] += len(batch)
        return np.concatenate(differences)

    def _backward(
        self, rows: list[Row], tokens: TokenBatch, denominator: float, totals: dict[str, float]
    ) -> npt.NDArray[np.float64]:
        """Add a micro-batch's gradient and metrics; returns its new log-probs."""
        temperature = self.settings.temperature
        states, targets = tree_states(self.network, tokens.trees), self._tensor(tokens.targets)
        new = head_logprobs(self.network, states, targets, temperature)
        finite = torch.isfinite(new)
        if not bool(finite.all()):
            bad = self._not_finite(rows, tokens.rows[~finite.cpu().numpy()])
            raise NonFiniteGradient(
                f"log-probabilities of {row_names(rows, bad)} are not finite; no step was taken on them"
            )
        settings, reference = self.settings.loss, None
        if settings.kl > 0:
            assert self.reference is not None
            with torch.no_grad():
                frozen = tree_states(self.reference, tokens.trees)
                reference = head_logprobs(self.reference, frozen, targets, temperature)
        loss, values = policy_loss(
            new,
            self._tensor(tokens.old),
            self._tensor(tokens.advantages),
            torch.ones_like(new, dtype=torch.bool),
            clip=settings.clip,
            clip_high=settings.clip_high,
            dual_clip=settings.dual_clip,
            ratio=settings.ratio,
            aggregation=settings.aggregation,
            segments=self._tensor(tokens.rows),
            denominator=denominator,
            ref_logprobs=reference,
            kl=settings.kl,
        )
        if self._teacher is not None:
            loss = loss + self._divergence(self._teacher, states, rows, tokens, denominator, totals)
        loss.backward()  # type: ignore[no-untyped-call]
        for name in ADDED:
            totals[name] += values[name]
        for name in AVERAGED:
            totals[name] += values[name] * values["tokens"]
        totals["ratio_max"] = max(totals["ratio_max"], values["ratio_max"])
        totals["tokens"] += values["tokens"]
        return new.detach().double().cpu().numpy()

    def _read_teacher(self, rows: list[Row], *, freeze_head: bool) -> Teacher | None:
        def attempt(most: int) -> Teacher | None:
            return read_teacher(
                self.network,
                rows,
                token_budget=most,
                context=self.context,
                temperature=self.settings.temperature,
                freeze_head=freeze_head,
            )

        lengths = (
            len(row.teacher_prompt_ids or ()) + len(row.response_ids) for row in rows if row.divergence
        )
        return self.budget.run(attempt, max(lengths, default=0))

    def _divergence(
        self,
        teacher: Teacher,
        states: Tensor,
        rows: list[Row],
        tokens: TokenBatch,
        denominator: float,
        totals: dict[str, float],
    ) -> Tensor:
        """What the divergences of rows add to the loss, aggregated like the policy loss."""
        weights = np.full(len(tokens.rows), 1.0 / denominator)
        if self.settings.loss.aggregation == "seq-mean-token-mean":
            weights /= [rows[i].trained_tokens for i in tokens.rows]
        share = teacher.share(states, rows, tokens.rows, self._tensor(weights))
        for name, value in (
            ("loss", share.loss.item()),
            ("divergence", share.total),
            ("divergence_tokens", float(share.tokens)),
        ):
            totals[name] = totals.get(name, 0.0) + value
        return share.loss

    def _not_finite(self, rows: list[Row], suspects: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Suspects that are not finite on their own: NaN reaches the other branches of a tree through the mask."""
        guilty = []
        for i in np.unique(suspects):
            tokens = row_alone(rows, int(i))
            with torch.no_grad():
                states = tree_states(self.network, tokens.trees)
                alone = head_logprobs(self.network, states, self._tensor(tokens.targets), 1.0)
            if not bool(torch.isfinite(alone).all()):
                guilty.append(i)
        return np.asarray(guilty) if guilty else suspects

    def _explain(self, rows: list[Row], used: Sequence[int], denominator: float) -> None:
        """Find whose gradient is not finite, drop all gradients and raise."""
        guilty: list[int] = []
        for i in used:
            self.stepper.zero_grad()
            totals = dict.fromkeys((*ADDED, *AVERAGED, "ratio_max", "tokens"), 0.0)
            self._backward(rows, row_alone(rows, i), denominator, totals)
            if not np.isfinite(self.stepper.gradient_norm()):
                guilty.append(i)
        self.stepper.zero_grad()
        who = row_names(rows, np.asarray(guilty)) if guilty else "the sum of all rows"
        raise NonFiniteGradient(f"the gradient of {who} is not finite; no step was taken")

    def _tensor(self, values: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> Tensor:
        tensor = torch.from_numpy(values)
        return (tensor.float() if tensor.is_floating_point() else tensor).to(self.network.device)
