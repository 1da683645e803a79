// A training plan whose stages may differ.

#pragma once

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace trials {

// The part of a plan that may differ from stage to stage. `gpu_type` is the GPU
// type of the stage's dp * cp * tp GPUs, an index into the simulator's
// clusters.
struct PlanStage {
  int dp = 1;
  int tp = 1;
  int recomputed_layers = 0;  // its first layers, which are recomputed fully
  int gpu_type = 0;

  friend bool operator==(const PlanStage&, const PlanStage&) = default;
};

// Stages, each with its own layers, sizes and GPU type, as in the
// configurations of Aceso (layers, tp, dp and recomputation by stage) and of
// Astra's heterogeneous search (layers and GPU type by stage). A ParallelConfig
// is the plan whose stages are alike.
//
// `shared` holds the knobs that apply to the plan as a whole: microbatches (the
// same number for every dp), model_chunks, ZeRO and buckets, cp, ep, sp. Its pp
// is the number of stages; its dp, tp and micro_batch_size have no meaning.
// With sp > 1, every stage has sequence parallelism over its own tp ranks.
// Layers that are not recomputed fully follow shared.grad_checkpoint: with
// kRecomputeSelective they recompute their attention.
//
// Source: Liu et al. (2024), Aceso, Sec. 3.1; Astra, Sec. 3.4, Eq. 23.
// Shapes: stages [pp]; layers [pp * model_chunks], by virtual stage.
struct Plan {
  ParallelConfig shared;
  std::vector<PlanStage> stages;
  std::vector<int> layers;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Sets the layers, pp and model_chunks of a plan from the layers of its stages.
// Shape: [stages][model_chunks], without empty lists.
void SetLayers(const std::vector<std::vector<int>>& by_stage, Plan& plan);

// The text that identifies a plan, in records and messages: the knobs of
// `shared` that differ from their defaults, then the stages, those alike in a
// row as one:
//
//   microbatches=16 zero_stage=1 / 2x layers=10 dp=2 tp=1 /
//       layers=4+4 dp=1 tp=2 recomputed_layers=4 GPU type=1
//
// a cell of CSV or Markdown. The layers of a stage's model chunks are added.
[[nodiscard]] std::string ToString(const Plan& plan);
// The inverse, up to members of `shared` without a meaning.
// Errors: throws std::invalid_argument naming the part and the rule.
void FromText(std::string_view text, Plan& plan);

// Reads a plan from JSON:
//
//   {"shared": "zero_stage=1,microbatches=16",
//    "stages": [{"layers": 10, "dp": 2, "tp": 1},
//               {"layers": 14, "dp": 1, "tp": 2, "recomputed_layers": 7}]}
//
// `shared` has the knobs of all stages; dp, tp and pp belong to the stages.
// `layers` is a list, one number for each model chunk, if there are several.
// `recomputed_layers` is 0, and so is `gpu_type`, an index into the clusters of
// a heterogeneous simulation. Errors: throw InputError with the file, the stage
// and the key for a missing, unknown or wrong key.
[[nodiscard]] Plan ParsePlanText(std::string_view text,
                                 const std::string& source);
[[nodiscard]] Plan ReadPlanFile(const std::filesystem::path& path);

// The number of blocks of each virtual stage: an even split, with the remainder
// one each on the middle stages.
//
// Source: Colossal-AI, PipelineStageManager::distribute_layers.
[[nodiscard]] std::vector<int> DistributeLayers(int layers, int virtual_stages);

// The layers as Megatron-LM's --pipeline-model-parallel-layout writes them,
// embedding and loss included: "Et*7|(t*8|)*6t*7L" for 62 layers on 8 stages.
[[nodiscard]] std::string LayoutText(const std::vector<int>& layers);

// The plan of a configuration: equal stages, layers by DistributeLayers.
[[nodiscard]] Plan UniformPlan(const ParallelConfig& config, int layers);
// A uniform plan with the given blocks of each virtual stage.
[[nodiscard]] Plan UniformPlan(const ParallelConfig& config,
                               std::vector<int> layers);

// The layers of all virtual stages of a stage.
[[nodiscard]] int StageLayers(const Plan& plan, int stage);

// The two stages divide a microbatch differently: it is resharded between them.
[[nodiscard]] bool Resharded(const Plan& plan, int stage, int other);

// The configuration of a plan in which all stages are like this one.
[[nodiscard]] ParallelConfig StageConfig(const Plan& plan, int stage);

// Sequence parallelism splits the tokens of this stage: it needs tp > 1.
[[nodiscard]] bool SplitsTokens(const Plan& plan, int stage);

// The layers of one virtual stage.
struct Chunk {
  int stage = 0;
  int blocks = 0;
  int dense = 0;  // the first of them, without experts (Model::dense_layers)
  int recomputed = 0;      // blocks that are recomputed fully
  bool selective = false;  // the other blocks recompute their attention
  bool first = false;      // holds the embedding
  bool last = false;       // holds the head
};

// Shape: [pp * model_chunks].
[[nodiscard]] std::vector<Chunk> ChunksOf(const Plan& plan, int dense_layers);

// Gives each stage a GPU type: the stages fill the types in their order.
// `gpus`: as for CheckPlan.
// Errors: throws InvalidPlan for a stage whose GPUs would be of two types.
void FillTypes(std::span<const int> gpus, Plan& plan);

// GPUs of one stage, and of all stages in one GPU type.
[[nodiscard]] int StageGpus(const Plan& plan, int stage);
[[nodiscard]] int GpusOfType(const Plan& plan, int gpu_type);

// A plan or a configuration that a problem does not allow.
class InvalidPlan : public std::invalid_argument {
 public:
  // "the plan: the reason".
  InvalidPlan(const std::string& plan, std::string reason)
      : std::invalid_argument(plan + ": " + reason),
        reason_(std::move(reason)) {}

  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// `gpus`: the number of GPUs of each type.
// Errors: throws InvalidPlan naming the stage, the value and the
// rule: layers that do not add up to the model's, more recomputed layers than
// there are, an unknown type of GPU or more of it than there are, and
// Constraints() for each stage's configuration.
void CheckPlan(const Plan& plan, const Workload& workload,
               std::span<const int> gpus);

}  // namespace trials
