// Ranks that are threads of this process.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
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
  explicit ThreadFabric(double timeout_s);
  ~ThreadFabric() override;

  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override;

  struct Meeting;  // of the ranks of a group

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace trainer
