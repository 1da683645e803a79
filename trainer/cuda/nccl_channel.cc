#include "trainer/cuda/nccl_channel.h"

#include <exception>
#include <utility>

namespace trainer::cuda {

struct NcclChannel::Task {
  Tensor data;
  MarkPtr ready;
  MarkPtr done;  // null: not yet enqueued
};

class NcclChannel::TransferEvent final : public Event {
 public:
  TransferEvent(NcclChannel& channel, std::shared_ptr<Task> task)
      : channel_(channel), task_(std::move(task)) {}
  void Wait() override {
    std::unique_lock lock(channel_.mutex_);
    channel_.fabric_.WaitFor(lock, channel_.changed_, channel_.name_,
                             [this] { return task_->done != nullptr; });
    task_->done->Precede(channel_.device_.stream());
  }

 private:
  NcclChannel& channel_;
  std::shared_ptr<Task> task_;
};

NcclChannel::NcclChannel(NcclFabric& fabric, std::string name,
                         NcclConnection& connection, int peer, bool sends,
                         CudaDevice& device)
    : fabric_(fabric),
      name_(std::move(name)),
      connection_(connection),
      peer_(peer),
      sends_(sends),
      device_(device) {
  thread_ = std::thread([this] {
    try {
      Run();
    } catch (const Aborted&) {
      // Other calls of this rank throw it, too.
    } catch (const std::exception& e) {
      fabric_.Abort(EndReason::kFailed, e.what());
    }
  });
}

NcclChannel::~NcclChannel() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

EventPtr NcclChannel::Transfer(Tensor data) {
  auto task = std::make_shared<Task>();
  task->data = data;
  task->ready = std::make_shared<const Mark>(device_.stream());
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
  }
  changed_.notify_all();
  return std::make_shared<TransferEvent>(*this, std::move(task));
}

void NcclChannel::Run() {
  device_.MakeCurrent();
  const Stream stream;
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) {
      return;
    }
    const std::shared_ptr<Task> task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    task->ready->Precede(stream.get());
    const auto bytes = static_cast<std::size_t>(task->data.bytes());
    connection_.Done(sends_ ? ncclSend(task->data.data, bytes, ncclInt8, peer_,
                                       connection_.get(), stream.get())
                            : ncclRecv(task->data.data, bytes, ncclInt8, peer_,
                                       connection_.get(), stream.get()),
                     sends_ ? "ncclSend" : "ncclRecv");
    auto done = std::make_shared<const Mark>(stream.get());
    lock.lock();
    task->done = std::move(done);
    changed_.notify_all();
  }
}

}  // namespace trainer::cuda
