"""Assertions about samples: their log-probs, their seeds, how turns end, and what does not fit."""

from __future__ import annotations

from turnpoint.policy.protocol import ContextOverflow, SampleRequest
from turnpoint.testing.conformance.bench import Bench
from turnpoint.testing.conformance.outcome import Measured, NotSeen

_LONG = 4096
"""Contexts longer than this are not filled."""


def sampler_equals_trainer(bench: Bench) -> Measured:
    """The sampler's log-probs are the trainer's, in first turns and in turns that extend a session."""
    bench.back()
    bench.policy.forget_sessions()
    requests = [bench.request(bench.ids(4 + 7 * i), i, session=f"s{i}") for i in range(4)]
    samples = bench.sample(requests)
    more = [
        bench.request((*r.prompt_ids, *s.token_ids, *bench.ids(3)), 10 + i, session=r.session)
        for i, (r, s) in enumerate(zip(requests, samples, strict=True))
    ]
    later = bench.sample(more)
    for request in requests:
        bench.policy.end_session(request.session)
    gap = bench.gap_to_trainer([*requests, *more], [*samples, *later])
    return Measured(
        gap,
        bench.bounds.logprob,
        f"log-probs of sampler and trainer differ by up to {gap:.2g} nats over two turns of four episodes",
        "the temperature, data type and kernels of both sides, and the positions of cached prompts",
    )


def same_seed_same_sample(bench: Bench) -> Measured:
    """A call's sample depends on its seed, and not on what else is in the batch."""
    bench.back()
    requests = [bench.request(bench.ids(3 + 5 * i), 100 + i) for i in range(6)]
    bench.policy.forget_sessions()
    first = bench.sample(requests)
    bench.policy.forget_sessions()
    again = bench.sample(requests)
    bench.policy.forget_sessions()
    other = bench.sample([*reversed(requests[:3]), bench.request(bench.ids(9), 7)])[:3]
    unlike = bench.sample([SampleRequest(r.prompt_ids, r.seed + 1000, r.sampling) for r in requests])
    pairs = [*zip(first, again, strict=True), *zip(first[:3], reversed(other), strict=True)]
    share = sum(a.token_ids != b.token_ids for a, b in pairs) / len(pairs)
    if all(a.token_ids == b.token_ids for a, b in zip(first, unlike, strict=True)):
        return Measured(
            1.0, bench.bounds.samples, "six calls with other seeds gave the same tokens", "what uses the seed"
        )
    return Measured(
        share,
        bench.bounds.samples,
        f"{share:.0%} of {len(pairs)} calls gave other tokens when they were repeated with their seeds",
        "where each call's random stream comes from; it must be the request's seed alone",
    )


def turns_end(bench: Bench) -> Measured:
    """A sample ends with an end token or at its limit, says which, and has no end token before."""
    bench.back()
    wrong = ended = cut = 0
    asked = bench.chat()
    for round_ in range(8):
        prompts = [bench.ids(6) for _ in range(12)] + ([asked] * 4 if asked else [])
        requests = [bench.request(p, 1000 * round_ + i, tokens=24) for i, p in enumerate(prompts)]
        for request, sample in zip(requests, bench.sample(requests), strict=True):
            ids, ends = sample.token_ids, bench.policy.eos_ids
            whole = bool(ids) and ids[-1] in ends
            bad = not ids or len(sample.logprobs) != len(ids) or any(i in ends for i in ids[:-1])
            bad |= sample.truncated == whole or (not whole and len(ids) != request.sampling.max_tokens)
            wrong, ended, cut = wrong + bad, ended + whole, cut + (not whole)
        if wrong or (ended and cut):
            break
    if not wrong and not ended:
        raise NotSeen(
            f"no end token was sampled in {cut} calls, so only the limit was seen; "
            "use a model that ends its turns"
        )
    return Measured(
        float(wrong),
        0.0,
        f"{ended} samples ended their turn, {cut} met their limit, {wrong} are wrong",
        "whether the end token stays in the sample with its log-prob, and what `truncated` says",
    )


def overflow_is_typed(bench: Bench) -> Measured:
    """A prompt that leaves no room is refused with ``ContextOverflow``, and the policy goes on."""
    bench.back()
    context, wrong = bench.policy.context_length, 0
    said: list[str] = []
    for length in (context, context + 1):
        prompt = (bench.ids(64) * (length // 64 + 1))[:length]
        try:
            bench.policy.submit(bench.request(prompt, 0))
            while bench.policy.advance():
                pass
        except ContextOverflow as error:
            if str(context) not in str(error):
                wrong, said = wrong + 1, [*said, "the message does not say the context length"]
        else:
            wrong, said = wrong + 1, [*said, f"a prompt of {length} tokens was taken"]
    if context <= _LONG:
        prompt = (bench.ids(64) * (context // 64 + 1))[: context - 2]
        (sample,) = bench.sample([bench.request(prompt, 0, tokens=8)])
        if len(sample.token_ids) > 2:
            wrong, said = wrong + 1, [*said, f"{len(sample.token_ids)} tokens came where 2 fit"]
    if not bench.sample([bench.request(bench.ids(4), 1)])[0].token_ids:
        wrong, said = wrong + 1, [*said, "no sample came after the refusal"]
    return Measured(
        float(wrong),
        0.0,
        "; ".join(said) or f"prompts of {context} tokens and more were refused, and sampling went on",
        "what submit raises where prompt plus one token exceed context_length",
    )
