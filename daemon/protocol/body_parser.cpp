#include "daemon/protocol/body_impl.h"

namespace kvstrata::protocol {

namespace {

/// A MapBuilder takes the events of the MessagePack reader and stops it at the first limit broken.
/// The reader recurses, so the depth bound also bounds its stack.
class MapBuilder {
 public:
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return add(Json(nullptr)) != nullptr; }
  bool boolean(bool value) { return add(Json(value)) != nullptr; }
  bool number_integer(Json::number_integer_t value) { return add(Json(value)) != nullptr; }
  bool number_unsigned(Json::number_unsigned_t value) { return add(Json(value)) != nullptr; }
  bool number_float(Json::number_float_t value, const string_t&) {
    return add(Json(value)) != nullptr;
  }
  bool string(string_t& value) { return add(Json(std::move(value))) != nullptr; }
  bool binary(binary_t& value) {
    if (value.has_subtype()) return fail("extension types are not part of the protocol");
    return add(Json(std::move(value))) != nullptr;
  }

  bool start_object(std::size_t entries) { return open(Json::object(), entries); }
  bool start_array(std::size_t entries) { return open(Json::array(), entries); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    auto& object = stack_.back()->get_ref<Json::object_t&>();
    const auto [entry, fresh] = object.try_emplace(std::move(name), nullptr);
    if (!fresh) return fail("field '" + entry->first + "' appears twice");
    value_of_key_ = &entry->second;
    return true;
  }

  bool parse_error(std::size_t at, const std::string&, const Json::exception& why) {
    const std::string_view text = why.what();  // "[json.exception.…] what"
    const auto prefix_end = text.find("] ");
    if (why_.empty()) {
      why_ = prefix_end == text.npos ? "not MessagePack at byte " + std::to_string(at)
                                     : std::string(text.substr(prefix_end + 2));
    }
    return false;
  }

  Json take() { return std::move(root_); }
  Error error() const { return {ErrorKind::invalid_argument, "message body: " + why_}; }

 private:
  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  /// Where the value now is, or nullptr.
  Json* add(Json&& value) {
    if (stack_.empty()) return fail("it must be one map"), nullptr;
    if (++elements_ > body_elements_max) return fail("it holds too many values"), nullptr;
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    *value_of_key_ = std::move(value);
    return value_of_key_;
  }

  bool open(Json&& container, std::size_t entries) {
    if (entries > body_elements_max - elements_) return fail("it holds too many values");
    if (stack_.size() >= body_depth_max) {
      return fail("it nests deeper than " + std::to_string(body_depth_max));
    }
    if (stack_.empty() && container.is_object()) {
      root_ = std::move(container);
      stack_.push_back(&root_);
      return true;
    }
    Json* const placed = add(std::move(container));
    if (placed == nullptr) return false;
    stack_.push_back(placed);
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> stack_;
  Json* value_of_key_ = nullptr;
  std::size_t elements_ = 0;
  std::string why_;
};

}  // namespace

Result<Json> parse_map(ByteView bytes) {
  if (bytes.size() > body_bytes_max) {
    return Error(ErrorKind::too_large, "message body: over " + std::to_string(body_bytes_max));
  }
  MapBuilder builder;
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const bool strict = true;  // no trailing bytes
  const auto format = Json::input_format_t::msgpack;
  if (!Json::sax_parse(first, first + bytes.size(), &builder, format, strict)) {
    return builder.error();
  }
  return builder.take();
}

}  // namespace kvstrata::protocol
