// The command lines of the simulation's programs: pairs of an option and its value.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace kvstrata::simulation {

class CommandLine {
 public:
  /// Ends the process with `usage` for --help, an option that `usage` doesn't name, or one without
  /// its value.
  CommandLine(int argc, char** argv, const std::string& usage) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      const bool known = usage.find("\n  " + name + " ") != std::string::npos;
      if (name == "--help" || i + 1 == argc || !known) {
        std::fputs(usage.c_str(), name == "--help" ? stdout : stderr);
        std::exit(name == "--help" ? 0 : 2);
      }
      values_[name] = argv[i + 1];
    }
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : found->second;
  }
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    return has(name) ? std::strtoull(text(name).c_str(), nullptr, 10) : otherwise;
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace kvstrata::simulation
