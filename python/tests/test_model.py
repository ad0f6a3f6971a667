"""Model descriptors: the limits and messages of the daemon."""

from __future__ import annotations

import dataclasses

import pytest
from conftest import SMALL_MODEL

from kvstrata import (
    DType,
    GroupKind,
    InvalidArgument,
    LayerGroup,
    Layout,
    ModelDescriptor,
    NamespaceSpec,
    Range,
    Shard,
)

GROUP = SMALL_MODEL.groups[0]


def changed(**fields: object) -> ModelDescriptor:
    return dataclasses.replace(SMALL_MODEL, **fields)


def with_group(**fields: object) -> ModelDescriptor:
    return changed(groups=(dataclasses.replace(GROUP, **fields),))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (changed(fingerprint=""), "fingerprint length is 0, must be 1..128"),
        (changed(fingerprint="x" * 129), "fingerprint length is 129, must be 1..128"),
        (changed(dtype=9), "dtype is 9, must be a known dtype"),
        (changed(block_tokens=15), "block_tokens is 15, must be 16..1024"),
        (changed(block_tokens=1025), "block_tokens is 1025, must be 16..1024"),
        (changed(vocab_size=(1 << 31) + 1), "vocab_size is 2147483649, must be 0..2147483648"),
        (changed(groups=[GROUP] * 65), "number of groups is 65, must be 0..64"),
        (changed(layout=Layout(k_axes="LSPHT")), "layout axes 'LSPHT' must hold each of"),
        (changed(layout=Layout(v_axes="LPSHTC")), "may differ only after axis S"),
        (changed(layout=Layout(page_tokens=5)), "page_tokens is 5, must be 0 or a divisor"),
        (changed(layout=Layout(isa="x" * 65)), "layout isa length is 65, must be 0..64"),
        (changed(shard=Shard(heads=Range(2, 2, 4))), "shard heads must be first < last <= of"),
        (changed(shard=Shard(tokens=Range(0, 3, 2))), "shard tokens must be first < last <= of"),
        (with_group(kind=7), "group kind is 7, must be a known kind"),
        (with_group(layers=0), "layers is 0, must be 1..1024"),
        (with_group(kv_heads=1025), "kv_heads is 1025, must be 1..1024"),
        (with_group(head_dim_k=0), "head_dim_k is 0, must be 1..65536"),
        (with_group(head_dim_v=0), "head_dim_v is 0, must be 1..65536"),
        (with_group(window_tokens=5), "window_tokens is 5, must be 0..0"),
        (
            with_group(kind=GroupKind.SLIDING_WINDOW),
            "window_tokens is 0, must be 1..1073741824",
        ),
        (
            with_group(layers=1024, kv_heads=1024, head_dim_k=65536),
            f"bytes of one block is {16 * (1 << 20) * 65552 * 2}, must be 1..1073741824",
        ),
    ],
)
def test_a_bad_field_is_named(model: ModelDescriptor, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        model.validate()
    assert str(caught.value).startswith("model descriptor: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"salt": bytes(257)},
        {"adapter": "x" * 257},
        {"extra_keys": ["k"] * 17},
        {"tenant": "t" * 65},
    ],
)
def test_a_bad_namespace_field_is_refused(fields: dict) -> None:
    with pytest.raises(InvalidArgument):
        NamespaceSpec(SMALL_MODEL, **fields).validate()


def test_good_descriptors_pass_and_know_their_block_bytes() -> None:
    SMALL_MODEL.validate()
    assert SMALL_MODEL.block_bytes() == 4096
    changed(groups=()).validate()
    latent = LayerGroup(GroupKind.MLA_LATENT, layers=1, kv_heads=1, head_dim_k=576)
    state = LayerGroup(GroupKind.RECURRENT_STATE, layers=4, kv_heads=2, head_dim_k=64, head_dim_v=8)
    window = dataclasses.replace(GROUP, kind=GroupKind.SLIDING_WINDOW, window_tokens=128)
    model = changed(groups=(latent, state, window), dtype=DType.FP8_E4M3)
    model.validate()
    assert [model.block_bytes(group) for group in range(3)] == [16 * 576, 4 * 2 * 72, 2048]


def test_the_wire_form_loses_nothing() -> None:
    model = changed(
        layout=Layout("LPHSCT", "LPHSTC", 8, "amx"),
        shard=Shard(Range(0, 1, 2), Range(1, 2, 3), Range(0, 4, 4)),
    )
    assert ModelDescriptor.from_wire(model.to_wire()) == model


def test_names_are_parsed_and_unknown_ones_listed() -> None:
    for dtype in DType:
        assert DType.parse(dtype.text) is dtype
    with pytest.raises(InvalidArgument, match="dtype 'bf17' is unknown; known are bf16, fp16"):
        DType.parse("bf17")
    with pytest.raises(InvalidArgument, match="layer group kind 'x' is unknown"):
        GroupKind.parse("x")


def test_a_dtype_may_be_named() -> None:
    assert ModelDescriptor("m", dtype="fp8_e4m3").dtype is DType.FP8_E4M3  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="fp9"):
        ModelDescriptor("m", dtype="fp9")  # type: ignore[arg-type]
