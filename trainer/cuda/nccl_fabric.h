// Ranks that are processes with a GPU each, on one or several hosts.

#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/communicator.h"

namespace trainer::cuda {

class NcclConnection;

// Groups are communicators of NCCL, split from the one of all ranks. Its id,
// and the end of the trial, are exchanged through files whose names begin with
// `rendezvous`, a path on a file system of all hosts that no other trial uses.
//
// NCCL chooses the order of sums, which is the same each time for the same
// placement of ranks.
//
// A thread looks for the end of the trial on other ranks, and ends it with
// kFailed where the host has waited for timeout_s. A rank may be inside of NCCL
// or the driver then, so the process ends without it (RunTrial).
//
// Errors: calls throw Aborted when the trial has ended.
class NcclFabric final : public Fabric {
 public:
  NcclFabric(std::string rendezvous, double timeout_s);
  ~NcclFabric() override;

  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override;
  [[nodiscard]] std::unique_ptr<Communicator> Pipeline(
      int rank, const std::string& name, const std::vector<int>& members,
      Device& device) override;
  void Abort(EndReason reason, const std::string& message) override;
  [[nodiscard]] WaitPtr BeginWait(const std::string& what) override;
  [[nodiscard]] const std::string& rendezvous() const { return rendezvous_; }

 private:
  struct Waiting {
    std::string what;
    std::chrono::steady_clock::time_point since;
  };
  [[nodiscard]] std::string EndFile(EndReason reason) const;
  void Watch(const std::stop_token& stop);

  std::string rendezvous_;
  std::shared_ptr<NcclConnection> world_;  // of all ranks: the first group's
  std::mutex mutex_;
  std::list<Waiting> waits_;
  std::jthread watchdog_;  // last: it uses the others
};

}  // namespace trainer::cuda
