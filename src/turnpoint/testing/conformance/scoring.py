"""Assertions about scores: where they lie, that they change nothing, and that a teacher like the student says 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turnpoint.policy.protocol import ScoreRequest
from turnpoint.testing.conformance.bench import Bench, largest
from turnpoint.testing.conformance.outcome import Measured, NotSeen


def scores_aligned(bench: Bench) -> Measured:
    """Entry i is the log-prob of response token i given all before it: another last token moves the last score only.

    The score also does not depend on where the prompt ends, on the order of requests, or on their company.
    """
    bench.back()
    prompt, response = bench.ids(8), bench.ids(6)
    others = [token for token in bench.ids(24) if token != response[-1]][:4]
    requests = [ScoreRequest(prompt, response), ScoreRequest((*prompt, *response[:3]), response[3:])]
    requests += [ScoreRequest(prompt, (*response[:-1], token)) for token in others]
    requests += [ScoreRequest(prompt, response[:1]), ScoreRequest(bench.ids(40), bench.ids(2))]
    values = bench.policy.logprobs(requests)
    shapes = [
        value.shape == (len(request.response_ids),) for request, value in zip(requests, values, strict=True)
    ]
    if not all(shapes):
        return Measured(
            float("inf"), 0.0, "a request came back with another number of scores than response tokens",
            "how scores are cut from the answer",
        )  # fmt: skip
    whole, tail, changed = values[0], values[1], values[2 : 2 + len(others)]
    gap = max(float(np.abs(other[:-1] - whole[:-1]).max()) for other in changed)
    gap = max(gap, float(np.abs(tail - whole[3:]).max()), abs(float(values[2 + len(others)][0] - whole[0])))
    gap = max(gap, largest(bench.policy.logprobs(list(reversed(requests)))[::-1], values))
    last = max(abs(float(other[-1] - whole[-1])) for other in changed)
    if last <= max(gap, 1e-6):
        gap = float("inf")
    return Measured(
        gap,
        bench.bounds.logprob,
        f"another last token moved its own score by {last:.2g} nats; scores that must not move did by {gap:.2g}",
        "a shift by one position: score i belongs to response token i, predicted from everything before it",
    )


def teacher_like_student(bench: Bench) -> Measured:
    """With the student's weights a teacher's advantage is 0 on every token, one-token responses included."""
    bench.back()
    if bench.teacher is not None:
        who, scored = "the scoring teacher", [np.asarray(v) for v in bench.teacher(bench.probes)]
    elif bench.policy.capabilities.reference:
        who, scored = "the reference policy", bench.policy.logprobs(bench.probes, which="reference")
    else:
        who, alone = "the student, asked one by one,", []
        for request in bench.probes:
            alone += bench.policy.logprobs([request])
        scored = alone
    gap = largest(scored, bench.first)
    return Measured(
        gap,
        bench.bounds.logprob,
        f"{who} with the student's weights has advantages up to {gap:.2g}",
        "the teacher's weights, temperature and positions",
    )


def only_updates_change_weights(bench: Bench) -> Measured:
    """Sampling and scoring, also with the reference weights, leave the weights alone, before and after an update."""
    bench.need_base()
    if not bench.changed:  # the base update was undone meanwhile
        bench.train(bench.rows)
    before, wanted = bench.scores(), bench.first
    reference_gap = 0.0
    if bench.policy.capabilities.reference:
        reference_gap = largest(bench.policy.logprobs(bench.probes, which="reference"), wanted)
    bench.sample([bench.request(bench.ids(5), i) for i in range(3)])
    after = largest(bench.scores(), before)
    bench.back()
    before = bench.scores()
    bench.sample([bench.request(bench.ids(5), i) for i in range(3)])
    gap = max(reference_gap, after, largest(bench.scores(), before))
    return Measured(
        gap,
        bench.bounds.logprob,
        f"log-probs moved by {gap:.2g} nats while the policy only sampled and scored (reference: {reference_gap:.2g})",
        "whether scoring loads older weights into the live model, and whether the reference stays the first policy",
    )


def updates_reach_the_sampler(bench: Bench) -> Measured:
    """After an update the sampler speaks with the new weights, and cached prompts of the old ones are gone."""
    bench.back()
    old = [bench.request(bench.ids(5 + 3 * i), 50 + i, session=f"u{i}") for i in range(3)]
    bench.sample(old)
    bench.train(bench.rows)
    new = [replace(request, seed=request.seed + 1) for request in old]
    samples = bench.sample(new)
    for request in old:
        bench.policy.end_session(request.session)
    gap = bench.gap_to_trainer(new, samples)
    moved = float(np.abs(np.concatenate(bench.scores()) - np.concatenate(bench.first)).max())
    if moved <= bench.bounds.moved:
        raise NotSeen(
            f"the update moved log-probs by {moved:.2g} nats, too little to tell old weights from new"
        )
    return Measured(
        gap,
        min(bench.bounds.logprob, moved / 2),
        f"after an update log-probs of sampler and trainer differ by up to {gap:.2g} nats",
        "when new weights are sent to the sampler, and whether its prefix cache is dropped then",
    )
