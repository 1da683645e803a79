#include "trials/programs/trial_log.h"

#include <array>
#include <cerrno>
#include <charconv>

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
    std::error_code none;
    std::filesystem::create_directories(path.parent_path(), none);
    // Neither through a symbolic link nor into a FIFO, for which there is no
    // reader.
    fd_ = ::open(path.c_str(),
                 O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC |
                     O_NOFOLLOW | O_NONBLOCK,
                 0666);
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
  if (fd_ >= 0) {
    ::close(fd_);
  }
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
  while (fd_ >= 0 && !text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      ::close(fd_);
      fd_ = -1;
    }
  }
}

}  // namespace trials
