// The exclusive right to write the records of a run, with takeover.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "common/files.h"

namespace harness {

// Thrown if another process writes the records of the run.
class LeaseLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A lease on a folder, numbered by epochs: the holder of the highest epoch may
// write there. A writer that was stopped, or cut off from Slurm, and resumes
// after a takeover, cannot damage the records:
//
//   1. A process takes epoch n by creating the file .lease-n, which can succeed
//      once only. The file contains the holder's host, boot, process and a
//      count that a thread raises while the holder is alive.
//   2. The new holder deletes what older epochs were about to publish, then the
//      older leases, and then reads the folder. It appends only to files that
//      it has published itself, so late writes of an older holder go to files
//      that no longer have a name.
//   3. Publishing is a rename from a name that contains the epoch. After a
//      takeover that name is deleted, and the rename fails.
//   4. A holder checks the lease after every write, before the write counts. So
//      the next holder sees every write that counts.
//
// A lease is free if it was released, if its holder ran on this boot of this
// host and its process no longer exists, or if its count has not changed for
// `timeout_s` on the clock of this process. No clocks are compared, so neither
// their differences nor their jumps matter.
//
// Errors: the constructor throws LeaseLost if the holder is alive; all
// functions throw std::runtime_error if the folder cannot be written.
class Lease {
 public:
  static constexpr double kTimeoutSeconds = 20.0;

  // timeout_s > 0; the count is raised five times as often.
  explicit Lease(std::filesystem::path folder,
                 double timeout_s = kTimeoutSeconds);
  // Releases the lease, if it is still held.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] bool IsHeld() const;
  // Errors: throws LeaseLost, naming who holds it, unless IsHeld().
  void Check() const;

  // Replaces the file `name` by one that holds `text`, durably, and returns a
  // descriptor that appends to it, or throws LeaseLost.
  [[nodiscard]] common::Descriptor PublishOpen(const std::string& name,
                                               const std::string& text) const;
  // Writes a file that does not change afterwards.
  void Publish(const std::string& name, const std::string& text) const;

  [[nodiscard]] std::int64_t epoch() const { return epoch_; }

 private:
  void Acquire();
  void Claim(std::int64_t epoch);
  void RemoveOlder() const;
  void Beat();
  // Replaces the count in the file; false if that fails.
  [[nodiscard]] bool Overwrite(std::string_view count) const;

  std::filesystem::path folder_;
  double timeout_s_;
  std::int64_t epoch_ = 0;
  common::Descriptor file_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread beat_;
};

// True if the lease is held. A holder on another host counts as alive if its
// count was raised in the last minute.
[[nodiscard]] bool IsLeased(const std::filesystem::path& folder);

// The names and contents of lease files.
inline constexpr std::string_view kLeasePrefix = ".lease-";
inline constexpr std::string_view kPublishPrefix = ".publish-";

[[nodiscard]] std::filesystem::path LeasePath(
    const std::filesystem::path& folder, std::int64_t epoch);

// Parses "<prefix><epoch>[-...]" and returns the epoch; nothing for any other
// name.
[[nodiscard]] std::optional<std::int64_t> EpochOf(const std::string& name,
                                                  std::string_view prefix);

// The highest epoch of the leases in the folder; 0: there is none.
[[nodiscard]] std::int64_t HighestEpoch(const std::filesystem::path& folder);

// The content of a lease file: "count|host|boot|pid|start|job". `boot` is the
// boot id and the PID namespace.
struct Holder {
  std::string count;  // "released" after the end
  std::string host, boot, pid, start, job;

  // This process, with the first count.
  [[nodiscard]] static Holder Self();

  // A description of the holder, for messages.
  [[nodiscard]] std::string Name() const;
  // In this PID namespace of this boot of this host.
  [[nodiscard]] bool IsHere() const;
  // It released the lease, or its process is here and no longer exists.
  [[nodiscard]] bool IsGone() const;
  // The content of the file.
  [[nodiscard]] std::string Text() const;
};

// Returns nothing for a lease that is not completely written.
[[nodiscard]] std::optional<Holder> ReadHolder(
    const std::filesystem::path& path);

// The process of this host that holds the lease; nothing if none does.
[[nodiscard]] std::optional<Holder> LocalHolder(
    const std::filesystem::path& folder);

}  // namespace harness
