#include "harness/records/lease.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "harness/records/lease_file.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr double kBeatsPerTimeout = 5.0;
constexpr double kWatchIntervalSeconds = 0.05;
constexpr double kAliveElsewhereSeconds = 60.0;

}  // namespace

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
  ::close(fd_);
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
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    if (errno == EEXIST) {
      return;
    }
    common::ThrowErrno(path, "create");
  }
  try {
    common::WriteAll(fd_, path, Holder::Self().Text());
  } catch (const std::runtime_error&) {
    ::close(fd_);
    ::unlink(path.c_str());
    throw;
  }
  // A process that was stopped before this line may be too late.
  if (HighestEpoch(folder_) != epoch) {
    ::close(fd_);
    ::unlink(path.c_str());
    return;
  }
  ::fsync(fd_);
  common::SyncFolder(folder_);
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
      ::unlink(entry.path().c_str());
    }
    if (const auto epoch = EpochOf(name, kLeasePrefix);
        epoch && *epoch < epoch_) {
      older.push_back(*epoch);
    }
  }
  std::sort(older.begin(), older.end());
  for (const std::int64_t epoch : older) {
    ::unlink(LeasePath(folder_, epoch).c_str());
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
      ::fsync(fd_);
    }
  }
}

// Allocates nothing: it runs in a destructor and in a thread.
bool Lease::Overwrite(std::string_view count) const {
  std::array<char, kCountWidth> text{};
  text.fill(' ');
  std::copy(count.begin(), count.end(), text.begin());
  return ::pwrite(fd_, text.data(), text.size(), 0) >= 0;
}

bool Lease::IsHeld() const {
  struct stat found {};
  if (::stat(LeasePath(folder_, epoch_ + 1).c_str(), &found) == 0 ||
      ::stat(LeasePath(folder_, epoch_).c_str(), &found) != 0) {
    return false;
  }
  struct stat own {};
  return ::fstat(fd_, &own) == 0 && own.st_ino == found.st_ino &&
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

int Lease::PublishOpen(const std::string& name, const std::string& text) const {
  const fs::path temporary =
      folder_ / fmt::format("{}{}-{}", kPublishPrefix, epoch_, name);
  const int fd =
      ::open(temporary.c_str(),
             O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) {
    common::ThrowErrno(temporary, "create");
  }
  bool renamed = false;
  try {
    common::WriteAll(fd, temporary, text);
    if (::fsync(fd) != 0) {
      common::ThrowErrno(temporary, "write");
    }
    Check();
    renamed = ::rename(temporary.c_str(), (folder_ / name).c_str()) == 0;
    if (!renamed) {
      const int error = errno;
      Check();  // ENOENT: the next holder has deleted it
      errno = error;
      common::ThrowErrno(folder_ / name, "replace");
    }
    common::SyncFolder(folder_);
    Check();
  } catch (...) {
    ::close(fd);
    if (!renamed) {
      ::unlink(temporary.c_str());
    }
    throw;
  }
  return fd;
}

void Lease::Publish(const std::string& name, const std::string& text) const {
  ::close(PublishOpen(name, text));
}

bool IsLeased(const fs::path& folder) {
  std::error_code none;
  if (!fs::is_directory(folder, none)) {
    return false;
  }
  const std::int64_t epoch = HighestEpoch(folder);
  const fs::path path = LeasePath(folder, epoch);
  const auto holder = epoch == 0 ? std::nullopt : ReadHolder(path);
  if (!holder || holder->IsGone()) {
    return false;
  }
  if (holder->IsHere()) {
    return true;
  }
  const auto age =
      fs::file_time_type::clock::now() - fs::last_write_time(path, none);
  return std::chrono::duration<double>(age).count() < kAliveElsewhereSeconds;
}

}  // namespace harness
