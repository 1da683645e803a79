#include "trainer/cuda/nccl_fabric.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/nccl_channel.h"
#include "trainer/cuda/nccl_connection.h"
#include "trainer/cuda/streams.h"

namespace trainer::cuda {
namespace {

constexpr auto kLookAgain = std::chrono::milliseconds(100);
constexpr std::int64_t kStagingBytes = 1 << 16;

ncclDataType_t TypeOf(int width) {
  return width == 2 ? ncclBfloat16 : width == 4 ? ncclFloat32 : ncclFloat64;
}

class MarkEvent final : public Event {
 public:
  MarkEvent(cudaStream_t from, cudaStream_t to) : mark_(from), to_(to) {}
  void Wait() override { mark_.Precede(to_); }

 private:
  Mark mark_;
  cudaStream_t to_;
};

using ConnectionPtr = std::shared_ptr<NcclConnection>;

class NcclCommunicator final : public Communicator {
 public:
  // connections: one of all ranks for collectives, or, for a pipeline, in place
  // i that of the ranks i and (i + 1) % size.
  NcclCommunicator(NcclFabric& fabric, std::string name, int rank, int size,
                   bool own_stream, std::vector<ConnectionPtr> connections,
                   CudaDevice& device)
      : fabric_(fabric),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        own_stream_(own_stream),
        connections_(std::move(connections)),
        device_(device) {}
  ~NcclCommunicator() override {
    channels_.clear();
    if (fabric_.end_reason() == EndReason::kNone) {  // else it may never return
      cudaFree(staging_);
    }
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  EventPtr AllReduce(Tensor data, Reduction reduction) override {
    return Run("all-reduce", data.bytes(), [&](cudaStream_t stream) {
      return ncclAllReduce(
          data.data, data.data, static_cast<std::size_t>(data.size),
          TypeOf(data.width), reduction == Reduction::kMax ? ncclMax : ncclSum,
          comm(), stream);
    });
  }
  EventPtr ReduceScatter(Tensor full, Tensor part) override {
    return Run("reduce-scatter", full.bytes(), [&](cudaStream_t stream) {
      return ncclReduceScatter(full.data, part.data,
                               static_cast<std::size_t>(part.size),
                               TypeOf(part.width), ncclSum, comm(), stream);
    });
  }
  EventPtr AllGather(Tensor part, Tensor full) override {
    return Run("all-gather", full.bytes(), [&](cudaStream_t stream) {
      return ncclAllGather(part.data, full.data,
                           static_cast<std::size_t>(part.bytes()), ncclInt8,
                           comm(), stream);
    });
  }
  EventPtr AllToAll(Tensor from, std::span<const std::int64_t> send_counts,
                    Tensor to,
                    std::span<const std::int64_t> receive_counts) override {
    return Run("all-to-all", std::max(from.bytes(), to.bytes()),
               [&](cudaStream_t stream) {
                 return ExchangeParts(from.data, send_counts, to.data,
                                      receive_counts, from.width, stream);
               });
  }
  EventPtr Send(Tensor data, int to) override {
    Count("send", data.bytes());
    return Channel(rank_, to).Transfer(data);
  }
  EventPtr Receive(Tensor data, int from) override {
    Count("receive", data.bytes());
    return Channel(from, rank_).Transfer(data);
  }

  void SumOnHost(std::span<double> values) override {
    const auto bytes = static_cast<std::int64_t>(values.size_bytes());
    const Tensor staged = Stage(bytes);
    device_.FromHost(values.data(), staged);
    Collective("sum of host memory", [&] {
      return ncclAllReduce(staged.data, staged.data, values.size(), ncclFloat64,
                           ncclSum, comm(), device_.stream());
    });
    device_.ToHost(staged, values.data());
  }
  void ExchangeOnHost(std::span<const std::int64_t> sent,
                      std::span<std::int64_t> received) override {
    const auto bytes = static_cast<std::int64_t>(sent.size_bytes());
    Count("exchange on the host", bytes);
    const Tensor both = Stage(2 * bytes);
    device_.FromHost(sent.data(), both.Slice(0, bytes));
    const std::vector<std::int64_t> each(
        size_, static_cast<std::int64_t>(sent.size()) / size_);
    Collective("exchange of host memory", [&] {
      return ExchangeParts(both.data, each, both.data + bytes, each,
                           sizeof(std::int64_t), device_.stream());
    });
    device_.ToHost(both.From(bytes), received.data());
  }

 private:
  [[nodiscard]] ncclComm_t comm() const { return connections_[0]->get(); }

  template <typename Call>
  void Collective(const char* operation, const Call& call) {
    fabric_.Check();
    const WaitPtr wait =
        fabric_.BeginWait(fmt::format("{} of group {}", operation, name_));
    connections_[0]->Done(call(), operation);
  }

  template <typename Call>
  EventPtr Run(const char* operation, std::int64_t bytes, const Call& call) {
    Count(operation, bytes);
    if (!own_stream_) {
      Collective(operation, [&] { return call(device_.stream()); });
      return nullptr;
    }
    Mark(device_.stream()).Precede(stream_.get());
    Collective(operation, [&] { return call(stream_.get()); });
    return std::make_shared<MarkEvent>(stream_.get(), device_.stream());
  }

  // One group: the sends and receives of all ranks run together.
  ncclResult_t ExchangeParts(const std::byte* from,
                             std::span<const std::int64_t> send_counts,
                             std::byte* to,
                             std::span<const std::int64_t> receive_counts,
                             int width, cudaStream_t stream) {
    ncclGroupStart();
    for (int r = 0; r < size_; ++r) {
      const auto sent = static_cast<std::size_t>(send_counts[r] * width);
      const auto received = static_cast<std::size_t>(receive_counts[r] * width);
      if (sent > 0) {
        ncclSend(from, sent, ncclInt8, r, comm(), stream);
      }
      if (received > 0) {
        ncclRecv(to, received, ncclInt8, r, comm(), stream);
      }
      from += sent;
      to += received;
    }
    return ncclGroupEnd();
  }

  NcclChannel& Channel(int from, int to) {
    std::unique_ptr<NcclChannel>& channel = channels_[{from, to}];
    if (channel == nullptr) {
      const int peer = from == rank_ ? to : from;
      channel = std::make_unique<NcclChannel>(
          fabric_, fmt::format("{}.{}-to-{}", name_, from, to),
          *connections_[to == (from + 1) % size_ ? from : to],
          peer > rank_ ? 1 : 0, from == rank_, device_);
    }
    return *channel;
  }

  // Memory of the device for what comes from that of the host.
  [[nodiscard]] Tensor Stage(std::int64_t bytes) {
    if (bytes > kStagingBytes) {
      throw std::invalid_argument(fmt::format(
          "{} bytes between hosts: at most {}", bytes, kStagingBytes));
    }
    if (staging_ == nullptr) {
      cuda::Check(cudaMalloc(&staging_, kStagingBytes), "cudaMalloc");
    }
    return {static_cast<std::byte*>(staging_), bytes, 1};
  }

  NcclFabric& fabric_;
  std::string name_;
  int rank_;
  int size_;
  bool own_stream_;
  std::vector<ConnectionPtr> connections_;
  CudaDevice& device_;
  Stream stream_;
  void* staging_ = nullptr;
  std::map<std::pair<int, int>, std::unique_ptr<NcclChannel>> channels_;
};

int PlaceOf(int rank, const std::vector<int>& members) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) -
                          members.begin());
}

// Strongest first: running out of memory explains the failures that follow.
constexpr std::array<EndReason, 3> kReasons = {
    EndReason::kOutOfMemory, EndReason::kFailed, EndReason::kStopped};

}  // namespace

NcclFabric::NcclFabric(std::string rendezvous, double timeout_s)
    : Fabric(timeout_s),
      rendezvous_(std::move(rendezvous)),
      watchdog_([this](const std::stop_token& stop) { Watch(stop); }) {}

NcclFabric::~NcclFabric() = default;

std::unique_ptr<Communicator> NcclFabric::Group(int rank,
                                                const std::string& name,
                                                const std::vector<int>& members,
                                                bool own_stream,
                                                Device& device) {
  const int size = static_cast<int>(members.size());
  ConnectionPtr connection;
  if (world_ == nullptr) {
    connection = world_ = std::make_shared<NcclConnection>(*this, rank, size);
  } else {
    connection =
        std::make_shared<NcclConnection>(*this, *world_, members.front());
  }
  return std::make_unique<NcclCommunicator>(
      *this, name, PlaceOf(rank, members), size, own_stream,
      std::vector{connection}, dynamic_cast<CudaDevice&>(device));
}

std::unique_ptr<Communicator> NcclFabric::Pipeline(
    int rank, const std::string& name, const std::vector<int>& members,
    Device& device) {
  const int own = PlaceOf(rank, members);
  const int size = static_cast<int>(members.size());
  std::vector<ConnectionPtr> connections;
  for (int i = 0; i < size; ++i) {
    const bool mine = own == i || own == (i + 1) % size;
    connections.push_back(std::make_shared<NcclConnection>(
        *this, *world_, mine ? members.front() : NCCL_SPLIT_NOCOLOR));
  }
  return std::make_unique<NcclCommunicator>(*this, name, own, size, false,
                                            std::move(connections),
                                            dynamic_cast<CudaDevice&>(device));
}

std::string NcclFabric::EndFile(EndReason reason) const {
  return fmt::format("{}.end-{}", rendezvous_, static_cast<int>(reason));
}

void NcclFabric::Abort(EndReason reason, const std::string& message) {
  if (!End(reason, message)) {
    return;
  }
  const std::string part = fmt::format("{}.{}", EndFile(reason), ::getpid());
  std::ofstream(part) << message;
  std::error_code error;
  std::filesystem::rename(part, EndFile(reason), error);
}

WaitPtr NcclFabric::BeginWait(const std::string& what) {
  const std::lock_guard lock(mutex_);
  const auto place =
      waits_.insert(waits_.end(), {what, std::chrono::steady_clock::now()});
  return {&*place, [this, place](const void* /*wait*/) {
            const std::lock_guard end(mutex_);
            waits_.erase(place);
          }};
}

void NcclFabric::Watch(const std::stop_token& stop) {
  while (!stop.stop_requested() && end_reason() == EndReason::kNone) {
    for (const EndReason reason : kReasons) {
      std::ifstream in(EndFile(reason));
      if (in) {
        (void)End(reason, std::string(std::istreambuf_iterator<char>(in), {}));
        return;
      }
    }
    std::unique_lock lock(mutex_);
    const auto since = std::chrono::steady_clock::now() -
                       std::chrono::duration<double>(timeout_s());
    if (!waits_.empty() && waits_.front().since < since) {  // the oldest
      Abort(EndReason::kFailed, fmt::format("waited for {} for {:g} s",
                                            waits_.front().what, timeout_s()));
    }
    lock.unlock();
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace trainer::cuda
