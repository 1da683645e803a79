#include "harness/records/lease_file.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/files.h"
#include "common/process_table.h"
#include "common/text.h"
#include "harness/provenance.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

// Files with higher epochs are not ours, and the next one always exists.
constexpr std::int64_t kHighestEpoch = 1'000'000'000'000'000;

// When a process of this host started; "" if there is none.
std::string StartOf(const std::string& pid) {
  pid_t number = 0;
  const auto [end, error] =
      std::from_chars(pid.data(), pid.data() + pid.size(), number);
  const auto process =
      error == std::errc() ? common::FindProcess(number) : std::nullopt;
  return process ? process->start : "";
}

}  // namespace

fs::path LeasePath(const fs::path& folder, std::int64_t epoch) {
  return folder / fmt::format("{}{}", kLeasePrefix, epoch);
}

std::optional<std::int64_t> EpochOf(const std::string& name,
                                    std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  std::int64_t epoch = 0;
  const char* begin = name.data() + prefix.size();
  const auto [end, error] =
      std::from_chars(begin, name.data() + name.size(), epoch);
  const bool ends = end == name.data() + name.size() || *end == '-';
  return error == std::errc() && end != begin && ends && epoch > 0 &&
                 epoch < kHighestEpoch
             ? std::optional(epoch)
             : std::nullopt;
}

std::int64_t HighestEpoch(const fs::path& folder) {
  std::int64_t highest = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    highest = std::max(
        highest,
        EpochOf(entry.path().filename().string(), kLeasePrefix).value_or(0));
  }
  return highest;
}

Holder Holder::Self() {
  const std::string pid = std::to_string(::getpid());
  const char* job = std::getenv("SLURM_JOB_ID");
  return {.count = "0",
          .host = HostName(),
          .boot = common::ProcessSpace(),
          .pid = pid,
          .start = StartOf(pid),
          .job = job == nullptr ? "" : job};
}

std::string Holder::Name() const {
  return fmt::format("process {} on {}{}{}", pid, host,
                     job.empty() ? "" : ", Slurm job ", job);
}

bool Holder::IsHere() const {
  return host == HostName() && boot == common::ProcessSpace();
}

bool Holder::IsGone() const {
  return count == "released" || (IsHere() && StartOf(pid) != start);
}

std::string Holder::Text() const {
  return fmt::format("{}|{}|{}|{}|{}|{}\n", CountText(count), host, boot, pid,
                     start, job);
}

std::optional<Holder> ReadHolder(const fs::path& path) {
  const std::string text = common::ReadFileIfExists(path).value_or("");
  const auto cells = common::Split(common::Trim(text), '|');
  if (cells.size() != 6 || text.back() != '\n') {
    return std::nullopt;
  }
  Holder holder;
  holder.count = common::Trim(cells[0]);
  holder.host = cells[1];
  holder.boot = cells[2];
  holder.pid = cells[3];
  holder.start = cells[4];
  holder.job = cells[5];
  return holder;
}

std::string CountText(std::string_view count) {
  return fmt::format("{:<{}}", count, kCountWidth);
}

}  // namespace harness
