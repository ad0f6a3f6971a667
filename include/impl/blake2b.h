// Blake2b: BLAKE2b-256 of bytes that come in pieces, by libsodium. One object a hash, one thread.
#pragma once

#include <sodium.h>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"
#include "kvstrata/keys.h"

namespace kvstrata {

class Blake2b {
 public:
  Blake2b() {
    KV_CHECK(sodium_init() >= 0, "libsodium can't start");
    crypto_generichash_init(&state_, nullptr, 0, sizeof(Hash256::bytes));
  }
  void add(ByteView bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
  }
  Hash256 finish() {
    Hash256 hash;
    crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(hash.bytes.data()),
                             hash.bytes.size());
    return hash;
  }

 private:
  crypto_generichash_state state_;
};

/// Of bytes that are all there.
inline Hash256 blake2b(ByteView bytes) {
  Blake2b hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace kvstrata
