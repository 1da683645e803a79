// The right to write one run's records, which somebody else can take over.

#ifndef HARNESS_LEASE_H_
#define HARNESS_LEASE_H_

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace harness {

// Thrown in a process whose run another process writes, or has taken over.
class LeaseLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A lease on a folder, numbered by epochs: whoever holds the highest may write
// there. A writer that was stopped, or cut off from Slurm, and wakes up after
// another took over, cannot do harm:
//
//   1. Epoch n is taken by creating the file .lease-n, which the file system
//      lets one process do. It holds the holder's host, boot, process and a
//      count that a thread raises while the holder is alive.
//   2. The new holder deletes what older epochs were about to publish, then
//      older leases, and then reads the folder. It appends only to files that
//      it has published itself, so late writes of an older holder go to files
//      that have no name any more.
//   3. Publishing is a rename from a name with the epoch in it. If the epoch
//      is over, its new holder has deleted that name, and the rename fails.
//   4. A holder looks at the lease after every write and before it counts the
//      write as done: a write that was in time is seen by the next holder.
//
// A lease is free when it was released, when its holder ran on this boot of
// this host and its process is gone, and otherwise when its count stands still
// for `timeout_s` of this process's own clock. No clocks are compared, so
// neither their differences nor their jumps matter.
//
// Errors: the constructor throws LeaseLost when the holder is alive; all throw
// std::runtime_error when the folder cannot be written.
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
  [[nodiscard]] int PublishOpen(const std::string& name,
                                const std::string& text) const;
  // The same for a file that stays as it is.
  void Publish(const std::string& name, const std::string& text) const;

  [[nodiscard]] std::int64_t epoch() const { return epoch_; }

 private:
  void Acquire();
  void Claim(std::int64_t epoch);
  void RemoveOlder() const;
  void Beat();
  void WriteCount(std::uint64_t count) const;

  std::filesystem::path folder_;
  double timeout_s_;
  std::int64_t epoch_ = 0;
  int fd_ = -1;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread beat_;
};

// True while somebody holds the lease, as far as can be told at once: a holder
// on another host counts as alive while its count was raised in the last
// minute.
[[nodiscard]] bool IsLeased(const std::filesystem::path& folder);

}  // namespace harness

#endif  // HARNESS_LEASE_H_
