#include "harness/records/lease.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process.h"
#include "common/text.h"
#include "harness/provenance.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr double kBeatsPerTimeout = 5.0;
constexpr double kWatchIntervalSeconds = 0.05;
constexpr double kAliveElsewhereSeconds = 60.0;

// The count has a fixed width, so that it is overwritten in place.
constexpr std::size_t kCountWidth = 20;

// Files with higher epochs are not ours, and the next one always exists.
constexpr std::int64_t kHighestEpoch = 1'000'000'000'000'000;

// Of the last lease in the folder; nothing if it is known to be free.
std::optional<Holder> LastHolder(const fs::path& folder) {
  std::error_code none;
  const std::int64_t epoch =
      fs::is_directory(folder, none) ? HighestEpoch(folder) : 0;
  auto holder =
      epoch == 0 ? std::nullopt : ReadHolder(LeasePath(folder, epoch));
  return holder && !holder->IsGone() ? holder : std::nullopt;
}

// When a process of this host started; "" if there is none.
std::string StartOf(const std::string& pid) {
  const std::optional<int> number = common::ParseInt(pid);
  const auto process = number ? common::FindProcess(*number) : std::nullopt;
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
  const std::string_view epoch = std::string_view(name).substr(prefix.size());
  return common::ParseInt64(epoch.substr(0, epoch.find('-')), 1,
                            kHighestEpoch - 1);
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
  return {.count = "0",
          .host = HostName(),
          .boot = common::ProcessSpace(),
          .pid = pid,
          .start = StartOf(pid),
          .job = common::EnvironmentValue("SLURM_JOB_ID")};
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
  return fmt::format("{}|{}|{}|{}|{}|{}\n",
                     fmt::format("{:<{}}", count, kCountWidth), host, boot, pid,
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

Lease::Lease(fs::path folder, double timeout_s)
    : folder_(std::move(folder)), timeout_s_(timeout_s) {
  Acquire();
  RemoveOlder();
  beat_ = std::thread([this] { Beat(); });
}

Lease::~Lease() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  beat_.join();
  // Other processes wait longer if it fails.
  (void)Overwrite("released");
}

// Waits until the lease is free and takes the next epoch.
void Lease::Acquire() {
  std::int64_t watched = -1;
  std::string last_count;
  double still_since_s = 0.0;
  bool has_moved = false;
  while (true) {
    const std::int64_t highest = HighestEpoch(folder_);
    const std::optional<Holder> holder =
        highest == 0 ? std::nullopt : ReadHolder(LeasePath(folder_, highest));
    const std::string count = holder ? holder->count : "";
    const double now_s = common::SteadySeconds();
    if (highest != watched) {
      watched = highest;
      last_count = count;
      still_since_s = now_s;
      has_moved = false;
    } else if (count != last_count) {
      last_count = count;
      still_since_s = now_s;
      has_moved = true;
    }
    if (has_moved && holder && !holder->IsGone()) {
      throw LeaseLost(fmt::format(
          "{}: {} is writing these records: wait for it, or stop it",
          folder_.string(), holder->Name()));
    }
    if (highest == 0 || (holder && holder->IsGone()) ||
        now_s - still_since_s >= timeout_s_) {
      Claim(highest + 1);
      if (epoch_ != 0) {
        return;
      }
      continue;
    }
    std::this_thread::sleep_for(
        std::chrono::duration<double>(kWatchIntervalSeconds));
  }
}

// Sets epoch_ unless another process was faster.
void Lease::Claim(std::int64_t epoch) {
  const fs::path path = LeasePath(folder_, epoch);
  common::Descriptor file = common::OpenFile(path, O_RDWR | O_CREAT | O_EXCL);
  if (!file.ok()) {
    if (errno == EEXIST) {
      return;
    }
    common::ThrowErrno(path, "create");
  }
  try {
    common::WriteAll(file.get(), path, Holder::Self().Text());
  } catch (const std::runtime_error&) {
    common::Remove(path);
    throw;
  }
  // A process that was stopped before this line may be too late.
  if (HighestEpoch(folder_) != epoch) {
    common::Remove(path);
    return;
  }
  ::fsync(file.get());
  common::SyncFolder(folder_);
  file_ = std::move(file);
  epoch_ = epoch;
}

// First deletes what older epochs may still publish, then their leases from the
// oldest on, so that the remaining leases are always the newest ones.
void Lease::RemoveOlder() const {
  std::vector<std::int64_t> older;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (const auto epoch = EpochOf(name, kPublishPrefix);
        epoch && *epoch < epoch_) {
      common::Remove(entry.path());
    }
    if (const auto epoch = EpochOf(name, kLeasePrefix);
        epoch && *epoch < epoch_) {
      older.push_back(*epoch);
    }
  }
  std::ranges::sort(older);
  for (const std::int64_t epoch : older) {
    common::Remove(LeasePath(folder_, epoch));
  }
}

void Lease::Beat() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> interval(timeout_s_ / kBeatsPerTimeout);
  std::uint64_t count = 0;
  while (!ending_.wait_for(lock, interval, [this] { return ends_; })) {
    std::array<char, kCountWidth> text{};
    char* const end =
        std::to_chars(text.data(), text.data() + text.size(), ++count).ptr;
    if (Overwrite({text.data(), end})) {  // else, others may acquire the lease
      ::fsync(file_.get());
    }
  }
}

// Allocates nothing: it runs in a destructor and in a thread.
bool Lease::Overwrite(std::string_view count) const {
  std::array<char, kCountWidth> text{};
  text.fill(' ');
  std::copy(count.begin(), count.end(), text.begin());
  return ::pwrite(file_.get(), text.data(), text.size(), 0) >= 0;
}

bool Lease::IsHeld() const {
  struct stat found {};
  if (::stat(LeasePath(folder_, epoch_ + 1).c_str(), &found) == 0 ||
      ::stat(LeasePath(folder_, epoch_).c_str(), &found) != 0) {
    return false;
  }
  struct stat own {};
  return ::fstat(file_.get(), &own) == 0 && own.st_ino == found.st_ino &&
         own.st_dev == found.st_dev;
}

void Lease::Check() const {
  if (IsHeld()) {
    return;
  }
  std::error_code none;
  const auto holder =
      fs::exists(folder_, none)
          ? ReadHolder(LeasePath(folder_, HighestEpoch(folder_)))
          : std::nullopt;
  throw LeaseLost(fmt::format(
      "{}: {} has taken these records over: this attempt stops",
      folder_.string(), holder ? holder->Name() : "another process"));
}

common::Descriptor Lease::PublishOpen(const std::string& name,
                                      const std::string& text) const {
  fs::path temporary =
      folder_ / fmt::format("{}{}-{}", kPublishPrefix, epoch_, name);
  common::Descriptor file =
      common::CreateTemporary(temporary.string(), O_RDWR | O_APPEND, temporary);
  bool renamed = false;
  try {
    common::WriteAll(file.get(), temporary, text);
    if (::fsync(file.get()) != 0) {
      common::ThrowErrno(temporary, "write");
    }
    Check();
    renamed = common::Rename(temporary, folder_ / name);
    if (!renamed) {
      const int error = errno;
      Check();  // ENOENT: the next holder has deleted it
      errno = error;
      common::ThrowErrno(folder_ / name, "replace");
    }
    common::SyncFolder(folder_);
    Check();
  } catch (...) {
    if (!renamed) {
      common::Remove(temporary);
    }
    throw;
  }
  return file;
}

void Lease::Publish(const std::string& name, const std::string& text) const {
  (void)PublishOpen(name, text);
}

std::optional<Holder> LocalHolder(const fs::path& folder) {
  auto holder = LastHolder(folder);
  return holder && holder->IsHere() ? holder : std::nullopt;
}

bool IsLeased(const fs::path& folder) {
  const auto holder = LastHolder(folder);
  if (!holder || holder->IsHere()) {
    return holder.has_value();
  }
  std::error_code none;
  const auto age =
      fs::file_time_type::clock::now() -
      fs::last_write_time(LeasePath(folder, HighestEpoch(folder)), none);
  return std::chrono::duration<double>(age).count() < kAliveElsewhereSeconds;
}

}  // namespace harness
