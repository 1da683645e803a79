#include "trainer/count.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "trainer/rank.h"

namespace trainer {
namespace {

class CountingDevice : public Device {
 public:
  explicit CountingDevice(const Device& device) : device_(device) {}
  [[nodiscard]] int width() const override { return device_.width(); }
  [[nodiscard]] int wide_width() const override { return device_.wide_width(); }
  [[nodiscard]] std::int64_t AttentionKept(
      const AttentionShape& shape) const override {
    return device_.AttentionKept(shape);
  }
  [[nodiscard]] std::int64_t AttentionScratch(
      const AttentionShape& shape) const override {
    return device_.AttentionScratch(shape);
  }
  // An address that nobody reads, other than null.
  std::byte* Reserve(std::int64_t /*bytes*/) override {
    return reinterpret_cast<std::byte*>(std::uintptr_t{Arena::kAlignment});
  }
  // Only the choices of a router and the loss are read.
  void ToHost(Tensor from, void* to) override {
    std::fill_n(static_cast<std::byte*>(to), from.bytes(), std::byte{0});
    if (from.data == chosen_.data) {
      for (std::int64_t i = 0; i < from.size; ++i) {
        static_cast<std::int32_t*>(to)[i] =
            static_cast<std::int32_t>(i % experts_);
      }
    }
  }
  void RouteForward(const RouteArgs& args) override {
    chosen_ = args.chosen;
    experts_ = args.experts;
  }

  void Zero(Tensor) override {}
  void Copy(Tensor, Tensor) override {}
  void Convert(Tensor, Tensor) override {}
  void Add(Tensor, Tensor) override {}
  void FromHost(const void*, Tensor) override {}
  void Synchronize() override {}
  void Generate(const Slab&, Tensor) override {}
  void SwapLeading(std::int64_t, std::int64_t, std::int64_t, Tensor,
                   Tensor) override {}
  void Gemm(const GemmShape&, Tensor, Tensor, Tensor, Tensor) override {}
  void NormForward(const NormArgs&) override {}
  void NormBackward(const NormArgs&) override {}
  void AddBias(std::int64_t, std::int64_t, Tensor, Tensor) override {}
  void BiasBackward(std::int64_t, std::int64_t, Tensor, Tensor) override {}
  void ActivationForward(const ActivationArgs&) override {}
  void ActivationBackward(const ActivationArgs&) override {}
  void Rotate(const RotateArgs&) override {}
  void AttentionForward(const AttentionArgs&) override {}
  void AttentionBackward(const AttentionArgs&) override {}
  void EmbeddingForward(const EmbeddingArgs&) override {}
  void EmbeddingBackward(const EmbeddingArgs&) override {}
  void AddPositions(const Positions&, std::int64_t, Tensor, Tensor) override {}
  void PositionsBackward(const Positions&, std::int64_t, Tensor,
                         Tensor) override {}
  void LossMaxima(const LossArgs&) override {}
  void LossSums(const LossArgs&) override {}
  void LossBackward(const LossArgs&) override {}
  void RouteBackward(const RouteArgs&) override {}
  void ScatterRows(const SlotArgs&) override {}
  void CombineRows(const SlotArgs&) override {}
  void CombineWeights(const SlotArgs&, Tensor, Tensor) override {}
  void Adam(const AdamArgs&) override {}

 private:
  const Device& device_;
  Tensor chosen_;  // by the last router
  std::int64_t experts_ = 1;
};

// Waiting decides which reductions are in flight, so operations that have
// events on other fabrics have them here.
class Done : public Event {
 public:
  void Wait() override {}
};

class CountingCommunicator : public Communicator {
 public:
  CountingCommunicator(int rank, int size, bool own_stream)
      : rank_(rank), size_(size), own_stream_(own_stream) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  EventPtr AllReduce(Tensor data, Reduction /*reduction*/) override {
    return Add("all-reduce", data.bytes());
  }
  EventPtr ReduceScatter(Tensor full, Tensor /*part*/) override {
    return Add("reduce-scatter", full.bytes());
  }
  EventPtr AllGather(Tensor /*part*/, Tensor full) override {
    return Add("all-gather", full.bytes());
  }
  EventPtr AllToAll(Tensor from, std::span<const std::int64_t> /*sent*/,
                    Tensor to,
                    std::span<const std::int64_t> /*received*/) override {
    return Add("all-to-all", std::max(from.bytes(), to.bytes()));
  }
  EventPtr Send(Tensor data, int /*to*/) override {
    Add("send", data.bytes());
    return std::make_shared<Done>();
  }
  EventPtr Receive(Tensor data, int /*from*/) override {
    Add("receive", data.bytes());
    return std::make_shared<Done>();
  }
  void SumOnHost(std::span<double> /*values*/) override {}
  // All ranks have the same numbers.
  void ExchangeOnHost(std::span<const std::int64_t> sent,
                      std::span<std::int64_t> received) override {
    Count("exchange on the host", static_cast<std::int64_t>(sent.size_bytes()));
    const std::size_t each = sent.size() / size_;
    for (int from = 0; from < size_; ++from) {
      std::ranges::copy(sent.subspan(rank_ * each, each),
                        received.begin() + from * each);
    }
  }

 private:
  EventPtr Add(const char* operation, std::int64_t bytes) {
    Count(operation, bytes);
    return own_stream_ ? std::make_shared<Done>() : nullptr;
  }

  int rank_, size_;
  bool own_stream_;
};

class CountingFabric : public Fabric {
 public:
  CountingFabric() : Fabric(/*timeout_s=*/0.0) {}
  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& /*name*/, const std::vector<int>& members,
      bool own_stream, Device& /*device*/) override {
    const auto own = std::find(members.begin(), members.end(), rank);
    return std::make_unique<CountingCommunicator>(
        static_cast<int>(own - members.begin()),
        static_cast<int>(members.size()), own_stream);
  }
};

}  // namespace

TrialResult CountMemory(Job job, const Device& device) {
  job.steps = 1;
  job.timeline = false;
  if (job.memory_bytes == 0) {
    job.memory_bytes = std::numeric_limits<std::int64_t>::max() / 2;
  }
  TrialResult result;
  CountingFabric fabric;
  for (int stage = 0; stage < job.config.pp; ++stage) {
    const int first = stage * job.config.cp * job.config.tp;
    CountingDevice counting(device);
    std::unique_ptr<Rank> rank;
    try {
      rank = std::make_unique<Rank>(
          job, first, [&job] { return job.memory_bytes; }, fabric, counting);
      rank->Prepare(0);
      rank->Step();
    } catch (const OutOfMemory& e) {
      result.reason = EndReason::kOutOfMemory;
      result.message = fmt::format("rank {}: {}", first, e.what());
    }
    result.ranks.push_back(Measure(first, rank.get()));
  }
  return result;
}

}  // namespace trainer
