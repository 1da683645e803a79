#include "trials/programs/trial_log.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace trials {
namespace {

// Keeps the last `most` bytes of a growing text; returns the number of bytes
// dropped.
std::size_t KeepEnd(std::string& text, std::size_t most) {
  if (text.size() <= most) {
    return 0;
  }
  const std::size_t gone = text.size() - most;
  text.erase(0, gone);
  return gone;
}

}  // namespace

TrialLog::TrialLog(const std::filesystem::path& path, std::size_t most_bytes)
    : half_(most_bytes / 2) {
  if (!path.empty()) {
    try {
      file_ = common::CreateFile(path, O_WRONLY | O_APPEND);
    } catch (const std::runtime_error&) {
      // The disk is full: no log.
    }
  }
}

TrialLog::~TrialLog() {
  left_out_ += KeepEnd(tail_, half_);
  if (left_out_ > 0) {
    // Nothing that throws: this is a destructor.
    std::array<char, 20> digits{};
    const char* end =
        std::to_chars(digits.data(), digits.data() + digits.size(), left_out_)
            .ptr;
    Write("\n[... ");
    Write({digits.data(), end});
    Write(" bytes left out ...]\n");
  }
  Write(tail_);
}

void TrialLog::Append(std::string_view text) {
  const std::string_view first = text.substr(0, half_ - head_);
  Write(first);
  head_ += first.size();
  tail_ += text.substr(first.size());
  if (tail_.size() >= 2 * half_) {  // now and then, not with every piece
    left_out_ += KeepEnd(tail_, half_);
  }
}

void TrialLog::Write(std::string_view text) {
  while (file_.ok() && !text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      file_.Close();
    }
  }
}

}  // namespace trials
