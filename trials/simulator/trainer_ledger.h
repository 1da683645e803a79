// Bytes in use on a rank of oppa-train, by region of its arena.

#ifndef TRIALS_SIMULATOR_TRAINER_LEDGER_H_
#define TRIALS_SIMULATOR_TRAINER_LEDGER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace trials {

// The regions of docs/trainer.md, "Memory".
enum class TrainerRegion {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kWorkspace
};
inline constexpr std::array<std::string_view, 6> kTrainerRegions = {
    "parameters",  "gradients",     "optimizer",
    "activations", "communication", "workspace"};
using TrainerBytes = std::array<std::int64_t, kTrainerRegions.size()>;

// What is in use now, and the peaks so far.
struct TrainerLedger {
  TrainerBytes used{};
  TrainerBytes peak{};     // of each region by itself
  TrainerBytes at_peak{};  // of each region at the peak of all together
  std::int64_t total = 0;
  std::int64_t total_peak = 0;

  void Add(TrainerRegion region, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>(region);
    used[i] += bytes;
    total += bytes;
    peak[i] = std::max(peak[i], used[i]);
    if (total > total_peak) {
      total_peak = total;
      at_peak = used;
    }
  }
};

// Bytes that are in use as long as the object exists, rounded up as the arena
// rounds them.
class TrainerBlock {
 public:
  static constexpr std::int64_t kAlignment = 256;

  TrainerBlock() = default;
  TrainerBlock(TrainerLedger& ledger, TrainerRegion region, std::int64_t bytes)
      : ledger_(&ledger),
        region_(region),
        bytes_((bytes + kAlignment - 1) / kAlignment * kAlignment) {
    ledger.Add(region, bytes_);
  }
  TrainerBlock(TrainerBlock&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)),
        region_(other.region_),
        bytes_(other.bytes_) {}
  TrainerBlock& operator=(TrainerBlock&& other) noexcept {
    if (this != &other) {
      Free();
      ledger_ = std::exchange(other.ledger_, nullptr);
      region_ = other.region_;
      bytes_ = other.bytes_;
    }
    return *this;
  }
  ~TrainerBlock() { Free(); }

  void Free() noexcept {
    if (ledger_ != nullptr) {
      std::exchange(ledger_, nullptr)->Add(region_, -bytes_);
    }
  }
  [[nodiscard]] bool empty() const { return ledger_ == nullptr; }

 private:
  TrainerLedger* ledger_ = nullptr;
  TrainerRegion region_ = TrainerRegion::kWorkspace;
  std::int64_t bytes_ = 0;
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_TRAINER_LEDGER_H_
