// Namespaces, weight epochs and codec tables: small, few, and never lost while something needs
// them.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

ByteVector a_table(int n, std::uint64_t bytes = 5000) {
  return content_of(7000 + n, bytes);
}

void fill_up(Shelf& shelf, int first) {
  for (int n = first; n < first + 1800; n += 50) {
    for (int i = n; i < n + 50; ++i) shelf.start_put(i);
    REQUIRE(shelf->flush().ok());
  }
}

NamespaceSpec a_rich_namespace() {
  NamespaceSpec spec;
  spec.tenant = "acme";
  spec.model.fingerprint = "0123456789abcdef";
  spec.model.dtype = DType::fp8_e4m3;
  spec.model.block_tokens = 64;
  spec.model.vocab_size = 151936;
  spec.model.groups = {{GroupKind::full_attention, 24, 2, 64, 64, 0},
                       {GroupKind::sliding_window, 4, 2, 64, 64, 512}};
  spec.model.layout.page_tokens = 16;
  spec.model.shard.heads = {0, 2, 8};
  spec.salt = std::string("\0salt\xff", 6);
  spec.adapter = "lora-7";
  spec.extra_keys = {"image", "", "user"};
  spec.weight_epoch = 3;
  return spec;
}

}  // namespace

TEST_CASE("The same spec has one id for ever, another spec another") {
  Shelf shelf;
  const NamespaceSpec spec = a_rich_namespace();
  const NamespaceId ns = *shelf->register_namespace(spec);
  CHECK(ns != shelf.ns());
  CHECK(*shelf->register_namespace(spec) == ns);
  shelf.reopen();
  CHECK(*shelf->register_namespace(spec) == ns);
  NamespaceSpec next = spec;
  next.weight_epoch = 4;
  CHECK(*shelf->register_namespace(next) != ns);
  CHECK(shelf->namespaces().size() == 3);
}

TEST_CASE("A namespace comes back from the index with every field") {
  Shelf shelf;
  const NamespaceSpec spec = a_rich_namespace();
  const NamespaceId ns = *shelf->register_namespace(spec);
  shelf.reopen();
  const std::vector<NamespaceRecord> all = shelf->namespaces();
  const auto found = std::ranges::find(all, ns, &NamespaceRecord::id);
  REQUIRE(found != all.end());
  CHECK(found->tenant == "acme");
  CHECK(found->hash == namespace_hash(spec));
  CHECK(found->spec.model == spec.model);
  CHECK(found->spec.salt == spec.salt);
  CHECK(found->spec.adapter == spec.adapter);
  CHECK(found->spec.extra_keys == spec.extra_keys);
  CHECK(found->spec.weight_epoch == 3);
}

TEST_CASE("A spec out of range is refused before anything is stored") {
  Shelf shelf;
  NamespaceSpec spec = a_namespace();
  spec.tenant.clear();
  CHECK(shelf->register_namespace(spec).error().kind() == ErrorKind::invalid_argument);
  spec = a_namespace();
  spec.salt.assign(257, 'x');
  CHECK(shelf->register_namespace(spec).error().kind() == ErrorKind::invalid_argument);
  spec = a_namespace();
  spec.extra_keys.assign(17, "x");
  CHECK(shelf->register_namespace(spec).error().kind() == ErrorKind::invalid_argument);
  spec = a_namespace();
  spec.model.fingerprint.clear();
  CHECK(shelf->register_namespace(spec).error().kind() == ErrorKind::invalid_argument);
  CHECK(shelf->namespaces().size() == 1);
}

TEST_CASE("A block of an unknown namespace or table is refused") {
  Shelf shelf;
  AppendRequest request;
  request.key = shelf.key(1);
  request.key.ns = NamespaceId{77};
  CHECK(shelf->append(std::move(request), {}).error().kind() == ErrorKind::invalid_argument);
  CHECK(shelf.try_put(1, {.table = TableId{9}}).error().kind() == ErrorKind::invalid_argument);
}

TEST_CASE("A weight epoch rises by one, for its tenant and model alone, and survives a restart") {
  Shelf shelf;
  CHECK(shelf->weight_epoch("a", "m") == 0);
  CHECK(*shelf->bump_weight_epoch("a", "m") == 1);
  CHECK(*shelf->bump_weight_epoch("a", "m") == 2);
  shelf.reopen();
  CHECK(shelf->weight_epoch("a", "m") == 2);
  CHECK(shelf->weight_epoch("b", "m") == 0);
  CHECK(shelf->weight_epoch("am", "") == 0);
}

TEST_CASE("Tables come back bit by bit, also after a restart and after reclaim moved them") {
  Shelf shelf;
  const TableId small = *shelf->add_table(shelf.ns(), a_table(1));
  const TableId large = *shelf->add_table(shelf.ns(), a_table(2, 2_MiB));
  CHECK(*shelf->table(shelf.ns(), small) == a_table(1));
  fill_up(shelf, 0);
  CHECK(shelf->stats().reclaimed_segments > 10);
  CHECK(*shelf->table(shelf.ns(), small) == a_table(1));
  shelf.reopen();
  CHECK(*shelf->table(shelf.ns(), small) == a_table(1));
  CHECK(*shelf->table(shelf.ns(), large) == a_table(2, 2_MiB));
  CHECK(shelf->tables(shelf.ns()) == std::vector<TableId>{small, large});
  CHECK(shelf->table(shelf.ns(), TableId{99}).error().kind() == ErrorKind::not_found);
}

TEST_CASE("At most sixteen tables live in a namespace; one no block needs makes room") {
  Shelf shelf;
  std::vector<TableId> ids;
  for (int n = 0; n < 16; ++n) {
    ids.push_back(*shelf->add_table(shelf.ns(), a_table(n)));
    shelf.put(n, {.table = ids.back()});
  }
  CHECK(shelf->add_table(shelf.ns(), a_table(16)).error().kind() == ErrorKind::too_large);
  shelf.erase(4);
  const TableId next = *shelf->add_table(shelf.ns(), a_table(16));
  CHECK(std::ranges::find(ids, next) == ids.end());
  CHECK(shelf->table(shelf.ns(), ids[4]).error().kind() == ErrorKind::not_found);
  CHECK(shelf->tables(shelf.ns()).size() == 16);
  shelf.reopen();
  CHECK(shelf->add_table(shelf.ns(), a_table(17)).ok());  // `next` is not needed by any block
  CHECK(shelf->add_table(shelf.ns(), a_table(18)).ok());
  CHECK(shelf->table(shelf.ns(), ids[5]).ok());
}

TEST_CASE("Another namespace's table is not found") {
  Shelf shelf;
  const TableId table = *shelf->add_table(shelf.ns(), a_table(1));
  const NamespaceId other = *shelf->register_namespace(a_namespace("other"));
  CHECK(shelf->table(other, table).error().kind() == ErrorKind::not_found);
  CHECK(shelf->add_table(NamespaceId{99}, a_table(1)).error().kind() == ErrorKind::not_found);
}

}  // namespace kvstrata::storage::testing
