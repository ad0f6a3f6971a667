#include "bench/common/figures.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/common/process.h"

namespace kvstrata::bench {

void Figures::add(const std::string& key, double value, const std::string& unit) {
  values_[key] = value;
  std::printf("  %-36s %10.3f %s\n", key.c_str(), value, unit.c_str());
  std::fflush(stdout);
}

void Figures::write_json(const std::string& path) const {
  if (path.empty()) return;
  std::ofstream file(path);
  file << nlohmann::json(values_).dump(2) << '\n';
  if (!file.flush()) fail("can't write " + path);
}

}  // namespace kvstrata::bench
