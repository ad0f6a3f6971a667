// A Package is a package file, mapped and checked: the Model in it, and what is kept of its errors.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"
#include "predictor/model.h"
#include "predictor/package_format.h"

namespace kvstrata::predictor {

class Package {
 public:
  /// Maps the file and checks every byte of it. `corrupt` says what is wrong, `unsupported` what
  /// this build can't serve. Nobody may write to the file while it is open.
  static Result<std::shared_ptr<const Package>> open(const std::string& path);
  /// The same of bytes that `keeper` holds.
  static Result<std::shared_ptr<const Package>> parse(ByteView bytes,
                                                      std::shared_ptr<const void> keeper);

  const PackageConfig& config() const { return config_; }
  const Hash256& weights_hash() const { return header_.weights_hash; }
  const Model& model() const { return model_; }
  const std::vector<ByteView>& statistics() const { return statistics_; }

  Package(const Package&) = delete;  // the model's views are of this object
  Package& operator=(const Package&) = delete;

 private:
  Package(ByteView bytes, std::shared_ptr<const void> keeper)
      : bytes_(bytes), keeper_(std::move(keeper)) {}

  Status read();
  Status read_header();
  Status read_entries();
  Status check_sections() const;
  Status check_numbers() const;
  void read_rope();
  void read_layers();
  ByteView section(SectionKind kind) const;

  ByteView bytes_;
  std::shared_ptr<const void> keeper_;
  PackageHeader header_{};
  PackageConfig config_{};
  std::vector<PackageEntry> entries_;
  std::vector<float> cosines_, sines_;
  std::vector<ByteView> statistics_;
  Model model_;
};

}  // namespace kvstrata::predictor
