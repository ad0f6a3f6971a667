// Figures of a benchmark: printed as they come, written as flat JSON at the end.
#pragma once

#include <map>
#include <string>

namespace kvstrata::bench {

class Figures {
 public:
  void add(const std::string& key, double value, const std::string& unit = "");
  /// Exits with a message if the file can't be written. An empty path writes nothing.
  void write_json(const std::string& path) const;

 private:
  std::map<std::string, double> values_;
};

}  // namespace kvstrata::bench
