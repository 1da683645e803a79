// The output of a trial as a file that cannot grow without end.

#ifndef TRIALS_COMMAND_TRIAL_LOG_H_
#define TRIALS_COMMAND_TRIAL_LOG_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trials {

// Keeps the first half and the last half of what is printed, `most_bytes`
// together, and says how much is left out between them. The first half is in
// the file at once, the last half when this object goes. A log that cannot be
// written is no reason to lose a trial: then there is none.
class TrialLog {
 public:
  // An empty path: no file.
  TrialLog(const std::filesystem::path& path, std::size_t most_bytes);
  ~TrialLog();
  TrialLog(const TrialLog&) = delete;
  TrialLog& operator=(const TrialLog&) = delete;

  void Append(std::string_view text);

  // The last line that is not empty, for a message.
  [[nodiscard]] std::string LastLine() const;

 private:
  void Write(std::string_view text);

  int fd_ = -1;
  std::size_t half_;
  std::size_t head_ = 0;        // bytes in the file
  std::string tail_;            // at most 2 * half_
  std::uint64_t left_out_ = 0;  // bytes dropped from tail_
  std::string last_;            // the end of all, for LastLine
};

}  // namespace trials

#endif  // TRIALS_COMMAND_TRIAL_LOG_H_
