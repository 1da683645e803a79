#include "trials/programs/error_line.h"

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/text.h"

namespace trials {
namespace {

constexpr std::size_t kMostText = 1024;  // of a line

// What launchers print once a rank has failed.
const common::Pattern kLauncher(
    R"(failed \(exitcode:|ChildFailedError|Sending process \d|)"
    R"(exits with return code|Killing subprocess|)"
    R"(^(srun|slurmstepd): error|^subprocess\.CalledProcessError)");
// In torchrun's summary: "  exitcode  : -9 (pid: 6439)  (SIGKILL)".
const common::Pattern kSummary(
    R"(^\s*(rank|exitcode)\s*: (-?\d+).*?(\(SIG\w+\))?\s*$)");
const common::Pattern kRank(
    R"(^(?:\[[a-z]*(?:\d+,)?(\d+)\](?:<\w+>)?: ?|(\d+): ?)+)");
const common::Pattern kException(R"(^(?:\w+\.)*[A-Z]\w*\s*(?::.*)?$)");

// Why ssh, srun, Open MPI and MPICH start nothing; not how a task ended.
const common::Pattern kLaunch(
    R"(^ssh to host |^ssh: |^srun: error: |Host key verification failed|)"
    R"(Permission denied \(publickey|not enough slots available|)"
    R"(^mpi(run|exec) (was|is) unable to|^[OP]RTE (was unable|has lost)|)"
    R"(HYD.*execvp error)");
const common::Pattern kTask(
    R"(\btasks? [0-9\[]|Exited|Terminated|[aA]borted|Killed|SIG[A-Z]+)");

}  // namespace

void ErrorLine::Read(std::string_view line, int stream) {
  ++count_;
  std::string text(common::Trim(line.substr(0, kMostText)).empty()
                       ? ""
                       : line.substr(0, kMostText));
  ReadLaunch(text);
  launcher_ = launcher_ || kLauncher.IsIn(text);
  if (launcher_) {
    ReadSummary(text);
    return;
  }
  std::string rank;
  if (const auto match = kRank.Find(text); !match.empty()) {
    rank = fmt::format("{}{}", match[1], match[2]);
    text.erase(0, match[0].size());
  }
  const std::string key = fmt::format("{} {}", stream, rank);
  if (text.find("Traceback (most recent call last)") != text.npos) {
    open_.insert(key);
  } else if (open_.contains(key)) {
    if (kException.IsIn(text)) {
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

void ErrorLine::ReadLaunch(const std::string& text) {
  // RunRanks names the host, which ssh may not.
  const bool better =
      text.starts_with(kSshFailure) && !launch_.starts_with(kSshFailure);
  if ((launch_.empty() || better) && kLaunch.IsIn(text) && !kTask.IsIn(text)) {
    launch_ = common::Trim(text);
  }
}

void ErrorLine::ReadSummary(const std::string& text) {
  if (text.find("Root Cause") != text.npos) {
    exit_.clear();
  } else if (const auto match = kSummary.Find(text); !match.empty()) {
    (match[1] == "rank" ? failed_rank_ : exit_) =
        common::Trim(fmt::format("{} {}", match[2], match[3]));
  }
}

std::string ErrorLine::text() const {
  if (!IsSilent()) {
    return error_.text;
  }
  if (!launch_.empty()) {
    return launch_;
  }
  return exit_.empty()
             ? last_.text
             : fmt::format("{}{}rank {} failed first: exit code {}", last_.text,
                           last_.text.empty() ? "" : "; ", failed_rank_, exit_);
}

}  // namespace trials
