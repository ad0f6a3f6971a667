#include "daemon/protocol/body.h"

#include "daemon/protocol/body_impl.h"

namespace kvstrata::protocol {

namespace {

Json binary_of(ByteView bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::binary(Json::binary_t::container_type(first, first + bytes.size()));
}

/// JSON has no byte strings: they become hex.
Json printable(const Json& value) {
  if (value.is_binary()) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string hex;
    for (const std::uint8_t byte : value.get_binary()) {
      hex += digits[byte >> 4];
      hex += digits[byte & 15];
    }
    return hex;
  }
  if (!value.is_structured()) return value;
  Json copy = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, item] : value.items()) {
    if (value.is_array()) {
      copy.push_back(printable(item));
    } else {
      copy[key] = printable(item);
    }
  }
  return copy;
}

}  // namespace

Body::Body() : impl_(std::make_unique<Impl>()) {}
Body::Body(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Body::Body(Body&&) noexcept = default;
Body& Body::operator=(Body&&) noexcept = default;
Body::Body(const Body& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
Body& Body::operator=(const Body& other) {
  if (this != &other) impl_ = std::make_unique<Impl>(*other.impl_);
  return *this;
}
Body::~Body() = default;

Result<Body> Body::parse(ByteView bytes) {
  auto impl = std::make_unique<Impl>();
  if (!bytes.empty()) {
    KV_ASSIGN(impl->map, parse_map(bytes));
  }
  return Body(std::move(impl));
}

ByteVector Body::serialize() const {
  std::string text;
  Json::to_msgpack(impl_->map, text);
  const ByteView bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::string Body::to_json(int indent) const {
  // Text that is not UTF-8 must not throw: it is shown with replacement characters.
  return printable(impl_->map).dump(indent, ' ', false, Json::error_handler_t::replace);
}

bool Body::equals(const Body& other) const {
  return impl_->map == other.impl_->map;
}

Body& Body::set_u64(std::string_view key, std::uint64_t value) {
  impl_->map[std::string(key)] = value;
  return *this;
}

Body& Body::set_i64(std::string_view key, std::int64_t value) {
  impl_->map[std::string(key)] = value;
  return *this;
}

Body& Body::set_double(std::string_view key, double value) {
  impl_->map[std::string(key)] = value;
  return *this;
}

Body& Body::set_bool(std::string_view key, bool value) {
  impl_->map[std::string(key)] = value;
  return *this;
}

Body& Body::set_text(std::string_view key, std::string_view value) {
  impl_->map[std::string(key)] = value;
  return *this;
}

Body& Body::set_bytes(std::string_view key, ByteView value) {
  impl_->map[std::string(key)] = binary_of(value);
  return *this;
}

Body& Body::set_body(std::string_view key, const Body& value) {
  impl_->map[std::string(key)] = value.impl_->map;
  return *this;
}

Body& Body::set_u64s(std::string_view key, std::span<const std::uint64_t> values) {
  impl_->map[std::string(key)] = Json::array_t(values.begin(), values.end());
  return *this;
}

Body& Body::set_texts(std::string_view key, std::span<const std::string> values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(value);
  impl_->map[std::string(key)] = std::move(array);
  return *this;
}

Body& Body::set_byte_strings(std::string_view key, std::span<const std::string> values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(binary_of(as_bytes(value)));
  impl_->map[std::string(key)] = std::move(array);
  return *this;
}

Body& Body::set_bodies(std::string_view key, std::span<const Body> values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(value.impl_->map);
  impl_->map[std::string(key)] = std::move(array);
  return *this;
}

Body& Body::set_rows(std::string_view key, std::span<const std::vector<std::uint64_t>> rows) {
  Json array = Json::array();
  for (const auto& row : rows) array.push_back(Json(row));
  impl_->map[std::string(key)] = std::move(array);
  return *this;
}

Body& Body::set_indexed_bytes(std::string_view key, const IndexedBytes& values) {
  Json array = Json::array();
  for (const auto& [index, strings] : values) {
    Json byte_strings = Json::array();
    for (const auto& text : strings) byte_strings.push_back(binary_of(as_bytes(text)));
    array.push_back(Json::array({index, std::move(byte_strings)}));
  }
  impl_->map[std::string(key)] = std::move(array);
  return *this;
}

}  // namespace kvstrata::protocol
