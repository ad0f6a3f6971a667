// What people see: tables, sizes, progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace kvstrata::cli {

/// "4.2 GiB".
std::string human_bytes(std::uint64_t bytes);

/// "1,234,567".
std::string human_count(std::uint64_t count);

/// Names from files and from other machines may hold anything: what a terminal would take for a
/// command (control characters, those of UTF-8 beyond ASCII too) becomes '?'.
std::string printable(std::string text);

/// Rows of cells in aligned columns: to the left, or to the right where the head begins with '>'.
class Table {
 public:
  explicit Table(std::vector<std::string> head);
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() const;

 private:
  std::vector<std::string> head_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// A progress bar on standard error; silent where that is no terminal.
class Progress {
 public:
  Progress(std::string what, std::uint64_t total);
  ~Progress();
  void set(std::uint64_t done);

 private:
  std::string what_;
  std::uint64_t total_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace kvstrata::cli
