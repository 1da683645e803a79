// Ranks that are processes with a GPU each, on one or several hosts.

#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/communicator.h"

namespace trainer::cuda {

// Groups are communicators of NCCL. Their ids, and the end of the trial, are
// exchanged through files whose names begin with `rendezvous`, a path on a file
// system of all hosts that no other trial uses.
//
// NCCL chooses the order of sums, which is the same each time for the same
// placement of ranks.
//
// Errors: the constructor of a group, and calls that wait on the host, throw
// Aborted when the trial has ended on another rank, and abort it with kFailed
// after timeout_s.
class NcclFabric final : public Fabric {
 public:
  NcclFabric(std::string rendezvous, double timeout_s);

  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override;
  void Abort(EndReason reason, const std::string& message) override;
  // Throws Aborted if the trial has ended, here or on another rank.
  void Check() override;
  [[nodiscard]] const std::string& rendezvous() const { return rendezvous_; }

 private:
  [[nodiscard]] std::string EndFile(EndReason reason) const;

  std::string rendezvous_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_;  // for files of other ranks
  std::map<std::string, int> groups_;             // made so far, by name
};

}  // namespace trainer::cuda
