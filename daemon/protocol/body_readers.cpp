// The get_* and find_* half of Body: every value is checked for type and range, every error names
// its field and what would have been right.
#include "daemon/protocol/body_impl.h"

namespace kvstrata::protocol {

namespace {

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

Error field_error(std::string_view key, std::string_view expectation) {
  std::string message = "field '" + std::string(key) + "' must be ";
  message += expectation;
  return {ErrorKind::invalid_argument, std::move(message)};
}

/// The value of a field, or nullptr where it is absent or nil.
const Json* find(const Json& map, std::string_view key) {
  const auto entry = map.find(key);
  return entry == map.end() || entry->is_null() ? nullptr : &*entry;
}

ByteView view_of(const Json::binary_t& binary) {
  return {reinterpret_cast<const std::byte*>(binary.data()), binary.size()};
}

std::optional<std::uint64_t> unsigned_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  if (number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<std::int64_t> signed_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;  // true for unsigned ones too
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<std::int64_t>();
}

std::string integer_range(const std::string& min, const std::string& max) {
  return "an integer in " + min + ".." + max;
}

/// The array under `key` if it has at most `count_max` items; nullptr for anything else.
const Json::array_t* find_array(const Json& map, std::string_view key, std::size_t count_max) {
  const Json* value = find(map, key);
  if (value == nullptr || !value->is_array() || value->size() > count_max) return nullptr;
  return &value->get_ref<const Json::array_t&>();
}

/// One `[index, [bin, …]]` of an IndexedBytes, appended to `out` if it is right.
bool append_indexed(const Json& pair, std::uint32_t index_max, std::size_t strings_max,
                    std::size_t bytes_max, IndexedBytes& out) {
  if (!pair.is_array() || pair.size() != 2) return false;
  const auto index = unsigned_of(pair[0]);
  if (!index || *index > index_max) return false;
  if (!out.empty() && *index <= out.rbegin()->first) return false;
  const Json& strings = pair[1];
  if (!strings.is_array() || strings.empty() || strings.size() > strings_max) return false;
  std::vector<std::string> copies;
  for (const Json& item : strings) {
    if (!item.is_binary() || item.get_binary().size() > bytes_max) return false;
    copies.emplace_back(as_text(view_of(item.get_binary())));
  }
  out.emplace(static_cast<std::uint32_t>(*index), std::move(copies));
  return true;
}

}  // namespace

bool Body::has(std::string_view key) const {
  return find(impl_->map, key) != nullptr;
}

std::vector<std::string> Body::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : impl_->map.get_ref<const Json::object_t&>()) names.push_back(key);
  return names;
}

Result<std::uint64_t> Body::get_u64(std::string_view key, std::uint64_t min,
                                    std::uint64_t max) const {
  const Json* value = find(impl_->map, key);
  const auto number_read = value != nullptr ? unsigned_of(*value) : std::nullopt;
  if (!number_read || *number_read < min || *number_read > max) {
    return field_error(key, integer_range(number(min), number(max)));
  }
  return *number_read;
}

Result<std::int64_t> Body::get_i64(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json* value = find(impl_->map, key);
  const auto number_read = value != nullptr ? signed_of(*value) : std::nullopt;
  if (!number_read || *number_read < min || *number_read > max) {
    return field_error(key, integer_range(std::to_string(min), std::to_string(max)));
  }
  return *number_read;
}

Result<double> Body::get_double(std::string_view key) const {
  const Json* value = find(impl_->map, key);
  if (value == nullptr || !value->is_number()) return field_error(key, "a number");
  return value->get<double>();
}

Result<bool> Body::get_bool(std::string_view key) const {
  const Json* value = find(impl_->map, key);
  if (value == nullptr || !value->is_boolean()) return field_error(key, "true or false");
  return value->get<bool>();
}

Result<std::string> Body::get_text(std::string_view key, std::size_t bytes_max) const {
  const Json* value = find(impl_->map, key);
  if (value == nullptr || !value->is_string() ||
      value->get_ref<const std::string&>().size() > bytes_max) {
    return field_error(key, "text of at most " + number(bytes_max) + " bytes");
  }
  return value->get<std::string>();
}

Result<ByteView> Body::get_bytes(std::string_view key, std::size_t bytes_max) const {
  const Json* value = find(impl_->map, key);
  if (value == nullptr || !value->is_binary() || value->get_binary().size() > bytes_max) {
    return field_error(key, "a byte string of at most " + number(bytes_max) + " bytes");
  }
  return view_of(value->get_binary());
}

Result<ByteView> Body::get_bytes_exact(std::string_view key, std::size_t bytes) const {
  const Json* value = find(impl_->map, key);
  if (value == nullptr || !value->is_binary() || value->get_binary().size() != bytes) {
    return field_error(key, "a byte string of " + number(bytes) + " bytes");
  }
  return view_of(value->get_binary());
}

Result<Body> Body::get_body(std::string_view key) const {
  const Json* value = find(impl_->map, key);
  if (value == nullptr || !value->is_object()) return field_error(key, "a map");
  return Body(std::make_unique<Impl>(Impl{*value}));
}

Result<std::vector<std::uint64_t>> Body::get_u64s(std::string_view key, std::size_t count_max,
                                                  std::uint64_t value_max) const {
  const auto wrong = [&] {
    return field_error(
        key, "an array of at most " + number(count_max) + " integers in 0.." + number(value_max));
  };
  const Json::array_t* array = find_array(impl_->map, key, count_max);
  if (array == nullptr) return wrong();
  std::vector<std::uint64_t> values;
  values.reserve(array->size());
  for (const Json& item : *array) {
    const auto value = unsigned_of(item);
    if (!value || *value > value_max) return wrong();
    values.push_back(*value);
  }
  return values;
}

Result<std::vector<std::string>> Body::get_texts(std::string_view key, std::size_t count_max,
                                                 std::size_t bytes_max) const {
  const auto wrong = [&] {
    return field_error(key, "an array of at most " + number(count_max) + " texts of at most " +
                                number(bytes_max) + " bytes");
  };
  const Json::array_t* array = find_array(impl_->map, key, count_max);
  if (array == nullptr) return wrong();
  std::vector<std::string> texts;
  for (const Json& item : *array) {
    if (!item.is_string() || item.get_ref<const std::string&>().size() > bytes_max) return wrong();
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Result<std::vector<std::string>> Body::get_byte_strings(std::string_view key, std::size_t count_max,
                                                        std::size_t bytes_max) const {
  const auto wrong = [&] {
    return field_error(key, "an array of at most " + number(count_max) +
                                " byte strings of at most " + number(bytes_max) + " bytes");
  };
  const Json::array_t* array = find_array(impl_->map, key, count_max);
  if (array == nullptr) return wrong();
  std::vector<std::string> strings;
  for (const Json& item : *array) {
    if (!item.is_binary() || item.get_binary().size() > bytes_max) return wrong();
    strings.emplace_back(as_text(view_of(item.get_binary())));
  }
  return strings;
}

Result<std::vector<Body>> Body::get_bodies(std::string_view key, std::size_t count_max) const {
  const auto wrong = [&] {
    return field_error(key, "an array of at most " + number(count_max) + " maps");
  };
  const Json::array_t* array = find_array(impl_->map, key, count_max);
  if (array == nullptr) return wrong();
  std::vector<Body> bodies;
  for (const Json& item : *array) {
    if (!item.is_object()) return wrong();
    bodies.push_back(Body(std::make_unique<Impl>(Impl{item})));
  }
  return bodies;
}

Result<std::vector<std::vector<std::uint64_t>>> Body::get_rows(std::string_view key,
                                                               std::size_t rows_max,
                                                               std::size_t columns) const {
  const auto wrong = [&] {
    return field_error(key, "an array of at most " + number(rows_max) + " arrays of " +
                                number(columns) + " integers");
  };
  const Json::array_t* array = find_array(impl_->map, key, rows_max);
  if (array == nullptr) return wrong();
  std::vector<std::vector<std::uint64_t>> rows;
  for (const Json& item : *array) {
    if (!item.is_array() || item.size() != columns) return wrong();
    auto& row = rows.emplace_back();
    for (const Json& cell : item) {
      const auto value = unsigned_of(cell);
      if (!value) return wrong();
      row.push_back(*value);
    }
  }
  return rows;
}

Result<IndexedBytes> Body::get_indexed_bytes(std::string_view key, std::uint32_t index_max,
                                             std::size_t strings_max, std::size_t bytes_max) const {
  const auto wrong = [&] {
    return field_error(key, "an array of [index, [bytes, ...]] with rising indices of at most " +
                                number(index_max) + ", each with 1.." + number(strings_max) +
                                " byte strings of at most " + number(bytes_max) + " bytes");
  };
  const Json::array_t* array = find_array(impl_->map, key, std::size_t{index_max} + 1);
  if (array == nullptr) return wrong();
  IndexedBytes values;
  for (const Json& pair : *array) {
    if (!append_indexed(pair, index_max, strings_max, bytes_max, values)) return wrong();
  }
  return values;
}

Result<std::uint64_t> Body::get_u64_or(std::string_view key, std::uint64_t fallback,
                                       std::uint64_t min, std::uint64_t max) const {
  if (!has(key)) return fallback;
  return get_u64(key, min, max);
}

Result<bool> Body::get_bool_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  return get_bool(key);
}

Result<std::string> Body::get_text_or(std::string_view key, std::string_view fallback,
                                      std::size_t bytes_max) const {
  if (!has(key)) return std::string(fallback);
  return get_text(key, bytes_max);
}

Result<std::optional<std::uint64_t>> Body::find_u64(std::string_view key, std::uint64_t min,
                                                    std::uint64_t max) const {
  if (!has(key)) return std::optional<std::uint64_t>();
  KV_ASSIGN(const std::uint64_t value, get_u64(key, min, max));
  return std::optional(value);
}

Result<std::optional<std::string>> Body::find_text(std::string_view key,
                                                   std::size_t bytes_max) const {
  if (!has(key)) return std::optional<std::string>();
  KV_ASSIGN(std::string value, get_text(key, bytes_max));
  return std::optional(std::move(value));
}

Result<std::optional<ByteView>> Body::find_bytes(std::string_view key,
                                                 std::size_t bytes_max) const {
  if (!has(key)) return std::optional<ByteView>();
  KV_ASSIGN(const ByteView value, get_bytes(key, bytes_max));
  return std::optional(value);
}

Result<std::optional<ByteView>> Body::find_bytes_exact(std::string_view key,
                                                       std::size_t bytes) const {
  if (!has(key)) return std::optional<ByteView>();
  KV_ASSIGN(const ByteView value, get_bytes_exact(key, bytes));
  return std::optional(value);
}

}  // namespace kvstrata::protocol
