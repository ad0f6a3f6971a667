// The judge of the stressor is judged first.
#include "history.h"

#include <doctest/doctest.h>

namespace kvstrata::test {

namespace {

struct OneKey {
  Moments moments;
  History history{moments};

  void put(std::uint64_t version, PutEnd end = PutEnd::stored) {
    history.put_begins(version);
    history.put_ends(version, end);
  }
  void remove() { history.removal_ends(history.removal_begins()); }
  bool reads(std::uint64_t version) {
    const Moment began = history.read_begins();
    const bool possible = history.may_have_seen(version, began);
    history.read_ends(began);
    return possible;
  }
};

}  // namespace

TEST_CASE("A version can be read once its put began, until a removal after it was answered") {
  OneKey key;
  CHECK_FALSE(key.reads(1));
  key.history.put_begins(1);
  CHECK(key.reads(1));
  key.history.put_ends(1, PutEnd::stored);
  CHECK(key.reads(1));
  const Moment removal = key.history.removal_begins();
  CHECK(key.reads(1));
  key.history.removal_ends(removal);
  CHECK_FALSE(key.reads(1));
}

TEST_CASE("A read that began before the removal ended may have seen what was removed") {
  OneKey key;
  key.put(1);
  const Moment removal = key.history.removal_begins();
  const Moment early = key.history.read_begins();
  key.history.removal_ends(removal);
  key.put(2);
  CHECK(key.history.may_have_seen(1, early));
  CHECK(key.history.may_have_seen(2, early));
  key.history.read_ends(early);
  CHECK_FALSE(key.reads(1));
}

TEST_CASE("A put that overlaps a removal may have come after it") {
  OneKey key;
  key.history.put_begins(1);
  key.remove();
  key.history.put_ends(1, PutEnd::stored);
  CHECK(key.reads(1));
}

TEST_CASE("A version is gone when a later one was stored, for one is stored only where none is") {
  OneKey key;
  key.put(1);
  key.put(2);
  CHECK_FALSE(key.reads(1));
  CHECK(key.reads(2));
}

TEST_CASE("A refused put was never there, one whose client gave up may be there at any time") {
  OneKey key;
  key.put(1, PutEnd::refused);
  CHECK_FALSE(key.reads(1));
  key.put(2, PutEnd::unknown);
  key.remove();
  CHECK(key.reads(2));
}

TEST_CASE("What no read can see any more is forgotten") {
  OneKey key;
  for (std::uint64_t version = 1; version < 1000; ++version) {
    key.put(version);
    if (version % 3 == 0) key.remove();
  }
  CHECK(key.history.size() < 8);
}

}  // namespace kvstrata::test
