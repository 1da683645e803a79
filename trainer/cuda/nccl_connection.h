// A communicator of NCCL.

#pragma once

#include <nccl.h>

#include "trainer/cuda/nccl_fabric.h"

namespace trainer::cuda {

// Blocking: a call returns when it has been enqueued, and may wait for other
// ranks before. The fabric ends the process if it waits too long. Calls on a
// non-blocking communicator start a thread each and have to be polled.
class NcclConnection {
 public:
  // Of all ranks of the trial, through one file that rank 0 writes.
  // Errors: as Done.
  NcclConnection(NcclFabric& fabric, int rank, int size);
  // Of the ranks of `world` that give the same `color`; none with
  // NCCL_SPLIT_NOCOLOR. Every rank of `world` calls it, in the same order.
  NcclConnection(NcclFabric& fabric, const NcclConnection& world, int color);
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  [[nodiscard]] ncclComm_t get() const { return comm_; }
  // Errors: throws OutOfMemory if NCCL did not get the memory that it needs,
  // and std::runtime_error for any other error.
  void Done(ncclResult_t result, const char* call) const;

 private:
  NcclFabric& fabric_;
  int rank_;  // in the trial
  ncclComm_t comm_ = nullptr;
};

}  // namespace trainer::cuda
