// Ranks that are threads of this process.

#ifndef TRAINER_COMMUNICATOR_THREADS_H_
#define TRAINER_COMMUNICATOR_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/communicator.h"

namespace trainer {

// Threads share memory, so a collective reads the tensors of the other ranks:
// every rank forms its part of the result, in the order of the ranks, so that
// results are bitwise reproducible. Groups with a stream of their own have a
// thread per rank, the twin of a CUDA stream.
//
// Errors: a rank that waits longer than timeout_s in an operation aborts the
// trial with kFailed and a message that names the group and the operation.
class ThreadFabric : public Fabric {
 public:
  ThreadFabric(int world_size, double timeout_s);
  ~ThreadFabric() override;

  [[nodiscard]] int world_size() const override { return world_size_; }
  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override;
  void Abort(EndReason reason, const std::string& message) override;
  [[nodiscard]] EndReason end_reason() const override { return reason_.load(); }
  [[nodiscard]] std::string end_message() const override;

  // Throws Aborted if the trial has ended.
  void Check() const;
  // Waits until ready() holds; `lock` protects what it reads.
  // Errors: throws Aborted, after timeout_s also by itself.
  template <typename Ready>
  void WaitFor(std::unique_lock<std::mutex>& lock,
               std::condition_variable& changed, const std::string& what,
               Ready ready);

  struct Meeting;  // of the ranks of a group

 private:
  int world_size_;
  double timeout_s_;
  mutable std::mutex mutex_;
  std::atomic<EndReason> reason_ = EndReason::kNone;
  std::string message_;
  std::map<std::string, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace trainer

#endif  // TRAINER_COMMUNICATOR_THREADS_H_
