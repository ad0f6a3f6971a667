"""The processes of the demo that run the model; started by :mod:`kvstrata.demo`, never alone.

``cold`` prefills a prompt, stores its KV blocks and flushes them; ``warm`` restores them in a fresh
process. Each writes what it measured as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedModel
from transformers.utils import logging as transformers_logging

import kvstrata
from kvstrata.transformers import PrefixCache, cache_argument

Ids: TypeAlias = "torch.Tensor"  # [1, tokens], int64


def say(text: str) -> None:
    """A line of progress."""
    print(f"    {text}", flush=True)


def physical_cores() -> int:
    """Cores this process may use, counting hardware threads of one core once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            names = ("physical_package_id", "core_id")
            cores.add(tuple((topology / name).read_text() for name in names))
        except OSError:
            cores.add((str(cpu),))
    return len(cores)


class Worker:
    """A loaded model with the prompt's token ids."""

    def __init__(self, options: argparse.Namespace) -> None:
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        torch.set_num_threads(physical_cores())
        began = time.monotonic()
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        self.model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            options.model, dtype=torch.bfloat16
        ).eval()
        self.tokenizer = tokenizer
        text = Path(options.text).read_text(errors="replace")
        ids = tokenizer(text[: options.tokens * 16], return_tensors="pt").input_ids
        if ids.shape[1] < options.tokens:
            raise SystemExit(f"error: the text has {ids.shape[1]} tokens, {options.tokens} needed")
        self.ids: Ids = ids[:, : options.tokens]
        self.client = kvstrata.Client(options.address)
        self.cache = PrefixCache(self.client, self.model)
        self._forward(self.ids[:, :16], DynamicCache(config=self.model.config))  # first-use costs
        say(
            f"model loaded in {time.monotonic() - began:.1f} s, prompt of {self.ids.shape[1]} "
            f"tokens, {torch.get_num_threads()} threads"
        )

    def _forward(self, ids: Ids, past: DynamicCache) -> torch.Tensor:
        """Runs the model over ``ids`` on top of ``past``, which grows; the next token, [1, 1]."""
        arguments = cache_argument(self.model, past)
        output = self.model(ids, use_cache=True, logits_to_keep=1, **arguments)
        return output.logits[:, -1:].argmax(-1)

    def prefill(self) -> tuple[float, DynamicCache]:
        """Seconds from the tokenised prompt to the first token, and the cache."""
        past = DynamicCache(config=self.model.config)
        began = time.monotonic()
        token = self._forward(self.ids, past)
        int(token)
        return time.monotonic() - began, past

    def continue_from(self, past: DynamicCache, count: int) -> tuple[float, str]:
        """Computes the prompt's last token on top of a cache of all others, then ``count`` tokens
        in all, the likeliest each time; seconds until the first, and the text."""
        began = time.monotonic()
        token = self._forward(self.ids[:, -1:], past)
        int(token)
        first_s = time.monotonic() - began
        tokens = [token]
        while len(tokens) < count:
            tokens.append(self._forward(tokens[-1], past))
        return first_s, self.tokenizer.decode(torch.cat(tokens, dim=-1)[0])


def layer_hashes(past: DynamicCache) -> list[str]:
    """SHA-256 of the bytes of each layer's K, then V."""
    return [
        hashlib.sha256(side.contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()
        for layer in past.layers
        for side in (layer.keys, layer.values)
    ]


def run_cold(options: argparse.Namespace) -> dict[str, Any]:
    """Prefills, remembers what a local cache hit gives, stores and flushes."""
    worker = Worker(options)
    say("prefilling the whole prompt")
    cold_ttft_s, past = worker.prefill()
    say(f"first token after {cold_ttft_s:.2f} s")
    before = worker.client.stats()["store"]
    began = time.monotonic()
    stored = worker.cache.store(worker.ids, past)
    store_s = time.monotonic() - began
    if stored.error is not None or stored.already:
        raise SystemExit(f"error: not all blocks are new in the cache: {stored}")
    worker.client.flush()
    flush_s = time.monotonic() - began
    after = worker.client.stats()["store"]
    say(f"{stored.blocks} blocks visible after {store_s:.2f} s, durable after {flush_s:.2f} s")
    past.crop(-1)  # what a hit in a local cache would have
    hashes = layer_hashes(past)
    _, text = worker.continue_from(past, options.new_tokens)
    return {
        "cold_ttft_s": cold_ttft_s,
        "store_s": store_s,
        "flush_s": flush_s,
        "blocks": stored.blocks,
        "raw_bytes": stored.bytes,
        "record_bytes": after["live_bytes"] - before["live_bytes"],
        "index_bytes": after["index_bytes"],
        "hashes": hashes,
        "text": text,
    }


def run_warm(options: argparse.Namespace) -> dict[str, Any]:
    """Restores in a process that has never seen the prompt; then a cold prefill beside it."""
    worker = Worker(options)
    began = time.monotonic()
    worker.client.server_info()
    connect_s = time.monotonic() - began
    past, restored = worker.cache.restore(worker.ids)
    restore_s = time.monotonic() - began - connect_s
    if worker.cache.last_error is not None:
        raise SystemExit(f"error: not all was restored: {worker.cache.last_error}")
    token = worker._forward(worker.ids[:, restored:], past)
    int(token)
    warm_ttft_s = time.monotonic() - began
    say(
        f"first token after {warm_ttft_s:.3f} s: connect {connect_s:.3f}, restore {restore_s:.3f}, "
        f"one forward {warm_ttft_s - connect_s - restore_s:.3f}"
    )
    past.crop(restored - worker.ids.shape[1])
    hashes = layer_hashes(past)
    _, text = worker.continue_from(past, options.new_tokens)
    cold_ttft_s, _ = worker.prefill()
    say(f"first token of a prefill in the same process after {cold_ttft_s:.2f} s")
    return {
        "index_bytes": worker.client.stats()["store"]["index_bytes"],
        "warm_ttft_s": warm_ttft_s,
        "connect_s": connect_s,
        "restore_s": restore_s,
        "cold_ttft_s": cold_ttft_s,
        "restored_tokens": restored,
        "hashes": hashes,
        "text": text,
    }


def main() -> int:
    """The command line of one worker process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["cold", "warm"])
    for name in ("--address", "--model", "--text", "--out"):
        parser.add_argument(name, required=True)
    for name in ("--tokens", "--new-tokens"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()
    with torch.inference_mode():
        result = run_cold(options) if options.role == "cold" else run_warm(options)
    Path(options.out).write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
