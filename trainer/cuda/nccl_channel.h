// Transfers from one rank to another.

#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "trainer/communicator.h"
#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/nccl_connection.h"
#include "trainer/cuda/streams.h"

namespace trainer::cuda {

// One end of the transfers from a rank to another, with a connection, a stream
// and a thread of its own, so that a transfer waits for nothing but those
// before it: connections that both directions share would wait for each other.
class NcclChannel {
 public:
  // connection: of the two ranks; peer: the other one's rank in it.
  NcclChannel(NcclFabric& fabric, std::string name, NcclConnection& connection,
              int peer, bool sends, CudaDevice& device);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  [[nodiscard]] EventPtr Transfer(Tensor data);

 private:
  struct Task;
  class TransferEvent;
  void Run();

  NcclFabric& fabric_;
  std::string name_;
  NcclConnection& connection_;
  int peer_;
  bool sends_;
  CudaDevice& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trainer::cuda
