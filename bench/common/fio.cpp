#include "bench/common/fio.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/common/process.h"

namespace kvstrata::bench {

namespace {

void write_job(const FioJob& job, const std::string& path) {
  std::ofstream out(path);
  out << "[job]\nioengine=io_uring\ndirect=1\nrandrepeat=0\nnorandommap=1\ntime_based=1\n"
      << "rw=" << job.operation << "\nbs=" << io_bytes << "\niodepth=" << io_depth
      << "\nruntime=" << static_cast<long>(job.seconds * 1000) << "ms\n"
      << "size=" << job.bytes_a_file * job.files.size() << "\nfilename=";
  for (std::size_t i = 0; i < job.files.size(); ++i) out << (i > 0 ? ":" : "") << job.files[i];
  out << '\n';
  if (job.sync_bytes > 0) out << "fdatasync=" << job.sync_bytes / io_bytes << '\n';
  if (!out.flush()) fail("can't write " + path);
}

std::string output_of(const std::string& command) {
  // NOLINTNEXTLINE(cert-env33-c): a benchmark that runs the user's own fio
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) fail("can't run " + command);
  std::string output;
  std::array<char, 4096> part{};
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe.get())) {
    output.append(part.data(), count);
  }
  return output;
}

}  // namespace

DiskRate run_fio(const FioJob& job, const std::string& scratch) {
  const std::string path = scratch + "/job.fio";
  write_job(job, path);
  const std::string output = output_of("fio --output-format=json '" + path + "'");
  // Notes may come before the object.
  const auto json = nlohmann::json::parse(output.substr(std::min(output.find('{'), output.size())),
                                          nullptr, false);
  if (json.is_discarded()) fail("fio did not run (is it installed?): " + output);
  const auto& result = json.at("jobs").at(0);
  if (result.at("error") != 0) fail("fio failed: " + output);
  const auto& moved = result.at(job.operation == "write" ? "write" : "read");
  const double cpu_percent =
      result.at("usr_cpu").get<double>() + result.at("sys_cpu").get<double>();
  const double cpu_seconds = cpu_percent / 100 * result.at("job_runtime").get<double>() / 1000;
  const double gib = moved.at("io_bytes").get<double>() / static_cast<double>(1 << 30);
  return {moved.at("bw_bytes").get<double>(), cpu_seconds / gib};
}

}  // namespace kvstrata::bench
