// The interface of what ranks exchange: groups of ranks and their collectives.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "trainer/device.h"
#include "trainer/tensor.h"

namespace trainer {

// The end of an operation that has a stream of its own. Wait makes the compute
// stream of the rank wait for it (a host thread on CPU, cudaStreamWaitEvent on
// CUDA). Null: the operation is ordered with the compute stream already.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Wait() = 0;
};
using EventPtr = std::shared_ptr<Event>;

inline void Wait(const EventPtr& event) {
  if (event != nullptr) {
    event->Wait();
  }
}

enum class Reduction { kSum, kMax };

// What a group has sent, by operation: calls, and bytes of the larger of input
// and output of each call.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};
using TrafficByOperation = std::map<std::string, Traffic>;

// The trial has ended on another rank (out of memory, an error, a request to
// stop), so this rank cannot go on either.
class Aborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One rank's end of a group of ranks. All ranks of a group make the same calls
// in the same order. An operation starts after everything that the compute
// stream was given before the call; buffers stay untouched until its event.
// Sums are formed in the order of the ranks. Ranks here count within the group.
//
// Send and Receive match in order per pair of ranks; neither waits for other
// operations of the group, and a send does not wait for the receive.
// Errors: throws Aborted, possibly in a later call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  virtual EventPtr AllReduce(Tensor data, Reduction reduction) = 0;
  // part = sum over ranks of their full[rank * part.size ...]. part may be that
  // slice of full itself.
  virtual EventPtr ReduceScatter(Tensor full, Tensor part) = 0;
  // full[rank * part.size ...] = part of that rank. part may be that slice.
  virtual EventPtr AllGather(Tensor part, Tensor full) = 0;
  // Counts are elements for, and from, each rank in order.
  virtual EventPtr AllToAll(Tensor from,
                            std::span<const std::int64_t> send_counts,
                            Tensor to,
                            std::span<const std::int64_t> receive_counts) = 0;
  virtual EventPtr Send(Tensor data, int to) = 0;
  virtual EventPtr Receive(Tensor data, int from) = 0;

  // Of host memory; they return when done. values = sum over ranks; received
  // has as many values from each rank, in order, as are sent to each.
  virtual void SumOnHost(std::span<double> values) = 0;
  virtual void ExchangeOnHost(std::span<const std::int64_t> sent,
                              std::span<std::int64_t> received) = 0;

  [[nodiscard]] const TrafficByOperation& traffic() const { return traffic_; }

 protected:
  void Count(const char* operation, std::int64_t bytes) {
    Traffic& traffic = traffic_[operation];
    ++traffic.calls;
    traffic.bytes += bytes;
  }

 private:
  TrafficByOperation traffic_;
};

// Why a trial ended before its last step.
enum class EndReason { kNone, kStopped, kFailed, kOutOfMemory };
constexpr std::array<std::string_view, 4> NamesOf(EndReason /*reason*/) {
  return {"completed", "stopped", "failed", "out_of_memory"};
}

using WaitPtr = std::shared_ptr<const void>;

// What connects all ranks of a trial. One object per process; threads of the
// process that are ranks share it.
class Fabric {
 public:
  // `timeout_s`: of an operation that a rank does not enter.
  explicit Fabric(double timeout_s) : timeout_s_(timeout_s) {}
  virtual ~Fabric() = default;
  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  // The end of `rank` in the group of `members` (ascending world ranks, `rank`
  // among them). Every rank calls it, in the same order; of the first group,
  // all ranks are members.
  // own_stream: operations run next to the compute stream and return events;
  // otherwise they run on the compute stream and return null (Send and Receive
  // always return events). device is that of the rank.
  [[nodiscard]] virtual std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) = 0;
  // The same for members that only send and receive, each with the next one and
  // the one before, in one direction between two of them.
  [[nodiscard]] virtual std::unique_ptr<Communicator> Pipeline(
      int rank, const std::string& name, const std::vector<int>& members,
      Device& device) {
    return Group(rank, name, members, false, device);
  }
  // Ends the trial on every rank: pending and later operations throw Aborted.
  // The first reason counts, except that kOutOfMemory wins over kFailed.
  virtual void Abort(EndReason reason, const std::string& message) {
    (void)End(reason, message);
  }
  [[nodiscard]] EndReason end_reason() const { return reason_.load(); }
  [[nodiscard]] std::string end_message() const {
    const std::lock_guard lock(mutex_);
    return message_;
  }
  // The host waits for `what` until the result is destroyed. Where the wait
  // itself cannot end, because a library or a driver does not return, a
  // watchdog ends the trial after timeout_s.
  [[nodiscard]] virtual WaitPtr BeginWait(const std::string& /*what*/) {
    return nullptr;
  }
  // Throws Aborted if the trial has ended.
  void Check() {
    if (end_reason() != EndReason::kNone) {
      throw Aborted(end_message());
    }
  }
  // Waits until ready() holds; `lock` protects what it reads.
  // Errors: throws Aborted; after timeout_s, aborts the trial with kFailed.
  template <typename Ready>
  void WaitFor(std::unique_lock<std::mutex>& lock,
               std::condition_variable& changed, const std::string& what,
               Ready ready) {
    constexpr auto kPoll = std::chrono::milliseconds(20);
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration<double>(timeout_s_);
    while (!ready()) {
      Check();
      if (std::chrono::steady_clock::now() > deadline) {
        Abort(EndReason::kFailed,
              fmt::format("not all ranks entered {} within {} s", what,
                          timeout_s_));
      }
      changed.wait_for(lock, kPoll);
    }
  }

 protected:
  // Ends the trial in this process. False: an earlier reason counts.
  bool End(EndReason reason, const std::string& message) {
    const std::lock_guard lock(mutex_);
    const bool counts =
        reason_ == EndReason::kNone ||
        (reason_ == EndReason::kFailed && reason == EndReason::kOutOfMemory);
    if (counts) {
      message_ = message;
      reason_ = reason;
    }
    return counts;
  }

 private:
  double timeout_s_;
  mutable std::mutex mutex_;
  std::atomic<EndReason> reason_ = EndReason::kNone;
  std::string message_;
};

}  // namespace trainer
