#include "bench/host/get_bench.h"

#include <hiredis/hiredis.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "bench/common/measure.h"
#include "bench/common/process.h"
#include "bench/common/progress.h"
#include "daemon/protocol/body.h"
#include "daemon/protocol/header.h"
#include "daemon/protocol/selection_body.h"

namespace kvstrata::bench {

namespace {

constexpr std::size_t rounds = 41;

struct FreeRedis {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Redis = std::unique_ptr<redisContext, FreeRedis>;

Redis connect_redis(const std::string& socket) {
  Redis redis(redisConnectUnix(socket.c_str()));
  if (redis == nullptr || redis->err != 0) fail("can't connect to redis-server");
  return redis;
}

std::string redis_key(std::size_t index) {
  return "block:" + std::to_string(index);
}

/// Random batches, each candidate's own: a block another one has just read would be in cache.
class Batches {
 public:
  Batches(std::size_t blocks, std::uint32_t seed) : blocks_(blocks), random_(seed) {}
  std::vector<std::size_t> next() {
    std::vector<std::size_t> batch(blocks_);
    for (std::size_t& index : batch) index = random_() % working_set_blocks;
    return batch;
  }

 private:
  std::size_t blocks_;
  std::mt19937 random_;
};

Fetched get_batch(Client& client, const Namespace& ns, const std::vector<Hash256>& hashes,
                  const std::vector<std::size_t>& batch) {
  std::vector<Hash256> wanted;
  for (const std::size_t index : batch) wanted.push_back(hashes[index]);
  auto fetched = client.get(ns, Selection::of_hashes(wanted), false);
  if (!fetched) fail("get: " + fetched.error().message());
  for (const BlockView& view : fetched->blocks) {
    if (!view) fail("a block of the working set is missing: " + view.status().error().message());
  }
  return std::move(*fetched);
}

void copy_from_kvstrata(Client& client, const Namespace& ns, const std::vector<Hash256>& hashes,
                        const std::vector<std::size_t>& batch, MutableBytes to) {
  const Fetched fetched = get_batch(client, ns, hashes, batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Status copied = fetched.blocks[i].copy_out(to.subspan(i * block_bytes, block_bytes));
    if (!copied) fail("copy_out: " + copied.error().message());
  }
}

void read_from_redis(redisContext* redis, const std::vector<std::size_t>& batch,
                     const std::function<void(std::size_t, ByteView)>& read) {
  for (const std::size_t index : batch) {
    redisAppendCommand(redis, "GET %s", redis_key(index).c_str());
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    void* raw = nullptr;
    if (redisGetReply(redis, &raw) != REDIS_OK) fail("redis GET failed");
    auto* reply = static_cast<redisReply*>(raw);
    if (reply->type != REDIS_REPLY_STRING) fail("redis has no such block");
    read(i, {reinterpret_cast<const std::byte*>(reply->str), reply->len});
    freeReplyObject(reply);
  }
}

/// A raw connection that asks for inline replies, to run the very loop that reads redis.
class InlineConnection {
 public:
  InlineConnection(const std::string& socket, std::uint32_t ns)
      : fd_(connect_unix(socket)), ns_(ns) {
    protocol::Body hello;
    hello.set_u64("protocol", protocol::version).set_text("client", "bench/1");
    request(protocol::Verb::hello, hello, {});
    receive_header();
    receive_all(fd_, scratch_.data(), header_.body_bytes);
  }
  InlineConnection(const InlineConnection&) = delete;
  InlineConnection& operator=(const InlineConnection&) = delete;
  ~InlineConnection() { close(fd_); }

  void get(const Hash256& hash, MutableBytes to) {
    protocol::Body body;
    ByteVector names;
    protocol::SelectionView selection;
    selection.ns = ns_;
    selection.hashes = std::span(&hash, 1);
    if (!protocol::encode_selection(selection, body, names)) fail("encode");
    body.set_bool("inline", true);
    request(protocol::Verb::get, body, names);
    receive_header();
    receive_all(fd_, scratch_.data(), header_.body_bytes);
    if (header_.status != 0 || header_.payload_bytes != to.size()) fail("inline GET failed");
    receive_all(fd_, to.data(), to.size());
  }

 private:
  void request(protocol::Verb verb, const protocol::Body& body, ByteView payload) {
    const ByteVector bytes = body.serialize();
    protocol::Header header;
    header.verb = verb;
    header.request_id = ++last_id_;
    header.body_bytes = static_cast<std::uint32_t>(bytes.size());
    header.payload_bytes = payload.size();
    const auto head = protocol::serialize(header);
    ByteVector message(head.begin(), head.end());
    message.insert(message.end(), bytes.begin(), bytes.end());
    message.insert(message.end(), payload.begin(), payload.end());
    send_all(fd_, message.data(), message.size());
  }

  void receive_header() {
    protocol::HeaderBytes bytes;
    receive_all(fd_, bytes.data(), bytes.size());
    const auto header = protocol::parse_header(bytes);
    if (!header) fail("bad header: " + header.error().message());
    header_ = *header;
    scratch_.resize(header_.body_bytes);
  }

  int fd_;
  std::uint32_t ns_;
  std::uint64_t last_id_ = 0;
  protocol::Header header_;
  ByteVector scratch_;
};

/// GET with nothing of hiredis: the same loop as InlineConnection.
class RawRedis {
 public:
  explicit RawRedis(const std::string& socket) : fd_(connect_unix(socket)) {}
  RawRedis(const RawRedis&) = delete;
  RawRedis& operator=(const RawRedis&) = delete;
  ~RawRedis() { close(fd_); }

  void get(std::size_t index, MutableBytes to) {
    const std::string key = redis_key(index);
    const std::string command =
        "*2\r\n$3\r\nGET\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
    send_all(fd_, command.data(), command.size());
    char prefix[10];  // "$1048576\r\n"
    receive_all(fd_, prefix, sizeof prefix);
    if (std::memcmp(prefix, "$1048576\r\n", sizeof prefix) != 0) fail("redis GET failed");
    receive_all(fd_, to.data(), to.size());
    char end[2];
    receive_all(fd_, end, sizeof end);
  }

 private:
  int fd_;
};

double ratio(const Candidate& of, const Candidate& to) {
  return median(to.seconds) / median(of.seconds);
}

}  // namespace

std::vector<Hash256> fill(Client& client, const Namespace& ns, const WorkingSet& set,
                          const Servers& servers) {
  const Redis redis = connect_redis(servers.redis_socket);
  std::vector<Hash256> hashes;
  Progress progress("MiB filled", working_set_blocks);
  for (std::size_t first = 0; first < working_set_blocks; first += batch_blocks) {
    const auto tokens = tokens_of(static_cast<std::uint32_t>(first), batch_blocks, 16);
    std::vector<ByteView> blocks;
    for (std::size_t i = 0; i < batch_blocks; ++i) {
      blocks.push_back(set.block(first + i));
      freeReplyObject(redisCommand(redis.get(), "SET %s %b", redis_key(first + i).c_str(),
                                   blocks.back().data(), blocks.back().size()));
    }
    for (;;) {
      const auto stored = client.put(ns, {.tokens = tokens}, blocks, {});
      if (stored && stored->all_stored()) {
        hashes.insert(hashes.end(), stored->hashes.begin(), stored->hashes.end());
        break;
      }
      if (!stored && stored.error().kind() != ErrorKind::busy) {
        fail("put: " + stored.error().message());
      }
      (void)client.flush();  // puts come faster than the disk takes them
    }
    progress.at(first + batch_blocks);
  }
  (void)client.flush();
  return hashes;
}

void bench_get_against_memcpy(Client& client, const Namespace& ns,
                              const std::vector<Hash256>& hashes, const WorkingSet& set,
                              Figures& figures) {
  const std::unique_ptr<std::byte[]> target(new std::byte[batch_blocks * block_bytes]());
  const MutableBytes to(target.get(), batch_blocks * block_bytes);
  // A client takes the page faults of a block once, plain memory took them when it was filled.
  for (std::size_t first = 0; first < working_set_blocks; first += batch_blocks) {
    std::vector<std::size_t> batch(batch_blocks);
    std::iota(batch.begin(), batch.end(), first);
    copy_from_kvstrata(client, ns, hashes, batch, to);
  }
  for (const std::size_t blocks : {batch_blocks, std::size_t{1}}) {
    Batches ours(blocks, 1);
    Batches plain(blocks, 2);
    Batches control(blocks, 3);
    const auto copy_plain = [&](Batches& batches) {
      const auto batch = batches.next();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        std::memcpy(to.data() + i * block_bytes, set.block(batch[i]).data(), block_bytes);
      }
    };
    std::vector<Candidate> candidates = {
        {"kvstrata", [&] { copy_from_kvstrata(client, ns, hashes, ours.next(), to); }, {}},
        {"memcpy", [&] { copy_plain(plain); }, {}},
        {"memcpy again", [&] { copy_plain(control); }, {}}};
    interleave(candidates, blocks == 1 ? 20 * rounds : 5 * rounds);
    const std::string suffix = blocks == 1 ? "_batch1" : "";
    const double gigabytes = static_cast<double>(blocks * block_bytes) / 1e9;
    figures.add("host_get_gbps" + suffix, gigabytes / median(candidates[0].seconds), "GB/s");
    figures.add("memcpy_gbps" + suffix, gigabytes / median(candidates[1].seconds), "GB/s");
    figures.add("memcpy_vs_memcpy" + suffix, ratio(candidates[2], candidates[1]), "null control");
    figures.add("host_get_vs_memcpy" + suffix, ratio(candidates[0], candidates[1]));
  }
}

void bench_get_against_redis(Client& client, const Namespace& ns,
                             const std::vector<Hash256>& hashes, const Servers& servers,
                             Figures& figures) {
  const Redis redis = connect_redis(servers.redis_socket);
  const std::unique_ptr<std::byte[]> target(new std::byte[batch_blocks * block_bytes]());
  const MutableBytes to(target.get(), batch_blocks * block_bytes);
  std::uint64_t sum = 0;
  for (const std::size_t blocks : {batch_blocks, std::size_t{1}}) {
    Batches a(blocks, 4), b(blocks, 5), c(blocks, 6), d(blocks, 7);
    std::vector<Candidate> candidates = {
        {"kvstrata sum",
         [&] {
           const Fetched fetched = get_batch(client, ns, hashes, a.next());
           for (const BlockView& view : fetched.blocks) {
             sum += sum_of(view.bytes());
             if (!view.valid()) fail("a leased block changed");
           }
         },
         {}},
        {"redis sum",
         [&] {
           read_from_redis(redis.get(), b.next(),
                           [&](std::size_t, ByteView bytes) { sum += sum_of(bytes); });
         },
         {}},
        {"kvstrata copy", [&] { copy_from_kvstrata(client, ns, hashes, c.next(), to); }, {}},
        {"redis copy",
         [&] {
           read_from_redis(redis.get(), d.next(), [&](std::size_t i, ByteView bytes) {
             std::memcpy(to.data() + i * block_bytes, bytes.data(), bytes.size());
           });
         },
         {}}};
    interleave(candidates, blocks == 1 ? 5 * rounds : rounds);
    const std::string suffix = blocks == 1 ? "_batch1" : "";
    figures.add("shm_sum_vs_redis" + suffix, ratio(candidates[0], candidates[1]));
    figures.add("shm_copy_vs_redis" + suffix, ratio(candidates[2], candidates[3]));
  }
  InlineConnection ours(servers.kvstrata_socket, ns.id());
  RawRedis theirs(servers.redis_socket);
  RawRedis control(servers.redis_socket);
  Batches a(1, 8), b(1, 9), c(1, 10);
  const MutableBytes one = to.first(block_bytes);
  std::vector<Candidate> candidates = {
      {"kvstrata", [&] { ours.get(hashes[a.next()[0]], one); }, {}},
      {"redis", [&] { theirs.get(b.next()[0], one); }, {}},
      {"redis again", [&] { control.get(c.next()[0], one); }, {}}};
  interleave(candidates, 20 * rounds);
  figures.add("inline_redis_vs_redis", ratio(candidates[2], candidates[1]), "null control");
  figures.add("inline_get_gbps",
              static_cast<double>(block_bytes) / 1e9 / median(candidates[0].seconds), "GB/s");
  figures.add("inline_get_vs_redis", ratio(candidates[0], candidates[1]));
  if (sum == 0) fail("nothing was read");
}

}  // namespace kvstrata::bench
