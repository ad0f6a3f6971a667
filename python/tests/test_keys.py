"""Keys: deterministic, whole, and the same as the daemon's."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL_MODEL

from kvstrata import DType, InvalidArgument, ModelDescriptor, NamespaceSpec, keys

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from kvstrata import LayerGroup, ModelDescriptor, NamespaceSpec, keys
model = ModelDescriptor("m", groups=(LayerGroup(layers=1, kv_heads=1, head_dim_k=8, head_dim_v=8),))
names = []
for optional in ({}, {"salt": b"", "adapter": "", "extra_keys": []}, {"salt": "s", "adapter": "a"}):
    space = keys.namespace_hash(NamespaceSpec(model, tenant="t", **optional))
    names.append([h.hex() for h in keys.prefix_hashes(space, range(2000), 256)])
print(json.dumps(names))
"""


def test_keys_are_equal_in_eight_processes_with_any_hash_seed() -> None:
    """Case A1."""
    package = str(Path(keys.__file__).parents[1])
    outputs = []
    for seed in (None, "0", "1", "random", None, "0", "1", "random"):
        env = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
        if seed is not None:
            env["PYTHONHASHSEED"] = seed
        command = [sys.executable, "-c", SCRIPT, package]
        outputs.append(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    assert len(set(outputs)) == 1
    absent, empty, given = json.loads(outputs[0])
    assert absent == empty  # an absent optional field and an empty one are the same
    assert not set(absent) & set(given)
    assert len(absent) == 2000 // 256


def spaces(**fields: object) -> bytes:
    return keys.namespace_hash(NamespaceSpec(SMALL_MODEL, tenant="default", **fields))


def test_every_field_of_a_spec_separates() -> None:
    group = SMALL_MODEL.groups[0]
    specs = [
        NamespaceSpec(SMALL_MODEL, tenant="default", **fields)
        for fields in (
            {}, {"salt": "X"}, {"adapter": "X"}, {"extra_keys": ["X"]}, {"extra_keys": [""]},
            {"salt": "X", "adapter": "X"}, {"adapter": "ab", "salt": "c"},
            {"adapter": "a", "salt": "bc"}, {"extra_keys": ["X", ""]}, {"extra_keys": ["", "X"]},
            {"weight_epoch": 1},
        )
    ]  # fmt: skip
    specs.append(NamespaceSpec(SMALL_MODEL, tenant="other"))
    for change in (
        {"fingerprint": "other"},
        {"dtype": DType.FP16},
        {"block_tokens": 32},
        {"vocab_size": 0},
        {"groups": (group, group)},
        {"groups": ()},
        {"groups": (dataclasses.replace(group, kv_heads=4, head_dim_k=8, head_dim_v=8),)},
        {"layout": dataclasses.replace(SMALL_MODEL.layout, v_axes="LSPTHC")},
        {"layout": dataclasses.replace(SMALL_MODEL.layout, page_tokens=16)},
        {"layout": dataclasses.replace(SMALL_MODEL.layout, isa="amx")},
    ):
        specs.append(NamespaceSpec(dataclasses.replace(SMALL_MODEL, **change), tenant="default"))
    names = [keys.namespace_hash(spec) for spec in specs]
    assert len(set(names)) == len(names)


def test_no_two_random_specs_share_a_key(rng: np.random.Generator) -> None:
    pieces = ["", "a", "b", "ab", "\0", "a\0"]
    seen: dict[bytes, object] = {}
    for _ in range(2000):
        salt, adapter = rng.choice(pieces), rng.choice(pieces)
        extra = tuple(str(piece) for piece in rng.choice(pieces, rng.integers(0, 4)))
        fields = (str(salt), str(adapter), extra)
        name = spaces(salt=fields[0], adapter=fields[1], extra_keys=fields[2])
        assert seen.setdefault(name, fields) == fields


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([65] * 16, [65 + 256] * 16),
        ([7] * 16, [7 + 65_536] + [7] * 15),
        (list(range(16)), [1, 0, *range(2, 16)]),
    ],
)
def test_tokens_are_never_cut(one: list[int], other: list[int]) -> None:
    assert keys.block_hash(bytes(32), one) != keys.block_hash(bytes(32), other)


def test_the_whole_image_identity_counts() -> None:
    image = bytes(range(32))
    for changed in (0, 1, 5, 15, 30, 31):
        other = bytearray(image)
        other[changed] ^= 1
        tokens = [0] * 16
        assert keys.block_hash(bytes(32), tokens, [image]) != keys.block_hash(
            bytes(32), tokens, [bytes(other)]
        )
    assert keys.block_hash(bytes(32), [0] * 16, [b""]) != keys.block_hash(bytes(32), [0] * 16)


@pytest.mark.parametrize(
    "bad",
    [
        [-1], [1 << 31], [1 << 32], [(1 << 32) + 5], [1 << 63], [1 << 64], [1 << 70], [-(1 << 40)],
        [1.0], [1.5], ["1"], [True], [None], [[1, 2]], np.array([1.0]), np.array([-3]),
        np.array([1 << 40]), [5, -1], [-1, 1 << 63], np.array([1 << 63], dtype=np.uint64),
    ],
)  # fmt: skip
def test_ids_out_of_range_are_refused_not_wrapped(bad: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        keys.token_array(bad)
    with pytest.raises(InvalidArgument):
        keys.prefix_hashes(bytes(32), bad, 16)


def test_ids_are_bounded_by_the_vocabulary() -> None:
    assert keys.token_array([49_999], 50_000).tolist() == [49_999]
    with pytest.raises(InvalidArgument, match="token id 50000 at position 1 is not below 50000"):
        keys.token_array([3, 50_000], 50_000)
    with pytest.raises(InvalidArgument, match="token id -4 at position 0 is negative"):
        keys.token_array([-4], 50_000)


@pytest.mark.parametrize("dtype", ["u1", "i2", "<u4", ">u4", "i8", "u8"])
def test_all_integer_types_name_the_same_block(dtype: str) -> None:
    ids = list(range(16))
    assert keys.block_hash(bytes(32), np.array(ids, dtype)) == keys.block_hash(bytes(32), ids)
    strided = np.arange(32, dtype=dtype)[::2]
    halves = keys.block_hash(bytes(32), [2 * i for i in ids])
    assert keys.block_hash(bytes(32), strided) == halves


def test_a_partial_last_block_has_no_hash() -> None:
    for length, blocks in ((0, 0), (1, 0), (15, 0), (16, 1), (17, 1), (255, 15), (257, 16)):
        assert len(keys.prefix_hashes(bytes(32), range(length), 16)) == blocks


def test_a_chain_can_be_continued() -> None:
    whole = keys.prefix_hashes(bytes(32), range(64), 16, {2: [b"image"]})
    tail = keys.prefix_hashes(whole[0], range(16, 64), 16, {1: [b"image"]})
    assert whole[1:] == tail


def test_opaque_keys_are_bounded_and_apart_from_prefixes() -> None:
    for bad in (b"", bytes(257)):
        with pytest.raises(InvalidArgument):
            keys.opaque_hash(bytes(32), bad)
    names = {
        keys.opaque_hash(space, key) for space in (bytes(32), b"1" * 32) for key in (b"a", b"b")
    }
    assert len(names) == 4


GOLDEN = Path(__file__).parents[2] / "tests" / "data" / "golden_keys.json"


def golden_cases() -> list[dict]:
    return json.loads(GOLDEN.read_text())["cases"] if GOLDEN.exists() else []


@pytest.mark.skipif(not GOLDEN.exists(), reason="the repository's golden keys are not here")
@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case["name"])
def test_golden_keys_never_change(case: dict) -> None:
    fields = dict(case["spec"])
    spec = NamespaceSpec(ModelDescriptor.from_wire(fields.pop("model")), **fields)
    assert keys.namespace_bytes(spec).hex() == case["namespace_bytes"]
    space = keys.namespace_hash(spec)
    assert space.hex() == case["namespace_hash"]
    extras = {
        block: [extra.encode() for extra in names]
        for block, names in enumerate(case.get("block_extra_keys", []))
    }
    hashes = keys.prefix_hashes(space, case["tokens"], spec.model.block_tokens, extras)
    assert [name.hex() for name in hashes] == case["prefix_hashes"]
    for opaque in case.get("opaque_keys", []):
        assert keys.opaque_hash(space, bytes.fromhex(opaque["key_hex"])).hex() == opaque["hash"]
