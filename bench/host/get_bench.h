// Reading blocks out of the host tier, against memcpy and against redis-server on a Unix socket.
#pragma once

#include <string>

#include "bench/common/figures.h"
#include "bench/host/workload.h"
#include "kvstrata/client.h"

namespace kvstrata::bench {

struct Servers {
  std::string kvstrata_socket;
  std::string redis_socket;
};

/// Stores the working set in both servers.
std::vector<Hash256> fill(Client& client, const Namespace& ns, const WorkingSet& set,
                          const Servers& servers);

/// host_get_vs_memcpy and its control.
void bench_get_against_memcpy(Client& client, const Namespace& ns,
                              const std::vector<Hash256>& hashes, const WorkingSet& set,
                              Figures& figures);

/// shm_sum_vs_redis, shm_copy_vs_redis, inline_get_vs_redis.
void bench_get_against_redis(Client& client, const Namespace& ns,
                             const std::vector<Hash256>& hashes, const Servers& servers,
                             Figures& figures);

}  // namespace kvstrata::bench
