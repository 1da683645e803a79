#include "trainer/cuda/nccl_fabric.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
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
        device_(device) {}
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
          connection_->get(), stream);
    });
  }
  EventPtr ReduceScatter(Tensor full, Tensor part) override {
    return Run("reduce-scatter", full.bytes(), [&](cudaStream_t stream) {
      return ncclReduceScatter(
          full.data, part.data, static_cast<std::size_t>(part.size),
          TypeOf(part.width), ncclSum, connection_->get(), stream);
    });
  }
  EventPtr AllGather(Tensor part, Tensor full) override {
    return Run("all-gather", full.bytes(), [&](cudaStream_t stream) {
      return ncclAllGather(part.data, full.data,
                           static_cast<std::size_t>(part.bytes()), ncclInt8,
                           connection_->get(), stream);
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
    const WaitPtr wait = Stage(values.size_bytes());
    Copy(values.data(), staging_, values.size_bytes());
    connection_->Done(
        ncclAllReduce(staging_, staging_, values.size(), ncclFloat64, ncclSum,
                      connection_->get(), stream_.get()),
        "ncclAllReduce");
    Copy(staging_, values.data(), values.size_bytes());
  }
  void ExchangeOnHost(std::span<const std::int64_t> sent,
                      std::span<std::int64_t> received) override {
    Count("exchange on the host", static_cast<std::int64_t>(sent.size_bytes()));
    const WaitPtr wait = Stage(sent.size_bytes() + received.size_bytes());
    Copy(sent.data(), staging_, sent.size_bytes());
    const std::vector<std::int64_t> each(
        size_, static_cast<std::int64_t>(sent.size()) / size_);
    auto* bytes = static_cast<std::byte*>(staging_);
    connection_->Done(ExchangeParts(bytes, each, bytes + sent.size_bytes(),
                                    each, sizeof(std::int64_t), stream_.get()),
                      "ncclSend, ncclRecv");
    Copy(bytes + sent.size_bytes(), received.data(), received.size_bytes());
  }

 private:
  template <typename Call>
  EventPtr Run(const char* operation, std::int64_t bytes, const Call& call) {
    Count(operation, bytes);
    const WaitPtr wait = Begin(operation);
    if (!own_stream_) {
      connection_->Done(call(device_.stream()), operation);
      return nullptr;
    }
    Mark(device_.stream()).Precede(stream_.get());
    connection_->Done(call(stream_.get()), operation);
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
        ncclSend(from, sent, ncclInt8, r, connection_->get(), stream);
      }
      if (received > 0) {
        ncclRecv(to, received, ncclInt8, r, connection_->get(), stream);
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

  // The group connects at its first collective: one that only has channels
  // takes no memory for rings.
  [[nodiscard]] WaitPtr Begin(const char* operation) {
    fabric_.Check();
    if (!connection_.has_value()) {
      connection_.emplace(fabric_, name_, rank_, size_);
    }
    return fabric_.BeginWait(fmt::format("{} of group {}", operation, name_));
  }
  [[nodiscard]] WaitPtr Stage(std::size_t bytes) {
    if (bytes > kStagingBytes) {
      throw std::invalid_argument(fmt::format(
          "{} bytes between hosts: at most {}", bytes, kStagingBytes));
    }
    if (staging_ == nullptr) {
      cuda::Check(cudaMalloc(&staging_, kStagingBytes), "cudaMalloc");
    }
    return Begin("an exchange between hosts");
  }
  // Returns when it is done.
  void Copy(const void* from, void* to, std::size_t bytes) {
    cuda::Check(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()),
        "cudaMemcpyAsync");
    cuda::Check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

  NcclFabric& fabric_;
  std::string name_;
  int rank_;
  int size_;
  bool own_stream_;
  CudaDevice& device_;
  Stream stream_;
  std::optional<NcclConnection> connection_;
  void* staging_ = nullptr;
  std::map<std::pair<int, int>, std::unique_ptr<NcclChannel>> channels_;
};

// Strongest first: running out of memory explains the failures that follow.
constexpr std::array<EndReason, 3> kReasons = {
    EndReason::kOutOfMemory, EndReason::kFailed, EndReason::kStopped};

}  // namespace

NcclFabric::NcclFabric(std::string rendezvous, double timeout_s)
    : Fabric(timeout_s),
      rendezvous_(std::move(rendezvous)),
      watchdog_([this](const std::stop_token& stop) { Watch(stop); }) {}

std::unique_ptr<Communicator> NcclFabric::Group(int rank,
                                                const std::string& name,
                                                const std::vector<int>& members,
                                                bool own_stream,
                                                Device& device) {
  const std::string text = fmt::format("{} {}", name, fmt::join(members, ","));
  const auto own = std::find(members.begin(), members.end(), rank);
  return std::make_unique<NcclCommunicator>(
      *this, fmt::format("{}-{:016x}", name, common::Hash(text)),
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
