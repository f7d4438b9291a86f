"""Published step times, and what the cost model says about them: the residuals are the point.

Where a source does not say how long prompts, responses or episodes were, the case says what was assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnpoint.planning.cluster import Cluster, Efficiency
from turnpoint.planning.hardware import GPUS
from turnpoint.planning.shapes import KNOWN
from turnpoint.planning.step import step_time
from turnpoint.planning.workload import Workload

NEMO = "NVIDIA NeMo RL 0.4, performance summary (DGX H100, GRPO on OpenMathInstruct-2, BF16)"
SDAR = "a user's log, github.com/ZJU-REAL/SDAR issue 51 (4 A100 80 GB, Qwen2.5-3B, ALFWorld 16 x 8, 50 turns)"
PIVOTOPD = "PivotOPD, arXiv 2609.40285 (ALFWorld 16 x 8, 30 turns; hardware not known here)"
STRIDE = "STRIDE, arXiv 2609.14636 (tau2 retail, 4B student, 30B teacher, batch 24; hardware not known here)"


@dataclass(frozen=True, slots=True)
class Check:
    """A published number and the model's."""

    what: str
    source: str
    unit: str
    """``s``, or ``x`` for a ratio to a baseline of the same source."""
    published: float
    predicted: float
    assumed: str

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted / self.published

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "what": self.what, "source": self.source, "unit": self.unit, "published": self.published,
            "predicted": self.predicted, "ratio": self.ratio, "assumed": self.assumed,
        }  # fmt: skip


def checks(efficiency: Efficiency | None = None) -> list[Check]:
    """All published cases under the default assumptions, or others."""
    share = efficiency or Efficiency()
    return [*_nemo(share), *_sdar(share), *_pivotopd(share), *_stride(share)]


def _nemo(share: Efficiency) -> list[Check]:
    """Single-turn GRPO: 2,048 sequences of a published mean length, old and reference log-probs, one update."""
    found = []
    for name, gpus, wide, length, seconds in (
        ("Llama-3.1-8B", 16, 1, 1060, 97.7),
        ("Qwen3-30B-A3B", 32, 4, 3154, 225.0),
        ("Qwen3-32B", 32, 4, 3206, 393.0),
    ):
        work = Workload(
            tasks=64, group=32, turns=1, max_turns=1, opening_tokens=150, response_tokens=length - 150,
            longest_response=4096 - 150, forward_passes=2, env_seconds=0.0, reset_seconds=0.0, concurrent=2048,
        )  # fmt: skip
        cluster = Cluster(GPUS["h100"], gpus, share, tensor_parallel=wide, env_workers=2048)
        predicted = step_time(work, KNOWN[name], cluster).total
        assumed = "prompts of 150 tokens; the longest response meets the limit; two passes without a gradient"
        found.append(Check(f"step, {name}, {gpus} H100", NEMO, "s", seconds, predicted, assumed))
    return found


def _sdar(share: Efficiency) -> list[Check]:
    """A step of 3.83 million tokens: the only agent step whose parts are published with the hardware."""
    work = Workload(
        tasks=16, group=8, turns=50, max_turns=50, opening_tokens=380, observation_tokens=60, response_tokens=90,
        history=2, forward_passes=1, env_seconds=0.08, reset_seconds=1.0,
    )  # fmt: skip
    rescale = 3_830_959 / work.trained_tokens
    cluster = Cluster(GPUS["a100"], 4, share, env_workers=64, lockstep=True)
    time = step_time(work, KNOWN["Qwen2.5-3B"], cluster).seconds
    generation = time["generation"] + time["environment"] + time["driver"]
    assumed = (
        "90 tokens a response, ALFWorld steps of 0.08 s on 64 workers; tokens scaled to the published 3.83 M. The log "
        "is of small micro-batches (8 rows) with the reference model on the host"
    )
    rows = [
        ("gen", 424.6, generation),
        ("old_log_prob", 179.3, time["scoring"] * rescale),
        ("update_actor", 773.6, time["update"] * rescale),
    ]
    return [Check(f"{name} of a step", SDAR, "s", seconds, value, assumed) for name, seconds, value in rows]


def _pivotopd(share: Efficiency) -> list[Check]:
    """Step time over GRPO's: what the self-teacher's pass and K = 1, 2, 3 recovery turns add."""
    base = Workload(
        tasks=16, group=8, turns=22, max_turns=30, opening_tokens=450, observation_tokens=90, response_tokens=120,
        history=5, max_prompt_tokens=2048, forward_passes=1, env_seconds=0.1, reset_seconds=1.0,
    )  # fmt: skip
    cluster = Cluster(GPUS["h100"], 8, share, env_workers=64, lockstep=True)
    student = KNOWN["Qwen3-1.7B"]

    def total(**changes: Any) -> float:
        return step_time(base.model_copy(update=changes), student, cluster).total

    grpo = total()
    assumed = (
        "1.7B on 8 H100, 22 turns of 120 tokens, ALFWorld steps of 0.1 s and resets of 1 s on 64 workers"
    )
    hinted: dict[str, Any] = {"forward_passes": 1 + 5 / 22 + 0.5}
    found = [Check("self-teacher pass", PIVOTOPD, "x", 1.047, total(**hinted) / grpo, assumed)]
    for turns, ratio in ((1, 1.124), (2, 1.942), (3, 2.123)):
        changes = hinted | {"recoveries": 64, "recovery_turns": turns, "replay_turns": 10}
        found.append(Check(f"K = {turns}", PIVOTOPD, "x", ratio, total(**changes) / grpo, assumed))
    return found


def _stride(share: Efficiency) -> list[Check]:
    """Speed-up over full distillation, from how many turns are left to play."""
    base = Workload(
        tasks=24, group=1, turns=18, max_turns=40, opening_tokens=6000, observation_tokens=250, response_tokens=250,
        scoring=True, env_seconds=2.0, reset_seconds=0.5,
    )  # fmt: skip
    cluster = Cluster(GPUS["h100"], 8, share, env_workers=24, lockstep=True)
    student, teacher = KNOWN["Qwen3-4B"], KNOWN["Qwen3-30B-A3B"]
    full = step_time(base, student, cluster, teacher).total
    assumed = (
        "8 H100 shared with the teacher; 18 turns of 250 tokens up to 40, a user simulator of 2 s a turn; lambda -1 "
        "stops after 2 turns, -2 after 3, restarts take over 6 turns"
    )
    found = []
    for name, published, turns, restart in (
        ("lambda -1", 3.73, 2, 6.0),
        ("lambda -2", 2.34, 3, 6.0),
        ("lambda -1 without the buffer", 4.43, 2, 0.0),
        ("Fast OPD, 5 turns", 2.70, 5, 0.0),
    ):
        work = base.model_copy(
            update={
                "turns": float(turns), "max_turns": turns, "restart_turns": restart,
                "scoring_per_turn": not name.startswith("Fast"),
            }
        )  # fmt: skip
        predicted = full / step_time(work, student, cluster, teacher).total
        found.append(Check(f"speed-up of {name}", STRIDE, "x", published, predicted, assumed))
    return found


def scaled(share: Efficiency, factor: float) -> Efficiency:
    """The same assumptions with every share of the peak multiplied: how far the checks depend on them."""
    names = ("prefill_mfu", "scoring_mfu", "train_mfu", "decode_mbu", "decode_mfu")
    return share.model_copy(update={name: min(1.0, getattr(share, name) * factor) for name in names})
