// Looking prefixes of 512 blocks up among 100,000 indexed ones.
#pragma once

#include <string>

#include "bench/common/figures.h"
#include "kvstrata/client.h"

namespace kvstrata::bench {

/// Stores the index working set; durable when it returns.
void fill_index(Client& client, const Namespace& ns);

/// lookup512_hashes_p50_us, lookup512_tokens_vs_floor and what is printed beside them. The floor is
/// hashing the tokens plus a RocksDB MultiGet of the keys, in this process, in `scratch`.
void bench_lookup(Client& client, const Namespace& ns, const std::string& scratch,
                  Figures& figures);

}  // namespace kvstrata::bench
