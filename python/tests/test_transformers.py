"""The connector for transformers, with small random models and the scripted peer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENT
from peer import Peer

import kvstrata

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kvstrata.transformers import PrefixCache, cache_argument, descriptor, fingerprint  # noqa: E402

torch.set_num_threads(1)  # small models: more threads only wait for each other
BLOCK = 16
SMALL = {
    "vocab_size": 200, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
}  # fmt: skip
FAMILIES = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL)),
}


def make_model(family: str = "llama", dtype: torch.dtype = torch.bfloat16, seed: int = 1):
    torch.manual_seed(seed)
    return FAMILIES[family]().to(dtype).eval()


@pytest.fixture(scope="module")
def model():
    with torch.inference_mode():
        yield make_model()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = Peer(str(tmp_path / "peer.sock"), slot_bytes=3 * 2 * 2 * BLOCK * 8 * 4, slots=64)
    yield peer
    if peer.listener.fileno() >= 0:
        peer.stop()


@pytest.fixture
def cache(peer: Peer, model) -> Iterator[PrefixCache]:
    with kvstrata.Client(peer.path, **PATIENT) as client:
        yield PrefixCache(client, model, block_tokens=BLOCK, timeout_s=60.0)


def prefill(model, tokens: torch.Tensor):
    return model(tokens[None], use_cache=True).past_key_values


def same_bytes(one, other, tokens: int) -> bool:
    """True if the first ``tokens`` of two caches are the same, bit by bit."""
    return all(
        torch.equal(a[:, :, :tokens].view(torch.uint8), b[:, :, :tokens].view(torch.uint8))
        for x, y in zip(one.layers, other.layers, strict=True)
        for a, b in ((x.keys, y.keys), (x.values, y.values))
    )


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 255, 256, 257])
def test_whole_blocks_come_back_and_one_token_is_left_to_compute(cache, model, length) -> None:
    tokens = torch.arange(length) % 200
    past = prefill(model, tokens)
    stored = cache.store(tokens, past)
    full = length // BLOCK
    assert (stored.blocks, stored.already, stored.error) == (full, 0, None)
    assert stored.bytes == full * cache.descriptor.block_bytes()
    restored, count = cache.restore(tokens)
    assert count == (length - 1) // BLOCK * BLOCK
    assert count < length
    assert restored.get_seq_length() == count
    if count:
        assert same_bytes(restored, past, count)


def test_generation_from_a_restored_cache_equals_that_from_the_kept_one(cache, model) -> None:
    tokens = torch.arange(40) * 7 % 200
    past = prefill(model, tokens)
    cache.store(tokens, past)
    past.crop(-8)  # to 32 tokens: a local hit of the same length
    ids = tokens[None]
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    local = model.generate(ids, **cache_argument(model, past), **options)
    warm = cache.warm_cache(ids)
    assert warm.get_seq_length() == 32
    assert torch.equal(model.generate(ids, **cache_argument(model, warm), **options), local)


def test_qwen2_models_are_served_too(peer) -> None:
    model, tokens = make_model("qwen2"), torch.arange(33) % 200
    with kvstrata.Client(peer.path, **PATIENT) as client, torch.inference_mode():
        cache = PrefixCache(client, model, block_tokens=BLOCK, timeout_s=60.0)
        past = prefill(model, tokens)
        cache.store(tokens, past)
        restored, count = cache.restore(tokens)
    assert count == 32
    assert same_bytes(restored, past, 32)


def test_what_is_stored_already_is_not_sent_again(cache, model) -> None:
    tokens = torch.arange(64) % 200
    past = prefill(model, tokens)
    assert cache.store(tokens[:40], past).blocks == 2
    result = cache.store(tokens, past)
    assert (result.blocks, result.already) == (2, 2)
    assert cache.restore([*tokens.tolist(), 5])[1] == 64


def test_other_tokens_salts_and_adapters_miss(peer, cache, model) -> None:
    tokens = torch.arange(33) % 200
    cache.store(tokens, prefill(model, tokens))
    other = tokens.clone()
    other[16] += 1
    assert cache.restore(other)[1] == 16
    with kvstrata.Client(peer.path, **PATIENT) as client:
        for options in ({"salt": "s"}, {"adapter": "s"}, {"weights": "w"}):
            apart = PrefixCache(client, model, block_tokens=BLOCK, timeout_s=60.0, **options)
            assert apart.restore(tokens)[1] == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_any_bit_pattern_survives_in_each_type(peer, dtype, rng) -> None:
    model = make_model(dtype=dtype)
    with kvstrata.Client(peer.path, **PATIENT) as client:
        cache = PrefixCache(client, model, block_tokens=BLOCK, timeout_s=60.0)
        past = transformers.DynamicCache(config=model.config)
        for layer in range(3):
            bits = rng.integers(0, 256, 2 * 2 * 33 * 8 * dtype.itemsize, dtype=np.uint8)
            sides = torch.from_numpy(bits).view(dtype).reshape(2, 1, 2, 33, 8)
            past.update(sides[0], sides[1], layer)
        tokens = torch.arange(33)
        assert cache.store(tokens, past).blocks == 2
        restored, count = cache.restore(tokens)
        assert count == 32
        assert same_bytes(restored, past, 32)


def test_blocks_taken_away_while_they_are_copied_are_left_out(
    peer, cache, model, monkeypatch
) -> None:
    tokens = torch.arange(65) % 200
    past = prefill(model, tokens)
    cache.store(tokens, past)
    cat = torch.cat

    def cat_while_freed(*args, **kwargs):
        peer.chunk.set_generation(2, 3)
        return cat(*args, **kwargs)

    monkeypatch.setattr(torch, "cat", cat_while_freed)
    restored, count = cache.restore(tokens)
    monkeypatch.undo()
    assert count == 32
    assert same_bytes(restored, past, 32)
    assert isinstance(cache.last_error, kvstrata.LeaseExpired)


def test_without_a_daemon_nothing_breaks(peer, cache, model) -> None:
    tokens = torch.arange(33) % 200
    past = prefill(model, tokens)
    peer.stop()
    restored, count = cache.restore(tokens)
    assert (restored.get_seq_length(), count) == (0, 0)
    assert isinstance(cache.last_error, kvstrata.Unavailable)
    result = cache.store(tokens, past)
    assert (result.blocks, result.already) == (0, 0)
    assert isinstance(result.error, kvstrata.Unavailable)
    out = model.generate(tokens[None], **cache_argument(model, restored), max_new_tokens=2)
    assert out.shape[1] >= 34
    peer.start()
    assert cache.store(tokens, past).blocks == 2
    assert cache.restore(tokens)[1] == 32
    assert cache.last_error is None


def test_a_cache_of_another_shape_is_refused(cache, model) -> None:
    tokens = torch.arange(16)
    past = prefill(model, tokens)
    two = transformers.DynamicCache()
    for layer in range(3):
        two.update(past.layers[layer].keys.repeat(2, 1, 1, 1), past.layers[layer].values, layer)
    for bad in (transformers.DynamicCache(), two):
        with pytest.raises(kvstrata.InvalidArgument):
            cache.store(tokens, bad)
    with pytest.raises(kvstrata.InvalidArgument, match="token id"):
        cache.store([200] * 16, past)


def test_fingerprints_tell_weights_and_configs_apart() -> None:
    one = make_model()
    names = {
        fingerprint(one), fingerprint(make_model(seed=2)), fingerprint(make_model("qwen2")),
        fingerprint(make_model(dtype=torch.float32)),
    }  # fmt: skip
    assert len(names) == 4
    again = make_model()
    again.config._name_or_path = "elsewhere"
    again.config.use_cache = False
    assert fingerprint(again) == fingerprint(one)
    again.config.rms_norm_eps = 0.5
    assert fingerprint(again) != fingerprint(one)
    last = make_model()
    with torch.no_grad():
        next(last.parameters())[0, 0] += 1
    assert fingerprint(last) != fingerprint(one)


def test_other_models_are_refused_by_name() -> None:
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=10)
    with pytest.raises(kvstrata.Unsupported, match="gpt2"):
        descriptor(transformers.GPT2LMHeadModel(config))
    sliding = transformers.Qwen2Config(
        **SMALL, use_sliding_window=True, sliding_window=8, max_window_layers=1
    )
    with pytest.raises(kvstrata.Unsupported, match="sliding"):
        descriptor(transformers.Qwen2ForCausalLM(sliding))
