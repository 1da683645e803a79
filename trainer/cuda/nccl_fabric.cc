#include "trainer/cuda/nccl_fabric.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "common/hash.h"
#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/nccl_channel.h"
#include "trainer/cuda/nccl_connection.h"
#include "trainer/cuda/streams.h"

namespace trainer::cuda {
namespace {

constexpr auto kLookAgain = std::chrono::milliseconds(100);
constexpr std::size_t kStagingBytes = 1 << 16;

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

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclFabric& fabric, std::string name, int rank, int size,
                   bool own_stream, CudaDevice& device)
      : fabric_(fabric),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        own_stream_(own_stream),
        device_(device),
        connection_(fabric, name_, rank, size) {
    cuda::Check(cudaMalloc(&staging_, kStagingBytes), "cudaMalloc");
  }
  ~NcclCommunicator() override { cudaFree(staging_); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  EventPtr AllReduce(Tensor data, Reduction reduction) override {
    return Run("all-reduce", data.bytes(), [&](cudaStream_t stream) {
      return ncclAllReduce(
          data.data, data.data, static_cast<std::size_t>(data.size),
          TypeOf(data.width), reduction == Reduction::kMax ? ncclMax : ncclSum,
          connection_.get(), stream);
    });
  }
  EventPtr ReduceScatter(Tensor full, Tensor part) override {
    return Run("reduce-scatter", full.bytes(), [&](cudaStream_t stream) {
      return ncclReduceScatter(
          full.data, part.data, static_cast<std::size_t>(part.size),
          TypeOf(part.width), ncclSum, connection_.get(), stream);
    });
  }
  EventPtr AllGather(Tensor part, Tensor full) override {
    return Run("all-gather", full.bytes(), [&](cudaStream_t stream) {
      return ncclAllGather(part.data, full.data,
                           static_cast<std::size_t>(part.bytes()), ncclInt8,
                           connection_.get(), stream);
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
    Stage(values.size_bytes());
    Upload(values.data(), values.size_bytes(), 0);
    connection_.Done(
        ncclAllReduce(staging_, staging_, values.size(), ncclFloat64, ncclSum,
                      connection_.get(), stream_.get()),
        "ncclAllReduce");
    Download(values.data(), values.size_bytes(), 0);
  }
  void ExchangeOnHost(std::span<const std::int64_t> sent,
                      std::span<std::int64_t> received) override {
    Stage(sent.size_bytes() + received.size_bytes());
    Upload(sent.data(), sent.size_bytes(), 0);
    const std::vector<std::int64_t> ones(size_, 1);
    auto* bytes = static_cast<std::byte*>(staging_);
    connection_.Done(ExchangeParts(bytes, ones, bytes + sent.size_bytes(), ones,
                                   sizeof(std::int64_t), stream_.get()),
                     "ncclSend, ncclRecv");
    Download(received.data(), received.size_bytes(), sent.size_bytes());
  }

 private:
  template <typename Call>
  EventPtr Run(const char* operation, std::int64_t bytes, const Call& call) {
    fabric_.Check();
    Count(operation, bytes);
    if (!own_stream_) {
      connection_.Done(call(device_.stream()), operation);
      return nullptr;
    }
    Mark(device_.stream()).Precede(stream_.get());
    connection_.Done(call(stream_.get()), operation);
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
        ncclSend(from, sent, ncclInt8, r, connection_.get(), stream);
      }
      if (received > 0) {
        ncclRecv(to, received, ncclInt8, r, connection_.get(), stream);
      }
      from += sent;
      to += received;
    }
    return ncclGroupEnd();
  }

  NcclChannel& Channel(int from, int to) {
    std::unique_ptr<NcclChannel>& channel = channels_[{from, to}];
    if (channel == nullptr) {
      channel = std::make_unique<NcclChannel>(
          fabric_, fmt::format("{}.{}-to-{}", name_, from, to), from == rank_,
          device_);
    }
    return *channel;
  }

  void Stage(std::size_t bytes) const {
    fabric_.Check();
    if (bytes > kStagingBytes) {
      throw std::invalid_argument(fmt::format(
          "{} bytes between hosts: at most {}", bytes, kStagingBytes));
    }
  }
  void Upload(const void* from, std::size_t bytes, std::size_t at) {
    cuda::Check(cudaMemcpyAsync(static_cast<std::byte*>(staging_) + at, from,
                                bytes, cudaMemcpyDefault, stream_.get()),
                "cudaMemcpyAsync");
  }
  void Download(void* to, std::size_t bytes, std::size_t at) {
    cuda::Check(cudaMemcpyAsync(to, static_cast<std::byte*>(staging_) + at,
                                bytes, cudaMemcpyDefault, stream_.get()),
                "cudaMemcpyAsync");
    PollUntil(fabric_, "the ranks of group " + name_, [this] {
      const cudaError_t error = cudaStreamQuery(stream_.get());
      if (error != cudaErrorNotReady) {
        cuda::Check(error, "cudaStreamQuery");
      }
      return error == cudaSuccess;
    });
  }

  NcclFabric& fabric_;
  std::string name_;
  int rank_;
  int size_;
  bool own_stream_;
  CudaDevice& device_;
  Stream stream_;
  NcclConnection connection_;
  void* staging_ = nullptr;
  std::map<std::pair<int, int>, std::unique_ptr<NcclChannel>> channels_;
};

// Strongest first: running out of memory explains the failures that follow.
constexpr std::array<EndReason, 3> kReasons = {
    EndReason::kOutOfMemory, EndReason::kFailed, EndReason::kStopped};

}  // namespace

NcclFabric::NcclFabric(std::string rendezvous, double timeout_s)
    : Fabric(timeout_s), rendezvous_(std::move(rendezvous)) {}

std::unique_ptr<Communicator> NcclFabric::Group(int rank,
                                                const std::string& name,
                                                const std::vector<int>& members,
                                                bool own_stream,
                                                Device& device) {
  const std::string text = fmt::format("{} {}", name, fmt::join(members, ","));
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = groups_[text]++;
  }
  const auto own = std::find(members.begin(), members.end(), rank);
  return std::make_unique<NcclCommunicator>(
      *this, fmt::format("{}-{:016x}", name, common::DeriveSeed(text, number)),
      static_cast<int>(own - members.begin()), static_cast<int>(members.size()),
      own_stream, dynamic_cast<CudaDevice&>(device));
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

void NcclFabric::Check() {
  const auto now = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (end_reason() == EndReason::kNone && now - looked_ > kLookAgain) {
    looked_ = now;
    for (const EndReason reason : kReasons) {
      std::ifstream in(EndFile(reason));
      if (in) {
        (void)End(reason, std::string(std::istreambuf_iterator<char>(in), {}));
        break;
      }
    }
  }
  lock.unlock();
  Fabric::Check();
}

}  // namespace trainer::cuda
