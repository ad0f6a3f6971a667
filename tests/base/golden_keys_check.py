"""Checks golden_keys.json with nothing but doc/keys.md and hashlib: a second opinion on the C++."""

import hashlib
import json
import struct
import sys

DTYPES = {"bf16": 1, "fp16": 2, "fp8_e4m3": 3, "fp8_e5m2": 4, "int8": 5, "fp32": 6}
KINDS = {"full_attention": 1, "sliding_window": 2, "recurrent_state": 3, "mla_latent": 4}


def blake2b_256(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def field(kind: int, value: bytes) -> bytes:
    return struct.pack("<BI", kind, len(value)) + value


def group_bytes(group: dict) -> bytes:
    return struct.pack("<B5I", KINDS[group["kind"]], group["layers"], group["kv_heads"],
                       group["head_dim_k"], group["head_dim_v"], group.get("window_tokens", 0))


def namespace_bytes(spec: dict) -> bytes:
    model = spec["model"]
    layout, shard = model.get("layout", {}), model.get("shard", {})
    fields = [field(1, spec["tenant"].encode()),
              field(2, model["fingerprint"].encode()),
              field(3, struct.pack("<B", DTYPES[model["dtype"]])),
              field(4, struct.pack("<I", model["block_tokens"])),
              field(5, struct.pack("<I", model.get("vocab_size", 0)))]
    fields += [field(6, group_bytes(group)) for group in model["groups"]]
    fields += [field(7, layout.get("k_axes", "LSPHTC").encode()),
               field(8, layout.get("v_axes", "LSPHTC").encode()),
               field(9, struct.pack("<I", layout.get("page_tokens", 0))),
               field(10, layout.get("isa", "").encode())]
    fields += [field(kind, struct.pack("<3I", *shard.get(name, (0, 0, 0))))
               for kind, name in ((11, "heads"), (12, "layers"), (13, "tokens"))]
    fields += [field(14, spec.get("salt", "").encode()),
               field(15, spec.get("adapter", "").encode())]
    fields += [field(16, extra.encode()) for extra in spec.get("extra_keys", [])]
    fields += [field(17, struct.pack("<Q", spec.get("weight_epoch", 0)))]
    return b"".join(fields)


def prefix_hashes(case: dict, parent: bytes) -> list[str]:
    size, tokens, hashes = case["spec"]["model"]["block_tokens"], case["tokens"], []
    extras = case.get("block_extra_keys", [])
    for block in range(len(tokens) // size):
        data = parent + struct.pack(f"<{size}I", *tokens[block * size:(block + 1) * size])
        for extra in (extras[block] if block < len(extras) else []):
            data += struct.pack("<I", len(extra.encode())) + extra.encode()
        parent = blake2b_256(data)
        hashes.append(parent.hex())
    return hashes


def differences(case: dict) -> list[str]:
    fields = namespace_bytes(case["spec"])
    namespace = blake2b_256(b"kvstrata namespace 1" + fields)
    found = []
    if fields.hex() != case["namespace_bytes"]:
        found.append("namespace_bytes")
    if namespace.hex() != case["namespace_hash"]:
        found.append("namespace_hash")
    if prefix_hashes(case, namespace) != case["prefix_hashes"]:
        found.append("prefix_hashes")
    for opaque in case.get("opaque_keys", []):
        key = bytes.fromhex(opaque["key_hex"])
        if blake2b_256(b"kvstrata opaque 1" + namespace + key).hex() != opaque["hash"]:
            found.append(f"opaque key {opaque['key_hex']}")
    return found


def main(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    failed = [f"{case['name']}: {what}" for case in cases for what in differences(case)]
    print("\n".join(failed) or f"{len(cases)} golden specs agree")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
