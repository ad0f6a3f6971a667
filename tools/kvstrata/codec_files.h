// What the commands of `kvstrata codec` share: options turned into those of the container, a line
// of progress, and text that is safe to print.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/container/encode.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

tool::EncodeOptions encode_options(const CodecOptions& options);

/// One bar for each phase of long work, or its name alone where its length is not known; on a
/// terminal only.
class PhaseBar {
 public:
  PhaseBar() = default;
  PhaseBar(const PhaseBar&) = delete;
  PhaseBar& operator=(const PhaseBar&) = delete;
  ~PhaseBar();
  void set(std::string_view phase, std::uint64_t done, std::uint64_t total);
  tool::ProgressCallback callback() {
    return [this](std::string_view phase, std::uint64_t done, std::uint64_t total) {
      set(phase, done, total);
    };
  }

 private:
  std::string phase_;
  std::optional<Progress> bar_;
};

/// "1.53", or "-" of nothing.
std::string ratio_text(std::uint64_t raw_bytes, std::uint64_t encoded_bytes);

}  // namespace kvstrata::cli
