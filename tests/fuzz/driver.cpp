// main() of a fuzz target without libFuzzer: replays the files and folders it is given, then feeds
// the target mutated and random inputs for KVSTRATA_FUZZ_SECONDS (1), or KVSTRATA_FUZZ_CASES of
// them. No coverage guides it; it keeps targets honest in every build, and tries far more inputs in
// a second than `tools/dev fuzz` does, which searches deeper.
//
// A target may define LLVMFuzzerInitialize and LLVMFuzzerCustomMutator, as with libFuzzer.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/base/seed.h"
#include "tests/fuzz/mutate.h"

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
[[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);
[[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                  std::size_t size_max, unsigned int seed);
[[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());
}

namespace kvstrata::test {

namespace {

constexpr std::size_t input_bytes_max = 1 << 16;
constexpr std::size_t replayed_bytes_max = 1 << 24;
constexpr time_t input_seconds_max = 60;  // of CPU; an input that takes longer is a finding

/// The input the target has now, where a signal handler finds it.
struct Current {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::array<char, 256> path{};  ///< where it is saved if the target dies of it
};
Current current;

void say(const char* text) {
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

/// Only what may be called when the process is broken.
void save_current() {
  if (current.data == nullptr) return;
  const int fd = ::open(current.path.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd >= 0) {
    (void)!::write(fd, current.data, current.size);
    (void)::close(fd);
    say("the input is in ");
    say(current.path.data());
    say("\n");
  }
  current.data = nullptr;
}

void on_fatal_signal(int number) {
  if (number == SIGPROF) say("the target hangs; ");
  save_current();
  (void)std::signal(number, SIG_DFL);
  (void)std::raise(number);
}

void catch_deaths(const std::string& target, std::uint64_t seed) {
  const char* folder = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/" + target +
                           "-crash-" + std::to_string(seed);
  path.copy(current.path.data(), current.path.size() - 1);
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF}) {
    (void)std::signal(number, on_fatal_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_current);
}

/// Sends SIGPROF after so much time of this process; 0 for never.
void limit_cpu_seconds(time_t seconds) {
  const itimerval after{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  (void)::setitimer(ITIMER_PROF, &after, nullptr);
}

/// Runs the target on a copy that is exactly as long as it says, so that sanitizers see overruns.
void feed(const Input& input) {
  const Input exact(input);
  current.data = exact.data();
  current.size = exact.size();
  limit_cpu_seconds(input_seconds_max);
  (void)LLVMFuzzerTestOneInput(exact.data(), exact.size());
  limit_cpu_seconds(0);
  current.data = nullptr;
}

std::vector<Input> read_corpus(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::vector<Input> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream || std::filesystem::file_size(file) > replayed_bytes_max) {
      std::fprintf(stderr, "%s can't be read or is too long\n", file.c_str());
      std::exit(2);
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

/// The next input: a random one, or a mutation of one of the corpus.
Input next_input(const std::vector<Input>& corpus, Random& random) {
  Input input;
  if (corpus.empty() || random.one_in(8)) {
    input = random_input(random, input_bytes_max);
  } else {
    input = corpus[random.below(corpus.size())];
    if (input.size() > input_bytes_max) input.resize(input_bytes_max);
    if (random.one_in(8)) splice(input, corpus[random.below(corpus.size())], random);
    if (input.size() > input_bytes_max) input.resize(input_bytes_max);
  }
  if (LLVMFuzzerCustomMutator != nullptr && !random.one_in(4)) {
    const std::size_t size = input.size();
    input.resize(input_bytes_max);
    input.resize(LLVMFuzzerCustomMutator(input.data(), size, input_bytes_max,
                                         static_cast<unsigned>(random.bits())));
    return input;
  }
  mutate(input, input_bytes_max, random);
  return input;
}

double number_from(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

/// How long to go on: `cases` inputs if that is not 0, else `seconds`.
struct Effort {
  double seconds = number_from("KVSTRATA_FUZZ_SECONDS", 1.0);
  double cases = number_from("KVSTRATA_FUZZ_CASES", 0.0);
};

std::uint64_t feed_inputs(const std::vector<Input>& corpus, std::uint64_t seed,
                          const Effort& effort) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(effort.seconds));
  Random random(seed);
  feed({});
  std::uint64_t executions = 1;
  const auto goes_on = [&] {
    return effort.cases > 0 ? static_cast<double>(executions) < effort.cases : Clock::now() < end;
  };
  for (; goes_on(); ++executions) {
    feed(next_input(corpus, random));
    if (executions % 1'000'000 == 0) {
      std::printf("%llu inputs\n", static_cast<unsigned long long>(executions));
      (void)std::fflush(stdout);
    }
  }
  return executions;
}

}  // namespace

}  // namespace kvstrata::test

/// What targets with a mutator of their own use for the bytes whose structure they don't care for.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t size_max) {
  static kvstrata::test::Random random(size);
  kvstrata::test::Input input(data, data + size);
  kvstrata::test::mutate(input, size_max, random);
  std::copy(input.begin(), input.end(), data);
  return input.size();
}

int main(int argc, char** argv) {
  using namespace kvstrata::test;
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  const std::string target = std::filesystem::path(argv[0]).filename().string();
  const std::uint64_t seed = test_seed(target.c_str());
  catch_deaths(target, seed);

  const std::vector<Input> corpus = read_corpus(argc, argv);
  for (const Input& input : corpus) feed(input);

  const std::uint64_t executions = feed_inputs(corpus, seed, Effort());
  std::printf("%s: %zu replayed, %llu executions\n", target.c_str(), corpus.size(),
              static_cast<unsigned long long>(executions));
  return 0;
}
