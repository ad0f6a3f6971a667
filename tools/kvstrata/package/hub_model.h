// Imports the weights of a Hugging Face model folder (config.json, *.safetensors) into a package,
// quantised. Tiles of 16 rows are read, quantised and written one after the other: memory is that
// of one, and of the RoPE tables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kvstrata/result.h"
#include "predictor/package_writer.h"
#include "tools/kvstrata/package/hub_config.h"

namespace kvstrata::tool {

enum class Preset : std::uint8_t { fast, balanced, max };

struct ImportOptions {
  Preset preset = Preset::max;
  std::uint32_t group = 64;             ///< or 32
  std::uint32_t positions_max = 32768;  ///< of RoPE tables; blocks beyond are not predicted
};

/// Told bytes of codes written and to write.
using ImportProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

/// Writes all sections of weights; statistics and finish() are the caller's. `not_found` names a
/// file or tensor that is missing, `corrupt` one of another shape, dtype or with a NaN or infinity.
Result<predictor::PackageWriter> import_model(const std::string& folder,
                                              const ImportOptions& options,
                                              predictor::PackageWriter::Sink sink,
                                              const ImportProgress& progress);

}  // namespace kvstrata::tool
