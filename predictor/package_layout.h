// What follows from a package's config: which numbers it may hold, the length of each section and
// where matrices lie in theirs. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvstrata/result.h"
#include "predictor/package_format.h"

namespace kvstrata::predictor {

/// `corrupt` names the field that is out of its range, `unsupported` what this build can't compute.
Status check_config(const PackageConfig& config);

/// A matrix of a layer: rows are outputs. Offsets in their sections, in bytes.
struct MatrixPlace {
  std::uint32_t rows = 0, columns = 0;
  std::uint64_t codes_offset = 0, scales_offset = 0;
};
enum class MatrixName : std::uint8_t { q, k, v, o, gate, up, down };
inline constexpr std::size_t matrices_a_layer = 7;
/// As engines name their tensors: "q_proj", ...
std::string to_string(MatrixName name);

/// Of a config that was checked.
class PackageLayout {
 public:
  explicit PackageLayout(const PackageConfig& config);

  std::uint64_t section_bytes(SectionKind kind) const;
  /// [layer][name]; of the last layer all but k and v have no rows.
  const std::vector<std::vector<MatrixPlace>>& matrices() const { return matrices_; }
  std::uint32_t code_bytes() const { return config_.weight_bits == 8 ? 1 : 2; }
  std::uint32_t groups(const MatrixPlace& matrix) const {
    return (matrix.columns + config_.group - 1) / config_.group;
  }
  /// binary32 numbers of a layer in the section of vectors: norms, biases, norms of heads.
  std::uint64_t vector_numbers() const;

 private:
  PackageConfig config_;
  std::vector<std::vector<MatrixPlace>> matrices_;
  std::uint64_t codes_bytes_ = 0, scales_bytes_ = 0;
};

}  // namespace kvstrata::predictor
