#include "trials/programs/error_line.h"

#include <regex>

#include <fmt/format.h>

#include "common/text.h"

namespace trials {
namespace {

constexpr std::size_t kMostText = 1024;  // of a line

// What launchers print once a rank has failed.
const std::regex kLauncher(
    R"(failed \(exitcode:|ChildFailedError|Sending process \d|)"
    R"(exits with return code|Killing subprocess|)"
    R"(^(srun|slurmstepd): error|^subprocess\.CalledProcessError)");
// In torchrun's summary: "  exitcode  : -9 (pid: 6439)  (SIGKILL)".
const std::regex kSummary(
    R"(^\s*(rank|exitcode)\s*: (-?\d+).*?(\(SIG\w+\))?\s*$)");
const std::regex kRank(
    R"(^(?:\[[a-z]*(?:\d+,)?(\d+)\](?:<\w+>)?: ?|(\d+): ?)+)");
const std::regex kException(R"(^(?:\w+\.)*[A-Z]\w*\s*(?::.*)?$)");

}  // namespace

void ErrorLine::Read(std::string_view line, int stream) {
  ++count_;
  std::string text(common::Trim(line.substr(0, kMostText)).empty()
                       ? ""
                       : line.substr(0, kMostText));
  std::smatch match;
  launcher_ = launcher_ || std::regex_search(text, kLauncher);
  if (launcher_) {
    if (text.find("Root Cause") != text.npos) {
      exit_.clear();
    } else if (std::regex_search(text, match, kSummary)) {
      (match[1] == "rank" ? failed_rank_ : exit_) =
          common::Trim(match.format("$2 $3"));
    }
    return;
  }
  std::string rank;
  if (std::regex_search(text, match, kRank)) {
    rank = match.format("$1$2");
    text = match.suffix();
  }
  const std::string key = fmt::format("{} {}", stream, rank);
  if (text.find("Traceback (most recent call last)") != text.npos) {
    open_.insert(key);
  } else if (open_.contains(key)) {
    if (std::regex_match(text, kException)) {
      open_.erase(key);
      error_ = error_.number == 0 ? Line{text, count_} : error_;
      if (!rank.empty()) {
        ranks_.insert(rank);
      }
    }
  } else if (error_.number == 0 && !text.empty() &&
             !text.starts_with("oppa {")) {
    last_ = {std::string(common::Trim(line)), count_};
  }
}

std::string ErrorLine::text() const {
  if (!IsSilent()) {
    return error_.text;
  }
  return exit_.empty()
             ? last_.text
             : fmt::format("{}{}rank {} failed first: exit code {}", last_.text,
                           last_.text.empty() ? "" : "; ", failed_rank_, exit_);
}

}  // namespace trials
