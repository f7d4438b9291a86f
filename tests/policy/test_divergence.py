"""Divergence losses: worked numbers, exact gradients, zero where teacher and student agree, bounded memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from turnpoint.credit import expected_logit_update, generalised_jsd, reverse_kl_advantages  # noqa: E402
from turnpoint.policy import ScoreRequest  # noqa: E402
from turnpoint.policy.local import LocalPolicy, scorer  # noqa: E402
from turnpoint.policy.local.divergence import divergence_values  # noqa: E402
from turnpoint.policy.local.optim import Stepper  # noqa: E402
from turnpoint.policy.loss import policy_loss  # noqa: E402
from turnpoint.records import Row  # noqa: E402
from turnpoint.records.row import DivergenceSpec  # noqa: E402

from .conftest import MakePolicy, episode_rows, random_ids  # noqa: E402

DIRECTIONS = ("forward", "reverse", "jsd")
BETA = {"forward": 0.0, "reverse": 1.0}


def logits(seed: int, n: int = 5, vocabulary: int = 11, scale: float = 3.0) -> Any:
    return scale * torch.randn(
        n, vocabulary, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def plain(student: Any, teacher: Any, direction: str, beta: float) -> Any:
    """The definition over the whole vocabulary, left to automatic differentiation."""
    q, p = torch.log_softmax(student, -1), torch.log_softmax(teacher, -1)
    if direction == "forward":
        return (p.exp() * (p - q)).sum(-1)
    if direction == "reverse":
        return (q.exp() * (q - p)).sum(-1)
    m = (beta * p.exp() + (1 - beta) * q.exp()).log()
    return beta * (p.exp() * (p - m)).sum(-1) + (1 - beta) * (q.exp() * (q - m)).sum(-1)


@pytest.mark.parametrize(
    ("direction", "expected"), [("jsd", 0.046201), ("forward", 0.183787), ("reverse", 0.192042)]
)
def test_worked_numbers(direction: str, expected: float) -> None:
    teacher, student = torch.tensor([[0.7, 0.3]]).log(), torch.tensor([[0.4, 0.6]]).log()
    value = divergence_values(student, teacher, direction=direction, beta=0.5)
    assert value.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("top_k", [None, 3])
def test_values_equal_the_reference(direction: str, top_k: int | None) -> None:
    student, teacher = logits(0), logits(1)
    value = divergence_values(student, teacher, direction=direction, beta=0.3, top_k=top_k)
    q, p = torch.log_softmax(student, -1), torch.log_softmax(teacher, -1)
    if top_k is not None:
        picks = p.topk(top_k).indices
        p, q = p.gather(-1, picks), q.gather(-1, picks)
    beta = BETA.get(direction, 0.3)
    expected = generalised_jsd(p.numpy(), q.numpy(), beta=beta, tail=top_k is not None)
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_gradient_is_that_of_the_plain_definition(direction: str, beta: float) -> None:
    upstream = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    ours, other = (logits(2).requires_grad_() for _ in range(2))
    teacher = logits(3)
    (divergence_values(ours, teacher, direction=direction, beta=beta) * upstream).sum().backward()
    (plain(other, teacher, direction, beta) * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, other.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("top_k", [None, 1, 4])
def test_gradient_agrees_with_finite_differences(direction: str, top_k: int | None) -> None:
    teacher = logits(5, n=2)

    def value(student: Any) -> Any:
        return divergence_values(student, teacher, direction=direction, beta=0.4, top_k=top_k)

    assert torch.autograd.gradcheck(value, (logits(4, n=2).requires_grad_(),))


@given(
    st.integers(0, 10_000),
    st.sampled_from(DIRECTIONS),
    st.floats(0.05, 0.95),
    st.integers(1, 12),
    st.floats(0.01, 60.0),
)
def test_never_negative_and_top_k_is_at_most_the_whole(
    seed: int, direction: str, beta: float, top_k: int, scale: float
) -> None:
    student, teacher = logits(seed, scale=scale).float(), logits(seed + 1, scale=scale).float()
    whole = divergence_values(student, teacher, direction=direction, beta=beta)
    part = divergence_values(student, teacher, direction=direction, beta=beta, top_k=top_k)
    assert (part >= 0).all()
    assert (part <= whole * (1 + 1e-4) + 1e-5).all()
    near = divergence_values(teacher + 1e-4 * student, teacher, direction=direction, beta=beta, top_k=top_k)
    assert (near >= 0).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("top_k", [None, 4])
@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
def test_equal_distributions_give_exactly_zero(direction: str, top_k: int | None, scale: float) -> None:
    teacher = logits(6, scale=scale).float()
    student = teacher.clone().requires_grad_()
    value = divergence_values(student, teacher, direction=direction, beta=0.3, top_k=top_k)
    value.sum().backward()
    assert value.tolist() == [0.0] * 5
    assert not student.grad.any()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("top_k", [None, 2])
def test_extreme_logits_stay_finite(direction: str, top_k: int | None) -> None:
    student = torch.tensor([[0.0, -1e4, 200.0], [0.0, 0.0, -torch.inf]]).requires_grad_()
    teacher = torch.tensor([[0.0, 1e4, -300.0], [0.0, 1.0, -torch.inf]])
    value = divergence_values(student, teacher, direction=direction, beta=0.5, top_k=top_k)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(student.grad).all()


# ---- sampled signals: an advantage keeps the teacher, a differentiable difference loses it ----------------


def expected_gradient(student: Any, teacher: Any, *, as_loss: bool) -> Any:
    """Gradient over the logits [V] of the mean update, every token weighted by its probability."""
    z = student.clone().requires_grad_()
    logprobs = torch.log_softmax(z, -1)
    old, target = logprobs.detach(), torch.log_softmax(teacher, -1)
    total = torch.zeros((), dtype=torch.float64)
    for token in range(len(student)):
        if as_loss:  # the sampled k1 difference log pi - log pi_T, differentiated through pi
            loss = logprobs[token] - target[token]
        else:
            advantage = reverse_kl_advantages(
                target[token : token + 1].numpy(), old[token : token + 1].numpy()
            )
            ones = torch.ones(1, dtype=torch.bool)
            loss, _ = policy_loss(
                logprobs[token : token + 1], old[token : token + 1], torch.tensor(advantage), ones
            )
        total = total + old[token].exp() * loss
    total.backward()
    return z.grad


def test_sampled_advantages_have_the_exact_reverse_kl_gradient() -> None:
    student, teacher = logits(7, n=1)[0], logits(8, n=1)[0]
    z = student.clone().requires_grad_()
    divergence_values(z[None], teacher[None], direction="reverse").sum().backward()
    sampled = expected_gradient(student, teacher, as_loss=False)
    torch.testing.assert_close(sampled, z.grad, rtol=1e-5, atol=1e-7)
    p, q = (torch.softmax(x, -1).numpy() for x in (student, teacher))
    update = expected_logit_update(p, p, reverse_kl_advantages(np.log(q), np.log(p)))
    np.testing.assert_allclose(z.grad.numpy(), -update, atol=1e-9)


def test_a_differentiable_sampled_difference_would_lose_the_teacher() -> None:
    """Why the difference is an advantage: as a loss its expected gradient is zero, whatever the teacher."""
    student = logits(7, n=1)[0]
    for seed in (8, 9):
        assert expected_gradient(student, logits(seed, n=1)[0], as_loss=True).abs().max() < 1e-12
    one, two = (expected_gradient(student, logits(seed, n=1)[0], as_loss=False) for seed in (8, 9))
    assert (one - two).abs().max() > 0.01


# ---- the update ---------------------------------------------------------------------------------------


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``gradients(policy, rows)``: flat gradients of the steps of one update, and its metrics."""
    caught: list[Any] = []
    step = Stepper.step

    def spy(self: Stepper, norm: float, *rest: Any) -> float:
        parts = [w.grad if w.grad is not None else torch.zeros_like(w) for w in self.weights.values()]
        caught.append(torch.cat([part.flatten().float() for part in parts]).clone())
        return step(self, norm, *rest)

    monkeypatch.setattr(Stepper, "step", spy)

    def run(policy: LocalPolicy, rows: list[Row]) -> tuple[list[Any], dict[str, float]]:
        caught.clear()
        return (metrics := policy.update(rows)) and list(caught), metrics

    return run


def taught(rows: list[Row], spec: DivergenceSpec, seed: int = 3, every: int = 1) -> list[Row]:
    """Rows with a privileged prompt: a few tokens more."""
    rng = np.random.default_rng(seed)
    return [
        dataclasses.replace(row, teacher_prompt_ids=(*random_ids(rng, 4), *row.prompt_ids), divergence=spec)
        if i % every == 0
        else row
        for i, row in enumerate(rows)
    ]


def rows_for(policy: LocalPolicy, *, mask: bool = True, zero: bool = False) -> list[Row]:
    rng = np.random.default_rng(5)
    rows = [row for e in range(4) for row in episode_rows(policy, rng, turns=e + 1, name=f"e{e}", mask=mask)]
    return [dataclasses.replace(row, advantages=row.advantages * 0) for row in rows] if zero else rows


def close(a: Any, b: Any, tolerance: float = 1e-5) -> bool:
    return float((a - b).norm() / b.norm()) <= tolerance


def model_logits(policy: LocalPolicy, prompt: tuple[int, ...], response: tuple[int, ...]) -> Any:
    """Logits [len(response), V] straight from the Hugging Face model."""
    ids = torch.tensor([[*prompt, *response]])
    return policy.network.model(input_ids=ids).logits[0, len(prompt) - 1 : -1]


@pytest.mark.parametrize(
    "spec",
    [
        DivergenceSpec("forward"),
        DivergenceSpec("reverse", weight=0.3),
        DivergenceSpec("jsd", beta=0.2, top_k=5),
    ],
)
@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_update_equals_the_plain_definition(
    make_policy: MakePolicy, gradients: Any, spec: DivergenceSpec, aggregation: str, kind: str
) -> None:
    policy = make_policy(kind, temperature=0.7, loss={"aggregation": aggregation})
    rows = taught(rows_for(policy, zero=True), spec, every=2)
    (flat,), metrics = gradients(policy, rows)

    other = make_policy(kind)
    total, values = torch.zeros(()), []
    tokens = sum(row.trained_tokens for row in rows)
    for row in rows:
        if row.divergence is None:
            continue
        keep = torch.ones(len(row.response_ids), dtype=torch.bool)
        if row.mask is not None:
            keep = torch.from_numpy(row.mask)
        with torch.no_grad():
            teacher = model_logits(other, row.teacher_prompt_ids, row.response_ids)[keep] / 0.7
        student = model_logits(other, row.prompt_ids, row.response_ids)[keep] / 0.7
        if spec.top_k is None:
            value = plain(student, teacher, spec.direction, spec.beta)
        else:
            value = divergence_values(
                student, teacher, direction=spec.direction, beta=spec.beta, top_k=spec.top_k
            )
        values += value.tolist()
        scale = {
            "token-mean": 1 / tokens,
            "seq-mean-token-mean": 1 / (row.trained_tokens * len(rows)),
            "seq-mean-token-sum": 1 / len(rows),
        }[aggregation]
        total = total + spec.weight * scale * value.sum()
    total.backward()
    expected = torch.cat([w.grad.flatten() for w in other.network.model.parameters()])
    assert close(flat, expected, 2e-5)
    assert metrics["loss"] == pytest.approx(total.item(), rel=1e-4)
    assert metrics["divergence"] == pytest.approx(np.mean(values), rel=1e-4)
    assert metrics["divergence_tokens"] == len(values)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradient_does_not_depend_on_merging_micro_batches_chunks_or_order(
    make_policy: MakePolicy, gradients: Any, monkeypatch: pytest.MonkeyPatch, direction: str
) -> None:
    base = make_policy()
    rows = taught(rows_for(base), DivergenceSpec(direction, top_k=7), every=2)  # type: ignore[arg-type]
    (expected,), metrics = gradients(base, rows)
    for settings in ({"merge_rows": False}, {"token_budget": 40}, {"gradient_checkpointing": True}):
        (flat,), other = gradients(make_policy(**settings), rows)
        assert close(flat, expected), settings
        assert other["loss"] == pytest.approx(metrics["loss"], rel=1e-4)
    order = np.random.default_rng(0).permutation(len(rows))
    assert close(gradients(make_policy(), [rows[i] for i in order])[0][0], expected)
    monkeypatch.setattr(scorer, "LOGIT_ELEMENTS", 8 * 64)
    assert close(gradients(make_policy(), rows)[0][0], expected)


def test_rows_without_divergence_train_as_before(make_policy: MakePolicy, gradients: Any) -> None:
    policy = make_policy()
    rows = rows_for(policy)
    (expected,), metrics = gradients(policy, rows)
    (flat,), _ = gradients(make_policy(), taught(rows, DivergenceSpec("jsd", weight=0.0)))
    assert torch.equal(flat, expected)
    assert "divergence" not in metrics


def test_the_teachers_context_moves_the_gradient_and_no_context_is_no_teacher(
    make_policy: MakePolicy, gradients: Any
) -> None:
    rows = rows_for(make_policy(), zero=True)
    spec = DivergenceSpec("jsd")
    one, two = (gradients(make_policy(), taught(rows, spec, seed=s))[0][0] for s in (1, 2))
    assert not close(one, two, 0.1)
    same = [dataclasses.replace(row, teacher_prompt_ids=row.prompt_ids, divergence=spec) for row in rows]
    (flat,), metrics = gradients(make_policy(), same)
    assert metrics["divergence"] < 1e-9
    assert flat.norm() < 1e-5 * one.norm()


def test_the_teacher_stays_at_the_weights_of_the_start(make_policy: MakePolicy, gradients: Any) -> None:
    """The second step of an update still compares with the teacher from before the first."""
    policy = make_policy(mini_batch_rows=1, optimizer={"lr": 0.05}, merge_rows=False)
    row = taught(rows_for(policy, zero=True)[:1], DivergenceSpec("forward"))[0]
    before = make_policy()
    flats, _ = gradients(policy, [row, row])
    assert len(flats) == 2
    moved = make_policy(optimizer={"lr": 0.05})
    moved.update([row])
    with torch.no_grad():
        teacher = model_logits(before, row.teacher_prompt_ids, row.response_ids)
    student = model_logits(moved, row.prompt_ids, row.response_ids)
    plain(student, teacher, "forward", 0.0).mean().backward()
    expected = torch.cat([w.grad.flatten() for w in moved.network.model.parameters()])
    assert close(flats[1], expected, 1e-4)


def test_descending_the_divergence_brings_the_student_to_its_teacher(make_policy: MakePolicy) -> None:
    policy = make_policy(optimizer={"lr": 3e-3})
    spec = DivergenceSpec("jsd")
    rows = taught(rows_for(policy, zero=True)[:3], spec)
    values = [policy.update(rows)["divergence"] for _ in range(12)]
    assert values[-1] < 0.5 * values[0]


def test_reduced_precision_gives_nearly_the_same_value(make_policy: MakePolicy) -> None:
    full, half = make_policy(), make_policy(dtype="bfloat16", mini_batch_rows=2)
    rows = taught(rows_for(full, zero=True), DivergenceSpec("jsd", top_k=20))
    one, two = full.update(rows), half.update(rows)
    assert two["divergence"] == pytest.approx(one["divergence"], rel=0.1)
    assert np.isfinite(two["grad_norm"])


def test_zero_advantage_rows_with_a_divergence_are_kept(make_policy: MakePolicy) -> None:
    policy = make_policy(loss={"drop_zero_advantage_rows": True})
    rows = taught(rows_for(policy, zero=True), DivergenceSpec("jsd"), every=2)
    metrics = policy.update(rows)
    assert metrics["rows"] == (len(rows) + 1) // 2


def test_privileged_prompts_that_do_not_fit_are_an_error_that_names_the_row(make_policy: MakePolicy) -> None:
    policy = make_policy(context_length=64)
    row = rows_for(policy)[0]
    long = dataclasses.replace(row, teacher_prompt_ids=(2,) * 70, divergence=DivergenceSpec("jsd"))
    with pytest.raises(ValueError, match="e0#0:act: its privileged prompt has 70"):
        policy.update([long])


def test_logits_of_few_positions_exist_at_a_time(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peak of vocabulary-sized tensors: bounded by the chunk, not by the number of tokens."""
    policy = make_policy(model={"vocab": 512})
    shapes: list[int] = []
    logits_of = type(policy.network).logits

    def spy(self: Any, hidden: Any, head: Any = None) -> Any:
        shapes.append(hidden.shape[0])
        return logits_of(self, hidden, head)

    rng = np.random.default_rng(0)
    request = ScoreRequest(random_ids(rng, 5), random_ids(rng, 150))
    old = policy.logprobs([request])[0]
    row = Row(
        request.prompt_ids,
        request.response_ids,
        old,
        np.zeros(150),
        teacher_prompt_ids=random_ids(rng, 9),
        divergence=DivergenceSpec("jsd"),
    )
    monkeypatch.setattr(type(policy.network), "logits", spy)
    monkeypatch.setattr(scorer, "LOGIT_ELEMENTS", 64 * 512)
    policy.update([row])
    assert max(shapes) <= 64
    assert sum(shapes) >= 300


def test_specs_and_rows_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        DivergenceSpec("jsd", beta=1.0)
    with pytest.raises(ValueError, match="forward, reverse or jsd"):
        DivergenceSpec("both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        DivergenceSpec("jsd", top_k=0)
    one = np.zeros(1)
    with pytest.raises(ValueError, match="come together"):
        Row((1,), (2,), one, one, divergence=DivergenceSpec("jsd"))
    with pytest.raises(ValueError, match="come together"):
        Row((1,), (2,), one, one, teacher_prompt_ids=(1,))
