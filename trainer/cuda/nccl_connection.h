// A communicator of NCCL and what it takes to make, use and end one.

#pragma once

#include <functional>
#include <string>

#include <nccl.h>

#include "trainer/cuda/nccl_fabric.h"

namespace trainer::cuda {

// Non-blocking: calls of NCCL return at once, and Done waits until they have
// been enqueued, or until the trial ends.
class NcclConnection {
 public:
  // Every rank of the group calls it. `name` is unique in the trial.
  // Errors: throws Aborted, and std::runtime_error for an error of NCCL.
  NcclConnection(NcclFabric& fabric, const std::string& name, int rank,
                 int size);
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  [[nodiscard]] ncclComm_t get() const { return comm_; }
  void Done(ncclResult_t result, const char* call) const;

 private:
  NcclFabric& fabric_;
  ncclComm_t comm_ = nullptr;
};

// Polls until ready() holds. Errors: see NcclFabric.
void PollUntil(NcclFabric& fabric, const std::string& what,
               const std::function<bool()>& ready);

}  // namespace trainer::cuda
