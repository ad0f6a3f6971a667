#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/exit_code.h"

namespace kvstrata::cli {

namespace {

// kvstratad beside this program, else in the build tree's place, else from PATH.
std::string daemon_program() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  for (const char* relative :
       {"kvstratad", "../../daemon/server/kvstratad", "../daemon/kvstratad"}) {
    const auto candidate = self.parent_path() / relative;
    if (!failed && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "kvstratad";
}

}  // namespace

int run_serve(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {daemon_program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (std::string& argument : command) raw.push_back(argument.data());
  raw.push_back(nullptr);
  execvp(raw[0], raw.data());
  return report(error_from_errno(
      errno, "can't run " + command.front() + "; is it installed beside kvstrata?"));
}

}  // namespace kvstrata::cli
