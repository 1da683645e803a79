// The log of a trial: its output in a file of bounded size.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/files.h"

namespace trials {

// Keeps the first and the last half of the output, `most_bytes` together, with
// the number of bytes left out between them. The first half is written at once,
// the last half by the destructor. If the log cannot be written, the trial
// continues without a log.
class TrialLog {
 public:
  // An empty path: no file.
  TrialLog(const std::filesystem::path& path, std::size_t most_bytes);
  ~TrialLog();
  TrialLog(const TrialLog&) = delete;
  TrialLog& operator=(const TrialLog&) = delete;

  void Append(std::string_view text);

 private:
  void Write(std::string_view text);

  common::Descriptor file_;
  std::size_t half_;
  std::size_t head_ = 0;        // bytes in the file
  std::string tail_;            // at most 2 * half_
  std::uint64_t left_out_ = 0;  // bytes dropped from tail_
};

}  // namespace trials
