"""The policy over vLLM's names: a stand-in with a model of its own shows whether weights and caches follow."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.policy import ContextOverflow, SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.settings import policy_registry
from turnpoint.policy.vllm import VllmPolicySettings
from turnpoint.policy.vllm.contract import breaches
from turnpoint.policy.vllm.policy import VllmPolicy
from turnpoint.records import Row
from turnpoint.testing import fake_vllm

from .conftest import EOS, finish, random_ids

Make = Callable[..., VllmPolicy]


@pytest.fixture
def fake() -> Iterator[type[fake_vllm.LLM]]:
    with fake_vllm.installed() as engine:
        yield engine


@pytest.fixture
def make(model_folder: Callable[..., Path], fake: type[fake_vllm.LLM]) -> Make:
    def build(kind: str = "qwen3", **settings: Any) -> VllmPolicy:
        optimizer = {"lr": 0.05}
        data = {"kind": "vllm", "model": str(model_folder(kind)), "device": "cpu", "optimizer": optimizer}
        return policy_registry.parse(data | settings).build(seed=0)  # type: ignore[return-value]

    return build


def play(policy: Any, *, calls: int = 4, turns: int = 3, seed: int = 0) -> list[tuple[SampleRequest, Any]]:
    """Growing conversations, all calls of a turn at once."""
    rng = np.random.default_rng(seed)
    histories: list[tuple[int, ...]] = [()] * calls
    pairs = []
    for turn in range(turns):
        sampling = Sampling(temperature=policy.temperature, max_tokens=6)
        requests = [
            SampleRequest(h + random_ids(rng, 5), seed=100 * turn + n, sampling=sampling, session=f"e{n}")
            for n, h in enumerate(histories)
        ]
        tickets = [policy.submit(request) for request in requests]
        samples = finish(policy)
        pairs += [(request, samples[ticket]) for request, ticket in zip(requests, tickets, strict=True)]
        histories = [request.prompt_ids + sample.token_ids for request, sample in pairs[-calls:]]
    return pairs


def rows_of(pairs: list[tuple[SampleRequest, Any]]) -> list[Row]:
    rng = np.random.default_rng(1)
    return [
        Row(
            r.prompt_ids, s.token_ids, np.array(s.logprobs), rng.normal(size=len(s.token_ids)), episode=str(n)
        )
        for n, (r, s) in enumerate(pairs)
    ]


def largest_gap(policy: Any, pairs: list[tuple[SampleRequest, Any]]) -> float:
    scored = policy.logprobs([ScoreRequest(r.prompt_ids, s.token_ids) for r, s in pairs])
    return max(float(np.abs(np.array(s.logprobs) - v).max()) for (_, s), v in zip(pairs, scored, strict=True))


@pytest.mark.parametrize(
    ("kind", "temperature"), [("qwen3", 1.0), ("qwen3", 0.7), ("llama", 0.7), ("gemma3", 1.0)]
)
def test_sampler_and_trainer_agree_before_and_after_updates(
    make: Make, kind: str, temperature: float
) -> None:
    policy = make(kind, temperature=temperature)
    tokens = []
    for _ in range(3):
        pairs = play(policy)
        assert largest_gap(policy, pairs) < 1e-5
        tokens.append([sample.token_ids for _, sample in pairs])
        metrics = policy.update(rows_of(pairs))
        assert metrics["sampler_diff_max"] < 1e-5
        assert metrics["sampler_mismatch"] == 0.0
        assert metrics["sampler_diff_tokens"] > 20
        assert metrics["sampler_calls"] == len(pairs)
        assert metrics["sampler_tokens"] == sum(len(sample.token_ids) for _, sample in pairs)
        assert 0.3 < metrics["sampler_cached_prompt"] < 1.0
    assert tokens[0] != tokens[1] != tokens[2], "updates of this size move what is sampled"


def test_greedy_logprobs_are_those_of_temperature_one(make: Make) -> None:
    policy = make(temperature=1.0)
    ticket = policy.submit(SampleRequest((5, 6, 7), seed=0, sampling=Sampling(temperature=0.0, max_tokens=8)))
    sample = finish(policy)[ticket]
    (scored,) = policy.logprobs([ScoreRequest((5, 6, 7), sample.token_ids)])
    np.testing.assert_allclose(sample.logprobs, scored, atol=1e-5)


def test_a_sample_does_not_depend_on_what_else_is_in_the_batch(make: Make) -> None:
    together = [sample.token_ids for _, sample in play(make(), calls=6, turns=1)]
    narrow = [sample.token_ids for _, sample in play(make(max_sequences=2), calls=6, turns=1)]
    assert together == narrow


def test_ends_of_turns_and_limits(make: Make) -> None:
    policy = make(context_length=24)
    ended = truncated = 0
    for seed in range(30):
        ticket = policy.submit(SampleRequest((5, 6, 7), seed=seed, sampling=Sampling(max_tokens=30)))
        sample = finish(policy)[ticket]
        assert EOS not in sample.token_ids[:-1]
        assert sample.truncated == (sample.token_ids[-1] != EOS)
        assert len(sample.token_ids) <= 21
        ended += not sample.truncated
        truncated += sample.truncated and len(sample.token_ids) == 21
    assert ended
    assert truncated


def test_requests_that_cannot_be_sampled(make: Make) -> None:
    policy = make(context_length=16)
    with pytest.raises(ContextOverflow, match="16 tokens leaves no room to sample in a context length of 16"):
        policy.submit(SampleRequest((5,) * 16, seed=0))
    with pytest.raises(ValueError, match="non-empty prompt"):
        policy.submit(SampleRequest((), seed=0))
    with pytest.raises(ValueError, match="outside the vocabulary"):
        policy.submit(SampleRequest((64,), seed=0))
    for cut in ({"top_p": 0.9}, {"top_k": 5}):
        with pytest.raises(ConfigError, match="not the policy's"):
            policy.submit(SampleRequest((5,), seed=0, sampling=Sampling(**cut)))
    assert policy.advance() == []


def test_weights_cannot_change_under_calls_in_flight(make: Make, tmp_path: Path) -> None:
    policy = make()
    rows = rows_of(play(policy))
    policy.save(tmp_path / "saved")
    policy.submit(SampleRequest((5, 6), seed=0))
    for act in (lambda: policy.update(rows), lambda: policy.load(tmp_path / "saved"), policy.forget_sessions):
        with pytest.raises(RuntimeError, match="in flight"):
            act()
    finish(policy)
    policy.update(rows)


# ---- what the monitor notices -----------------------------------------------------------------


def one_update_later(policy: VllmPolicy) -> None:
    """Play, update, play the same conversations again, update."""
    policy.update(rows_of(play(policy)))
    policy.update(rows_of(play(policy)))


def test_weights_that_are_not_taken_are_noticed(
    make: Make, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "collective_rpc", lambda *_, **__: [None])
    with pytest.raises(
        ConfigError, match=r"differ by .* nats a token .* what is trained is not what was sampled"
    ):
        one_update_later(make())


def test_a_stale_prefix_cache_is_noticed(make: Make, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "reset_prefix_cache", lambda *_: True)
    with pytest.raises(ConfigError, match=r"above policy\.max_logprob_diff \(0\.001\)"):
        one_update_later(make())


def test_raw_logprobs_are_noticed_at_other_temperatures(make: Make) -> None:
    policy = make(temperature=0.5)
    policy.engine._llm.args.logprobs_mode = "raw_logprobs"
    with pytest.raises(ConfigError, match="differ by"):
        policy.update(rows_of(play(policy)))


def test_a_mismatch_stops_before_the_update_or_warns(
    make: Make, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "error", -0.02)
    policy = make()
    rows = rows_of(play(policy))
    before = policy.logprobs([ScoreRequest(row.prompt_ids, row.response_ids) for row in rows])
    with pytest.raises(ConfigError, match="recompute_old_logprobs"):
        policy.update(rows)
    after = policy.logprobs([ScoreRequest(row.prompt_ids, row.response_ids) for row in rows])
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))

    warned = make(on_mismatch="warn")
    with pytest.warns(RuntimeWarning, match="differ by 0.02 nats"):
        metrics = warned.update(rows_of(play(warned)))
    assert metrics["sampler_mismatch"] == 1.0
    assert metrics["sampler_diff_mean"] == pytest.approx(0.02, abs=1e-4)
    assert metrics["sampler_diff_kl"] == pytest.approx(-0.02, abs=1e-4)
    allowed = make(max_logprob_diff=0.03)
    assert allowed.update(rows_of(play(allowed)))["sampler_mismatch"] == 0.0


def test_the_monitor_leaves_other_temperatures_out(make: Make) -> None:
    policy = make()
    policy.submit(SampleRequest((5, 6), seed=0, sampling=Sampling(temperature=0.4, max_tokens=4)))
    finish(policy)
    assert "sampler_diff_mean" not in policy.update([])
    off = make(monitor_calls=0)
    assert "sampler_diff_mean" not in off.update(rows_of(play(off)))


# ---- memory and weights -----------------------------------------------------------------------


def test_the_engine_takes_weights_once_and_only_when_it_samples_again(make: Make) -> None:
    policy = make()
    rows = rows_of(play(policy))
    (engine,) = policy.engine._llm.built
    assert engine.calls == ["load", "reset"]
    policy.update(rows)
    policy.update(rows)
    assert engine.calls == ["load", "reset"], "nobody sampled in between"
    play(policy)
    assert engine.calls == ["load", "reset"] * 2


@pytest.mark.parametrize("level", [1, 2])
def test_on_a_gpu_the_engine_sleeps_during_updates(make: Make, level: int, monkeypatch: Any) -> None:
    from turnpoint.policy.vllm import policy as module

    real = module.VllmEngine
    monkeypatch.setattr(module, "VllmEngine", lambda *a, **k: real(*a, **(k | {"gpu": True})))
    policy = make(sleep_level=level)
    rows = rows_of(play(policy))
    (engine,) = policy.engine._llm.built
    engine.calls.clear()
    policy.update(rows)
    assert engine.calls == [f"sleep {level}"]
    policy.forget_sessions()  # asleep there is nothing to forget
    pairs = play(policy)
    assert engine.calls[1:] == ["wake weights", "load", "wake kv_cache", "reset"]
    assert largest_gap(policy, pairs) < 1e-5


def test_settings_that_cannot_work(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"sleep_level is 1, but vLLM can only sleep on a GPU"):
        make(sleep_level=1)
    for options in ({"logprobs_mode": "raw_logprobs"}, {"enable_prefix_caching": False}):
        with pytest.raises(ValueError, match=f"must not set {next(iter(options))}"):
            VllmPolicySettings.model_validate({"model": "m", "engine_options": options})
    with pytest.raises(ConfigError, match=r"vLLM cannot serve .*no_such_option"):
        make(engine_options={"no_such_option": 1})
    with pytest.raises(ConfigError, match="is not a folder"):
        policy_registry.parse({"kind": "vllm", "model": "no-such-folder"}).build(seed=0)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    with pytest.raises(ConfigError, match="set it to 0 or leave it out"):
        make()


def test_a_missing_package_is_said(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ConfigError, match=r"pip install 'turnpoint\[vllm\]'"):
        policy_registry.parse({"kind": "vllm", "model": str(model_folder())}).build(seed=0)


def test_bounds_follow_the_engine_s_data_type() -> None:
    settings = VllmPolicySettings(model="m", dtype="float32")
    assert (settings.sampler_dtype, settings.bound) == ("float32", 1e-3)
    mixed = VllmPolicySettings(model="m", dtype="float32", engine_dtype="bfloat16")
    assert (mixed.sampler_dtype, mixed.bound) == ("bfloat16", 0.05)
    assert VllmPolicySettings(model="m", max_logprob_diff=0.2).bound == 0.2


def test_adapters_are_merged_for_the_engine(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine samples from whole weights: what the adapters make of the model."""
    import copy

    policy = make()
    other = copy.deepcopy(policy.network.model)
    for parameter in other.parameters():
        parameter.data.mul_(1.1)

    held: list[Any] = []

    class Adapters:
        def merged_weights(self, model: Any) -> Iterator[tuple[str, Any]]:
            assert model is policy.network.model
            for name, weight in other.state_dict().items():
                merged = weight.clone()
                held.append(weakref.ref(merged))
                yield name, merged
                del merged
                assert sum(ref() is not None for ref in held) <= 1, "merged weights exist one at a time"

    monkeypatch.setattr(policy.network, "adapters", Adapters(), raising=False)
    pairs = play(policy)
    assert len(held) == len(other.state_dict())
    monkeypatch.setattr(policy.network, "adapters", None, raising=False)
    assert largest_gap(policy, pairs) > 0.01
    policy.network.model.load_state_dict(other.state_dict())
    policy.trainer.engine.forget()
    assert largest_gap(policy, pairs) < 1e-5


# ---- checkpoints ------------------------------------------------------------------------------


def test_a_saved_policy_goes_on_bitwise(make: Make, tmp_path: Path) -> None:
    whole = make()
    whole.update(rows_of(play(whole)))
    whole.save(tmp_path / "saved")
    other = make()
    other.update(rows_of(play(other, seed=9)))
    other.load(tmp_path / "saved")
    for _ in range(2):
        first, second = play(whole, seed=3), play(other, seed=3)
        assert [s for _, s in first] == [s for _, s in second]
        a, b = whole.update(rows_of(first)), other.update(rows_of(second))
        assert a["grad_norm"] == b["grad_norm"]
        assert a["sampler_diff_max"] == b["sampler_diff_max"]


def test_the_stand_in_has_the_names_that_are_used(fake: Any) -> None:
    module = sys.modules["vllm"]
    assert breaches(module) == []
    assert breaches(_without(module, "TokensPrompt")) == ["vllm.TokensPrompt is not there"]


def _without(module: Any, name: str) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(**{key: value for key, value in vars(module).items() if key != name})
