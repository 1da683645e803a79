// The exclusive right to write the records of a run, with takeover.

#ifndef HARNESS_RECORDS_LEASE_H_
#define HARNESS_RECORDS_LEASE_H_

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

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
  [[nodiscard]] int PublishOpen(const std::string& name,
                                const std::string& text) const;
  // The same for a file that does not change afterwards.
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
  int fd_ = -1;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread beat_;
};

// True if the lease is held. A holder on another host counts as alive if its
// count was raised in the last minute.
[[nodiscard]] bool IsLeased(const std::filesystem::path& folder);

}  // namespace harness

#endif  // HARNESS_RECORDS_LEASE_H_
