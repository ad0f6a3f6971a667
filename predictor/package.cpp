#include "predictor/package.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "include/impl/blake2b.h"
#include "kvstrata/checksum.h"
#include "predictor/bf16.h"
#include "predictor/package_layout.h"

namespace kvstrata::predictor {

namespace {

Error corrupt(const std::string& what) {
  return {ErrorKind::corrupt, "package: " + what};
}

/// Mapped pages begin at multiples of 4,096 and sections do: what they hold is aligned.
template <typename T>
std::span<const T> numbers_of(ByteView section) {
  return {reinterpret_cast<const T*>(section.data()), section.size() / sizeof(T)};
}

template <typename Code>
bool all_within(ByteView section, int top) {
  return std::ranges::all_of(numbers_of<Code>(section),
                             [&](Code code) { return code >= -top && code <= top; });
}

struct Unmap {
  std::size_t bytes;
  void operator()(void* memory) const { (void)::munmap(memory, bytes); }
};

}  // namespace

Result<std::shared_ptr<const Package>> Package::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // it may be a FIFO
  if (fd < 0) return error_from_errno(errno, "can't open the package " + path);
  struct stat status{};
  const bool is_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  const auto bytes = static_cast<std::size_t>(is_file ? status.st_size : 0);
  void* const memory = is_file ? ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  const int error = errno;
  (void)::close(fd);
  if (!is_file) return corrupt(path + " is empty or no regular file");
  if (memory == MAP_FAILED) return error_from_errno(error, "can't map the package " + path);
  const std::shared_ptr<void> keeper(memory, Unmap{bytes});
  return parse({static_cast<const std::byte*>(memory), bytes}, keeper);
}

Result<std::shared_ptr<const Package>> Package::parse(ByteView bytes,
                                                      std::shared_ptr<const void> keeper) {
  const std::shared_ptr<Package> package(new Package(bytes, std::move(keeper)));
  KV_TRY(package->read());
  return std::shared_ptr<const Package>(package);
}

Status Package::read() {
  KV_TRY(read_header());
  KV_TRY(read_entries());
  KV_TRY(check_sections());
  KV_TRY(check_numbers());
  model_.embedding = numbers_of<std::uint16_t>(section(SectionKind::embedding));
  read_rope();
  read_layers();
  if (!all_finite(cosines_) || !all_finite(sines_)) return corrupt("a RoPE table is not finite");
  return {};
}

Status Package::read_header() {
  if (bytes_.size() < package_header_bytes) return corrupt("shorter than a header");
  if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignof(std::uint64_t) != 0) {
    return Error(ErrorKind::invalid_argument, "package: bytes that are not aligned");
  }
  std::memcpy(&header_, bytes_.data(), sizeof header_);
  if (header_.magic != package_magic) return corrupt("not a package file");
  ByteVector summed(bytes_.begin(), bytes_.begin() + package_header_bytes);
  store_le(summed.data() + offsetof(PackageHeader, header_xxh3), std::uint64_t{0});
  if (xxh3(summed) != header_.header_xxh3) return corrupt("the header's sum differs");
  if (header_.version != package_version) {
    return Error(ErrorKind::unsupported,
                 "package: version " + std::to_string(header_.version) + ", this build reads 1");
  }
  if (header_.header_bytes != package_header_bytes || header_.reserved != 0 ||
      header_.entries <= weight_sections - 1U || header_.entries > package_entries_max) {
    return corrupt("a field of the header is out of its range");
  }
  if (header_.file_bytes != bytes_.size()) return corrupt("the file has another length");
  return {};
}

// The weights' sections in order, then statistics; one behind the other.
Status Package::read_entries() {
  entries_.resize(header_.entries);
  const ByteView table = bytes_.subspan(sizeof header_, header_.entries * sizeof(PackageEntry));
  std::memcpy(entries_.data(), table.data(), table.size());
  std::uint64_t next = package_header_bytes;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const PackageEntry& entry = entries_[i];
    const bool is_weights = i < weight_sections;
    const auto kind = is_weights ? static_cast<SectionKind>(i + 1) : SectionKind::statistics;
    const std::size_t index = is_weights ? 0 : i - weight_sections;
    if (entry.kind != kind || entry.index != index || entry.reserved != 0) {
      return corrupt("its sections are others, or in another order");
    }
    if (entry.bytes > section_bytes_max || entry.offset != next || next > bytes_.size() ||
        entry.bytes > bytes_.size() - next) {
      return corrupt("a section leaves the file");
    }
    next = round_up(entry.offset + entry.bytes, package_alignment);
    if (!is_weights) statistics_.push_back(bytes_.subspan(entry.offset, entry.bytes));
  }
  const PackageEntry& last = entries_.back();
  if (last.offset + last.bytes != bytes_.size()) return corrupt("bytes after the last section");
  if (blake2b(table.first(weight_sections * sizeof(PackageEntry))) != header_.weights_hash) {
    return corrupt("the hash of its weights differs");
  }
  const ByteView config = section(SectionKind::config);
  if (config.size() != sizeof config_) return corrupt("a config of another length");
  std::memcpy(&config_, config.data(), sizeof config_);
  KV_TRY(check_config(config_));
  const PackageLayout layout(config_);
  for (std::size_t i = 0; i < weight_sections; ++i) {
    if (entries_[i].bytes != layout.section_bytes(entries_[i].kind)) {
      return corrupt("a section of another length than its config asks for");
    }
  }
  return {};
}

Status Package::check_sections() const {
  std::uint64_t end = sizeof header_ + entries_.size() * sizeof(PackageEntry);
  for (const PackageEntry& entry : entries_) {
    const ByteView gap = bytes_.subspan(end, entry.offset - end);
    if (!std::ranges::all_of(gap, [](std::byte byte) { return byte == std::byte{0}; })) {
      return corrupt("bytes between sections");
    }
    end = entry.offset + entry.bytes;
    if (blake2b(bytes_.subspan(entry.offset, entry.bytes)) != entry.hash) {
      return corrupt("the hash of section " + std::to_string(static_cast<unsigned>(entry.kind)) +
                     " differs");
    }
  }
  return {};
}

Status Package::check_numbers() const {
  const auto embedding = numbers_of<std::uint16_t>(section(SectionKind::embedding));
  if (!std::ranges::all_of(
          embedding, [](float number) { return std::isfinite(number); }, float_of_bf16)) {
    return corrupt("the embedding holds a NaN or an infinity");
  }
  if (!all_finite(numbers_of<float>(section(SectionKind::vectors)))) {
    return corrupt("a norm or bias is not finite");
  }
  const auto scales = numbers_of<float>(section(SectionKind::scales));
  if (!std::ranges::all_of(scales, [](float s) { return s >= 0 && std::isfinite(s); })) {
    return corrupt("a scale is negative or not finite");
  }
  const ByteView codes = section(SectionKind::codes);
  const bool within = config_.weight_bits == 8
                          ? all_within<std::int8_t>(codes, static_cast<int>(top_of_8_bits))
                          : all_within<std::int16_t>(codes, static_cast<int>(top_of_13_bits));
  return within ? Status() : corrupt("a code beyond its range");
}

void Package::read_rope() {
  const ByteView rope = section(SectionKind::rope);
  std::vector<float> all;
  if ((config_.flags & has_bf16_rope) != 0) {
    for (const std::uint16_t bits : numbers_of<std::uint16_t>(rope)) {
      all.push_back(float_of_bf16(bits));
    }
  } else {
    const auto numbers = numbers_of<float>(rope);
    all.assign(numbers.begin(), numbers.end());
  }
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  cosines_.assign(all.begin(), half);
  sines_.assign(half, all.end());
  model_.cosines = cosines_;
  model_.sines = sines_;
}

void Package::read_layers() {
  const PackageLayout layout(config_);
  model_.config = {.layers = config_.layers,
                   .hidden = config_.hidden,
                   .intermediate = config_.intermediate,
                   .vocab = config_.vocab,
                   .heads = config_.heads,
                   .kv_heads = config_.kv_heads,
                   .head_dim = config_.head_dim,
                   .rotary_dim = config_.rotary_dim,
                   .positions = config_.positions,
                   .window = config_.window,
                   .eps = config_.eps,
                   .softmax_scale = config_.softmax_scale,
                   .rope_inverse = config_.rope_inverse,
                   .activation_top = config_.activation_bits == 8 ? top_of_8_bits : top_of_13_bits};
  const auto* const codes = section(SectionKind::codes).data();
  const auto* const scales = section(SectionKind::scales).data();
  const auto weights = [&](const MatrixPlace& place) -> Weights {
    const auto view = [&]<typename Code>(Code) {
      return TileView<Code>{reinterpret_cast<const Code*>(codes + place.codes_offset),
                            reinterpret_cast<const float*>(scales + place.scales_offset),
                            place.rows, place.columns, config_.group};
    };
    if (config_.weight_bits == 8) return view(std::int8_t{});
    return view(std::int16_t{});
  };
  std::span<const float> vectors = numbers_of<float>(section(SectionKind::vectors));
  const auto take = [&](std::uint32_t numbers) {
    const auto taken = vectors.first(numbers);
    vectors = vectors.subspan(numbers);
    return taken;
  };
  for (const std::vector<MatrixPlace>& places : layout.matrices()) {
    LayerWeights& layer = model_.layers.emplace_back();
    layer.input_norm = take(config_.hidden);
    layer.post_norm = take(config_.hidden);
    if ((config_.flags & has_bias) != 0) {
      layer.q_bias = take(config_.heads * config_.head_dim);
      layer.k_bias = take(config_.kv_heads * config_.head_dim);
      layer.v_bias = take(config_.kv_heads * config_.head_dim);
    }
    if ((config_.flags & has_qk_norm) != 0) {
      layer.q_norm = take(config_.head_dim);
      layer.k_norm = take(config_.head_dim);
    }
    Weights* const all[] = {&layer.q,    &layer.k,  &layer.v,   &layer.o,
                            &layer.gate, &layer.up, &layer.down};
    for (std::size_t i = 0; i < matrices_a_layer; ++i) *all[i] = weights(places[i]);
  }
}

ByteView Package::section(SectionKind kind) const {
  const PackageEntry& entry = entries_.at(static_cast<std::size_t>(kind) - 1);
  return bytes_.subspan(entry.offset, entry.bytes);
}

}  // namespace kvstrata::predictor
