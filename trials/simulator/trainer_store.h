// The states of a CPU rank of oppa-train, in the buckets of ZeRO.

#ifndef TRIALS_SIMULATOR_TRAINER_STORE_H_
#define TRIALS_SIMULATOR_TRAINER_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/simulator/trainer_units.h"

namespace trials {

// The units of the pipeline stage: buckets hold their parameters.
enum class TrainerUnitKind { kEmbedding, kBlock, kHead };

// The states of a rank, and the buckets that ZeRO gathers and reduces: what
// they allocate and free is in the ledger of the units.
//
// Source: docs/trainer.md, "Memory".
class TrainerStore {
 public:
  struct Bucket {
    TrainerShare share = TrainerShare::kDense;
    std::int64_t elements = 0;
    int replicas = 1;
    std::vector<std::size_t> units;
    TrainerBlock weights;     // ZeRO 3: gathered
    TrainerBlock gradients;   // ZeRO 2 and 3: of one microbatch
    std::size_t pending = 0;  // units whose backward is to come
    bool reducing = false;
  };
  struct Unit {
    TrainerUnitKind kind = TrainerUnitKind::kBlock;
    int chunk = 0;
    std::vector<Bucket*> buckets;
  };

  TrainerStore(const TrainerUnits& units, const ParallelConfig& config)
      : parts_(units), config_(config) {}

  // Puts the parameters of a unit into buckets.
  void AddUnit(TrainerUnitKind kind, int chunk);
  // Parameters, gradients and optimizer states, after the last unit.
  void Allocate();

  // Around the forward or backward of a unit: gathers its parameters, with
  // overlap also those of the unit that is next, and frees what that does not
  // need.
  void Acquire(std::size_t unit, std::optional<std::size_t> next);
  void Release(std::size_t unit, std::optional<std::size_t> next);

  void BeginBackward(std::size_t unit);
  void EndBackward(std::size_t unit);
  // Waits until at most so many buckets are being reduced.
  void FinishReduces(std::size_t in_flight);

  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }

 private:
  void Gather(std::size_t unit);
  void Use(Bucket& bucket, std::size_t unit);
  void AddParameters(const std::vector<TrainerParameter>& parameters,
                     std::size_t unit);

  const TrainerUnits& parts_;
  const ParallelConfig& config_;
  std::vector<Unit> units_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::map<std::pair<int, TrainerShare>, Bucket*> open_;
  Bucket* table_ = nullptr;
  std::vector<TrainerBlock> states_;
  std::deque<Bucket*> reducing_;
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_TRAINER_STORE_H_
