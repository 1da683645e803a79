// The parameters of a rank: buckets that are generated, gathered, reduced and
// updated as a whole.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "trainer/arena.h"
#include "trainer/communicator.h"
#include "trainer/context.h"
#include "trainer/device.h"

namespace trainer {

// A named matrix or vector of the model, or a rank's part of it. The values
// depend on the seed, the name and the position in the whole matrix, so that
// the parts of all ranks are slices of the same matrix.
struct Piece {
  std::string name;
  std::int64_t rows = 1, cols = 1;            // of the part
  std::int64_t row_begin = 0, col_begin = 0;  // in the whole
  std::int64_t global_rows = 1, global_cols = 1;
  double scale = 0.0, shift = 0.0;  // see Slab
};

// Which ranks have a part of the gradient, in addition to the replicas.
enum class GradientShare {
  kDense,    // none: it is the same on all tp ranks, or the parameter is split
  kPartial,  // each tp rank has the part of its tokens or of its columns
  kTied,     // first and last stage: the embedding is also the head
  kExpert    // none, and only the ranks with this expert are replicas
};

// Pieces side by side, which one matrix product may use as a whole.
struct Parameter {
  std::vector<Piece> pieces;
  GradientShare share = GradientShare::kDense;
  std::int64_t size = 0;
  Tensor weight;    // valid between Acquire and Release of a unit
  Tensor gradient;  // valid in its backward
};

// The groups over which gradients are summed and weights gathered; null where a
// group has one rank. Those for experts have the replicas of an expert.
struct ReplicaGroups {
  Communicator* reduce = nullptr;
  Communicator* gather = nullptr;
  Communicator* expert_reduce = nullptr;
  Communicator* expert_gather = nullptr;
  Communicator* tp = nullptr;
  Communicator* tied = nullptr;
};

// ZeRO 0 to 3 over the replicas of a parameter (dp * cp ranks, of an expert
// dp * cp / ep).
//
//   stage  weights   gradients   optimizer
//   0      all       all         all
//   1      all       all         own part
//   2      all       own part    own part
//   3      own part  own part    own part
//
// Gradients that are narrower than the optimizer (bfloat16) are added to wide
// sums after each of several microbatches, as Megatron-LM accumulates them; the
// sums (ZeRO 2 and 3: of the own part) replace the gradients in what follows.
//
// A bucket is a run of parameters of the same share with at most bucket_bytes
// (or one larger parameter), padded to a multiple of the replicas. Stages 2 and
// 3 have the gradients of a bucket in full from the first backward that adds to
// them until they are reduced, after each microbatch; stage 3 has the weights
// in full while a unit that uses them runs.
//
// Source: Rajbhandari et al. (2020).
class ParameterStore {
 public:
  ParameterStore(Context& context, ReplicaGroups groups);
  ~ParameterStore();
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Declares a unit (what is acquired and released together) and then its
  // parameters. Units of a chunk follow each other.
  int AddUnit(int chunk);
  Parameter* Add(GradientShare share, std::vector<Piece> pieces);
  void Share(Parameter* parameter);  // the current unit uses it, too

  // Makes the buckets, allocates and generates. Called once.
  void Build(std::uint64_t seed);

  // ---- a step ----
  void BeginStep();
  // The weights of a unit can be used. `next` is the unit that follows, or -1:
  // with overlap_zero_allgather its weights are gathered meanwhile.
  void Acquire(int unit, int next);
  void Release(int unit, int next);
  void BeginBackward(int unit);
  // The backward of a unit is done; `last`: for the last time in this step.
  void EndBackward(int unit, bool last);
  // Waits for all gradients and updates the weights.
  void Update(const AdamOptions& options);

  // Waits for gathers under way.
  void Finish();
  [[nodiscard]] std::int64_t parameters() const;
  // Copies weights (or gradients) of all own parameters, for tests.
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter>>& list() const {
    return parameters_;
  }

 private:
  struct Bucket;
  struct Unit {
    int chunk = 0;
    std::vector<Parameter*> parameters;
    std::vector<Bucket*> buckets;
  };

  [[nodiscard]] std::int64_t BucketBytes() const;
  void MakeBuckets();
  void Allocate(Bucket& bucket);
  void Generate(Bucket& bucket, std::uint64_t seed);
  void Bind(Bucket& bucket);
  void Gather(Bucket& bucket);
  void Reduce(Bucket& bucket);
  void FinishReduce(Bucket& bucket);
  void FinishReduces(std::size_t in_flight);
  // Another stage holds the same weights.
  [[nodiscard]] bool IsTied(const Bucket& bucket) const;
  void Update(const AdamOptions& options, Bucket& bucket);
  [[nodiscard]] bool Uses(int unit, const Bucket& bucket) const;

  Context& context_;
  ReplicaGroups groups_;
  int zero_;
  bool wide_sums_;
  std::vector<Unit> units_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::deque<Bucket*> reducing_;
};

}  // namespace trainer
