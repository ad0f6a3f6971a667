"""Prefix caching for Hugging Face transformers: a ``DynamicCache`` stored and restored by tokens.

    cache = PrefixCache(kvstrata.Client(), model)
    past = cache.warm_cache(input_ids)                       # what is stored of this prompt
    output = model.generate(input_ids, past_key_values=past, max_new_tokens=100)
    cache.store(input_ids, past)                             # so that the next one finds more

For Llama- and Qwen2-family models in bf16, fp16 or fp32, one sequence at a time. The bytes that
come back are the bytes that were stored; generation from them equals generation from the same cache
kept in memory. (A fresh prefill may differ from both in the last digits, by the shape of its
matrices.)

Without a daemon nothing breaks: restore() gives an empty cache, store() reports why nothing was
stored, and both try again with the next call.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from kvstrata.client import Client
from kvstrata.errors import Error, InvalidArgument, Unsupported
from kvstrata.keys import TokenIds, token_array
from kvstrata.model import DType, LayerGroup, ModelDescriptor, NamespaceSpec
from kvstrata.namespace import Namespace
from kvstrata.protocol import Bytes
from kvstrata.views import Blocks

MODEL_TYPES = ("llama", "qwen2")
DTYPES = {torch.bfloat16: DType.BF16, torch.float16: DType.FP16, torch.float32: DType.FP32}

_FINGERPRINT_VERSION = b"kvstrata transformers 1"
# Fields of a config that say nothing about the values a model computes.
_IRRELEVANT = {
    "architectures", "bos_token_id", "chunk_size_feed_forward", "dtype", "eos_token_id",
    "id2label", "initializer_range", "label2id", "output_attentions", "output_hidden_states",
    "pad_token_id", "problem_type", "return_dict", "torch_dtype", "transformers_version",
    "unk_token_id", "use_cache",
}  # fmt: skip


def fingerprint(model: PreTrainedModel) -> str:
    """Identifies a model's weights: a BLAKE2b-256 over its config and the name, type, shape and
    bytes of every parameter, as 64 hex digits. The same on every machine; it reads all weights
    (about 1 GB/s), so compute it once per process."""
    digest = hashlib.blake2b(_FINGERPRINT_VERSION, digest_size=32)
    config = {
        name: value
        for name, value in model.config.to_dict().items()
        if name not in _IRRELEVANT and not name.startswith("_")
    }
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, parameter in sorted(model.named_parameters()):
        tensor = parameter.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def descriptor(
    model: PreTrainedModel, block_tokens: int = 256, *, weights: str | None = None
) -> ModelDescriptor:
    """The descriptor of a model's DynamicCache. ``weights``: its fingerprint, if it is known
    already. Unsupported for models whose layers are not all plain full attention.

    A block's payload is laid out [layer][K, V][head][token][channel], the order of
    ``cache.layers[i].keys[0]``, so each layer's K and V of a block is one contiguous piece.
    """
    config = model.config
    if config.model_type not in MODEL_TYPES:
        known = ", ".join(MODEL_TYPES)
        raise Unsupported(f"model type '{config.model_type}' is not supported; known are {known}")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(config, "use_sliding_window", False):
        raise Unsupported(f"layers of kind {', '.join(sorted(kinds))} are not supported")
    if model.dtype not in DTYPES:
        raise Unsupported(f"a cache of {model.dtype} is not supported")
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    group = LayerGroup(
        layers=config.num_hidden_layers,
        kv_heads=config.num_key_value_heads,
        head_dim_k=head_dim,
        head_dim_v=head_dim,
    )
    result = ModelDescriptor(
        fingerprint=weights or fingerprint(model),
        dtype=DTYPES[model.dtype],
        block_tokens=block_tokens,
        vocab_size=config.vocab_size,
        groups=(group,),
    )
    result.validate()
    return result


def cache_argument(model: PreTrainedModel, cache: DynamicCache) -> dict[str, DynamicCache]:
    """The keyword argument that hands ``cache`` to the model's forward() or generate(): ``cache``,
    or ``past_key_values`` before transformers 5.24::

        model.generate(input_ids, **cache_argument(model, past))
    """
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    return {name: cache}


@dataclasses.dataclass(frozen=True, slots=True)
class StoreResult:
    """What store() did. ``blocks`` and ``already`` together are in the cache now."""

    blocks: int  #: newly stored
    bytes: int  #: of them
    already: int  #: stored before
    error: Error | None = None  #: why there are not more; None: all full blocks are stored


class PrefixCache:
    """Stores and restores the KV caches of one model. Threads may share it."""

    def __init__(
        self,
        client: Client,
        model: PreTrainedModel,
        *,
        block_tokens: int = 256,
        salt: bytes | str = b"",
        adapter: bytes | str = b"",
        weights: str | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """``salt`` keeps users apart who must not see each other's timing; ``adapter`` names a
        LoRA (its weights are not part of the fingerprint unless they are merged). ``timeout_s``
        bounds each of store() and restore(). Raises Unsupported for models of other families."""
        self.descriptor = descriptor(model, block_tokens, weights=weights)
        self.last_error: Error | None = None  #: of the last restore() or store(); None: it worked
        self._client = client
        self._config = model.config
        self._device = model.device
        self._dtype = model.dtype
        self._spec = NamespaceSpec(self.descriptor, salt=salt, adapter=adapter)
        self._timeout_s = timeout_s
        self._namespace: Namespace | None = None

    @property
    def block_tokens(self) -> int:
        """Tokens of one block: what is stored and restored is a multiple of it."""
        return self.descriptor.block_tokens

    def namespace(self) -> Namespace:
        """The daemon's namespace of this cache; Unavailable while there is no daemon."""
        if self._namespace is None:
            self._namespace = self._client.register(self._spec, timeout_s=self._timeout_s)
        return self._namespace

    # ---- restoring

    def restore(self, tokens: TokenIds) -> tuple[DynamicCache, int]:
        """A cache with the longest stored prefix of ``tokens``, and how many tokens it covers: a
        multiple of block_tokens, and never all of them, since a model needs at least one to
        compute. The cache is empty if nothing is stored or anything fails (see last_error)."""
        ids = _flat(tokens)
        usable = max(0, len(ids) - 1) // self.block_tokens * self.block_tokens
        self.last_error = None
        if usable == 0:
            return self._empty(), 0
        try:
            namespace = self.namespace()
            with namespace.get(ids[:usable], timeout_s=self._timeout_s) as blocks:
                self.last_error = blocks.error
                return self._assemble(blocks)
        except Error as error:
            self.last_error = error
            return self._empty(), 0

    def warm_cache(self, input_ids: TokenIds) -> DynamicCache:
        """What restore() finds, for ``model.generate(input_ids, past_key_values=...)``."""
        return self.restore(input_ids)[0]

    def _assemble(self, blocks: Blocks) -> tuple[DynamicCache, int]:
        """Copies the usable blocks into tensors of the model's device; then looks which of them
        were still valid when that ended."""
        group, size = self.descriptor.groups[0], self.block_tokens
        shape = (group.layers, 2, 1, group.kv_heads, size, group.head_dim_k)
        views = [view.torch(self._dtype, shape) for view in blocks[: blocks.usable]]
        if not views:
            return self._empty(), 0
        sides = [
            [
                torch.cat([view[layer, side] for view in views], dim=-2).to(self._device)
                for side in (0, 1)
            ]
            for layer in range(group.layers)
        ]
        tokens = self._still_valid(blocks) * size
        cache = self._empty()
        if tokens:
            for layer, (keys, values) in enumerate(sides):
                cache.update(keys[..., :tokens, :], values[..., :tokens, :], layer)
        return cache, tokens

    def _still_valid(self, blocks: Blocks) -> int:
        for index in range(blocks.usable):
            try:
                blocks[index].check()
            except Error as error:
                self.last_error = error
                blocks.release()  # leaving the block must not raise for what is left out
                return index
        return blocks.usable

    def _empty(self) -> DynamicCache:
        return DynamicCache(config=self._config)

    # ---- storing

    def store(self, tokens: TokenIds, past_key_values: DynamicCache) -> StoreResult:
        """Stores the cache of ``tokens``, as far as it fills whole blocks; what is stored already
        is not sent again. InvalidArgument if the cache is not one of this model's; what goes wrong
        in the daemon is reported in the result, not raised."""
        ids = _flat(tokens)
        self._check(past_key_values)
        covered = min(len(ids), past_key_values.get_seq_length())
        blocks = covered // self.block_tokens
        ids = token_array(ids[: blocks * self.block_tokens], self.descriptor.vocab_size)
        self.last_error = None
        if blocks == 0:
            return StoreResult(0, 0, 0)
        try:
            namespace = self.namespace()
            already = namespace.exists(ids, timeout_s=self._timeout_s).blocks
            sources = [self._source(past_key_values, block) for block in range(already, blocks)]
            result = namespace.put(ids, sources, first_block=already, timeout_s=self._timeout_s)
        except Error as error:
            self.last_error = error
            return StoreResult(0, 0, 0, error)
        try:
            result.raise_for_status()
        except Error as error:
            self.last_error = error
        size = self.descriptor.block_bytes()
        return StoreResult(
            result.stored, result.stored * size, already + result.already, self.last_error
        )

    def _check(self, cache: DynamicCache) -> None:
        group = self.descriptor.groups[0]
        if len(cache.layers) != group.layers:
            raise InvalidArgument(
                f"the cache has {len(cache.layers)} layers, the model {group.layers}"
            )
        expected = (1, group.kv_heads, group.head_dim_k)
        for index, layer in enumerate(cache.layers):
            if layer.get_seq_length() == 0:
                continue
            for tensor in (layer.keys, layer.values):
                batch, heads, _, channels = tensor.shape
                if (batch, heads, channels) != expected or tensor.dtype != self._dtype:
                    raise InvalidArgument(
                        f"layer {index} of the cache is {tensor.dtype} of shape "
                        f"{tuple(tensor.shape)}, not {self._dtype} of one sequence with "
                        f"{group.kv_heads} heads of {group.head_dim_k} channels"
                    )

    def _source(self, cache: DynamicCache, block: int) -> Callable[[Bytes], None]:
        """A function that writes one block of the cache into the memory it is given."""
        group, size = self.descriptor.groups[0], self.block_tokens
        shape = (group.layers, 2, group.kv_heads, size, group.head_dim_k)
        first, end = block * size, (block + 1) * size

        def fill(out: Bytes) -> None:
            target = torch.from_numpy(out).view(self._dtype).reshape(shape)
            for index, layer in enumerate(cache.layers):
                target[index, 0].copy_(layer.keys[0, :, first:end])
                target[index, 1].copy_(layer.values[0, :, first:end])

        return fill


def _flat(tokens: TokenIds) -> Any:
    """Token ids of one sequence in one dimension: also of a tensor [1, tokens]."""
    ids = tokens.detach().cpu().numpy() if isinstance(tokens, torch.Tensor) else np.asarray(tokens)
    if ids.ndim == 2 and ids.shape[0] == 1:
        return ids[0]
    return ids
