#include "kvstrata/result.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <memory>
#include <set>

#include "tests/base/process.h"

namespace kvstrata::test {

namespace {

const Error no_room(ErrorKind::out_of_space, "no room");

Result<int> half(int n) {
  if (n % 2 != 0) return Error(ErrorKind::invalid_argument, std::to_string(n) + " is odd");
  return n / 2;
}

Result<int> quarter(int n) {
  KV_ASSIGN(const int once, half(n));
  KV_ASSIGN(const int twice, half(once));
  return twice;
}

Status is_even(int n) {
  KV_TRY(half(n));
  return {};
}

}  // namespace

TEST_CASE("A result holds a value or an error") {
  const Result<int> value = half(4);
  CHECK(value.ok());
  CHECK(*value == 2);
  const Result<int> error = half(3);
  CHECK_FALSE(error);
  CHECK(error.error().kind() == ErrorKind::invalid_argument);
  CHECK(error.error().message() == "3 is odd");
}

TEST_CASE("Reading the side a result does not hold aborts") {
  CHECK(aborts([] { (void)half(3).value(); }));
  CHECK(aborts([] { (void)half(4).error(); }));
  CHECK(aborts([] { Status(no_room).value(); }));
  CHECK(aborts([] { (void)Status().error(); }));
}

TEST_CASE("The first error ends the function that tries") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(6).error().message() == "3 is odd");
  CHECK(quarter(5).error().message() == "5 is odd");
  CHECK(is_even(2).ok());
  CHECK(is_even(1).error().message() == "1 is odd");
}

TEST_CASE("A value that can only be moved comes out by moving") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> value = *std::move(result);
  CHECK(*value == 7);
}

TEST_CASE("Context goes in front of the message and leaves the kind") {
  const Error error = no_room.with_context("segment 7");
  CHECK(error.kind() == ErrorKind::out_of_space);
  CHECK(error.message() == "segment 7: no room");
}

TEST_CASE("Errors of the operating system become the kind a caller can act on") {
  const std::vector<std::pair<int, ErrorKind>> kinds = {{ENOSPC, ErrorKind::out_of_space},
                                                        {EDQUOT, ErrorKind::out_of_space},
                                                        {EACCES, ErrorKind::permission_denied},
                                                        {EPERM, ErrorKind::permission_denied},
                                                        {ENOENT, ErrorKind::not_found},
                                                        {ENOMEM, ErrorKind::out_of_memory},
                                                        {EIO, ErrorKind::io},
                                                        {EINVAL, ErrorKind::io}};
  for (const auto& [error_number, kind] : kinds) {
    CHECK(error_from_errno(error_number, "pread").kind() == kind);
  }
  CHECK(error_from_errno(EIO, "pread").message() == "pread: Input/output error");
}

TEST_CASE("Every error kind has a name of its own, and numbers that don't move") {
  std::set<std::string_view> names;
  for (std::uint16_t number = 1; number <= 21; ++number) {
    names.insert(to_string(static_cast<ErrorKind>(number)));
  }
  CHECK(names.size() == 21);
  CHECK_FALSE(names.contains("unknown"));
  CHECK(to_string(ErrorKind{0}) == "unknown");
  CHECK(to_string(ErrorKind{22}) == "unknown");
  CHECK(static_cast<int>(ErrorKind::lease_expired) == 14);
  CHECK(static_cast<int>(ErrorKind::internal) == 21);
}

TEST_CASE("A broken invariant aborts in every build") {
  CHECK(aborts([] { KV_CHECK(1 + 1 == 3, "arithmetic"); }));
  CHECK_FALSE(aborts([] { KV_CHECK(1 + 1 == 2, "arithmetic"); }));
}

}  // namespace kvstrata::test
