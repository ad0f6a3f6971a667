// Result and Error: how every fallible call of KVStrata answers. No exception crosses a module
// border; a caller reads `kind()` to decide and `message()` to tell a person.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "kvstrata/check.h"

namespace kvstrata {

/// What went wrong, in terms a caller can act on. The numbers are part of wire protocol 1.
enum class ErrorKind : std::uint16_t {
  invalid_argument = 1,    ///< the request contradicts itself or the registered model
  not_found = 2,           ///< no such key, lease, slot or namespace for this tenant
  exists = 3,              ///< the same bytes are stored already
  conflict = 4,            ///< other bytes are stored under this key; the first stay
  busy = 5,                ///< a bounded queue is full; try again later
  too_large = 6,           ///< a length exceeds its stated limit
  out_of_memory = 7,       ///< the host tier's budget has no room that can be freed
  out_of_space = 8,        ///< the disk budget or file system has no room
  io = 9,                  ///< a device failed
  corrupt = 10,            ///< stored bytes fail their checksum or grammar
  unsupported = 11,        ///< known, but not offered by this build or version
  permission_denied = 12,  ///< the operating system or the tenant's rights refuse
  unauthenticated = 13,    ///< no or a wrong token
  lease_expired = 14,      ///< the lease ended; nothing read under it is valid
  epoch_changed = 15,      ///< the model's weights changed since registration
  deadline_exceeded = 16,  ///< the request's own deadline passed
  cancelled = 17,          ///< the client cancelled it
  protocol = 18,           ///< bytes that are not protocol 1; the connection closes
  unavailable = 19,        ///< the daemon is draining, gone or not yet ready
  locked = 20,             ///< another process owns the store
  internal = 21,           ///< a bug; the message names the place
};

/// The stable name of a kind, for example "lease_expired".
std::string_view to_string(ErrorKind kind);

/// An Error is a kind and a sentence that names cause and, where there is one, remedy.
class Error {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }

  /// The same error with "context: " put in front of the message.
  Error with_context(std::string_view context) const {
    return {kind_, std::string(context) + ": " + message_};
  }

 private:
  ErrorKind kind_;
  std::string message_;
};

/// An Error of kind `io` (or the fitting kind for ENOSPC, EACCES, ENOENT, ENOMEM) from an errno.
Error error_from_errno(int error_number, std::string_view what);

/// A Result holds a T or an Error. Reading the wrong side aborts, also in release builds.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(*explicit*)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(*explicit*)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return check_ok(), std::get<0>(state_); }
  const T& value() const& { return check_ok(), std::get<0>(state_); }
  T&& value() && { return check_ok(), std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

  const Error& error() const {
    KV_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }

 private:
  void check_ok() const { KV_CHECK(ok(), std::get<1>(state_).message().c_str()); }

  std::variant<T, Error> state_;
};

/// A Result without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(*explicit*)

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  void value() const { KV_CHECK(ok(), error_->message().c_str()); }
  const Error& error() const {
    KV_CHECK(!ok(), "error() of a Result that holds a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace kvstrata

/// Returns the error of `expression` from the enclosing function, if it has one.
#define KV_TRY(expression)                                          \
  do {                                                              \
    if (const auto& kv_try_status = (expression); !kv_try_status) { \
      return kv_try_status.error();                                 \
    }                                                               \
  } while (false)

#define KV_CONCAT_INNER(a, b) a##b
#define KV_CONCAT(a, b) KV_CONCAT_INNER(a, b)

/// `KV_ASSIGN(auto x, f())`: declares x from the value of f(), or returns its error.
#define KV_ASSIGN(declaration, expression)             \
  auto KV_CONCAT(kv_result_, __LINE__) = (expression); \
  if (!KV_CONCAT(kv_result_, __LINE__)) {              \
    return KV_CONCAT(kv_result_, __LINE__).error();    \
  }                                                    \
  declaration = std::move(KV_CONCAT(kv_result_, __LINE__)).value()
