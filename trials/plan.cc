#include "trials/plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trials/constraints.h"

namespace trials {
namespace {

[[noreturn]] void Fail(const Plan& plan, const std::string& rule) {
  throw InvalidPlan(fmt::format("a plan with {}", ToString(plan.shared)), rule);
}

void CheckShape(const Plan& plan, const Model& model) {
  const ParallelConfig& shared = plan.shared;
  if (plan.stages.empty() ||
      shared.pp != static_cast<int>(plan.stages.size())) {
    Fail(plan, fmt::format("pp must be the number of stages, {}",
                           plan.stages.size()));
  }
  if (plan.layers.size() !=
      plan.stages.size() * static_cast<std::size_t>(shared.model_chunks)) {
    Fail(plan,
         fmt::format("layers needs a number for each of the {} x {} virtual "
                     "stages, not {}",
                     shared.pp, shared.model_chunks, plan.layers.size()));
  }
  const int sum = std::accumulate(plan.layers.begin(), plan.layers.end(), 0);
  if (sum != model.layers || *std::ranges::min_element(plan.layers) < 0) {
    Fail(plan,
         fmt::format("the layers of the stages are {}: they must be 0 or more "
                     "and add up to the model's {}",
                     fmt::join(plan.layers, ", "), model.layers));
  }
}

void CheckStage(const Plan& plan, int s, const Workload& workload,
                std::size_t gpu_types) {
  const PlanStage& stage = plan.stages[s];
  const auto fail = [&](const std::string& rule) {
    Fail(plan, fmt::format("stage {}: {}", s, rule));
  };
  if (stage.gpu_type < 0 ||
      static_cast<std::size_t>(stage.gpu_type) >= gpu_types) {
    fail(fmt::format("there is no GPU type {}; there are {}", stage.gpu_type,
                     gpu_types));
  }
  if (stage.recomputed_layers < 0 ||
      stage.recomputed_layers > StageLayers(plan, s)) {
    fail(fmt::format("{} recomputed layers of {}", stage.recomputed_layers,
                     StageLayers(plan, s)));
  }
  if (const std::string problem = ConfigProblem(
          StageConfig(plan, s), {.workload = workload,
                                 .any_gpus = true,
                                 .replicated_kv_heads = true,
                                 .empty_stages = true,
                                 .unfilled_stages = plan.shared.pp});
      !problem.empty()) {
    fail(problem);
  }
}

}  // namespace

std::vector<int> DistributeLayers(int layers, int virtual_stages) {
  std::vector<int> result(virtual_stages, layers / virtual_stages);
  const int remainder = layers % virtual_stages;
  const int first = virtual_stages / 2 - remainder / 2;
  for (int i = first; i < first + remainder; ++i) {
    ++result[i];
  }
  return result;
}

std::string LayoutText(const std::vector<int>& layers) {
  const auto blocks = [](int count) {
    return count == 0 ? "" : count == 1 ? "t" : fmt::format("t*{}", count);
  };
  std::string text = "E" + blocks(layers.front()) + "|";
  for (auto at = layers.begin() + 1; at < layers.end() - 1;) {
    const auto end = std::find_if(at, layers.end() - 1,
                                  [at](int count) { return count != *at; });
    text += fmt::format("({}|)*{}", blocks(*at), end - at);
    at = end;
  }
  return text + blocks(layers.back()) + "L";
}

void SetLayers(const std::vector<std::vector<int>>& by_stage, Plan& plan) {
  plan.shared.pp = static_cast<int>(by_stage.size());
  plan.shared.model_chunks = static_cast<int>(by_stage.front().size());
  plan.layers.clear();
  for (std::size_t chunk = 0; chunk < by_stage.front().size(); ++chunk) {
    for (const std::vector<int>& stage : by_stage) {
      plan.layers.push_back(stage[chunk]);
    }
  }
}

Plan UniformPlan(const ParallelConfig& config, int layers) {
  return UniformPlan(config,
                     DistributeLayers(layers, config.pp * config.model_chunks));
}

Plan UniformPlan(const ParallelConfig& config, std::vector<int> layers) {
  Plan plan;
  plan.shared = config;
  plan.layers = std::move(layers);
  const PlanStage stage{config.dp, config.tp, 0, 0};
  plan.stages.assign(config.pp, stage);
  for (int s = 0; config.grad_checkpoint == kRecomputeFull && s < config.pp;
       ++s) {
    plan.stages[s].recomputed_layers = StageLayers(plan, s);
  }
  return plan;
}

int StageLayers(const Plan& plan, int stage) {
  int layers = 0;
  for (std::size_t v = static_cast<std::size_t>(stage); v < plan.layers.size();
       v += plan.stages.size()) {
    layers += plan.layers[v];
  }
  return layers;
}

bool Resharded(const Plan& plan, int stage, int other) {
  const PlanStage& a = plan.stages[stage];
  const PlanStage& b = plan.stages[other];
  return a.dp != b.dp || a.tp != b.tp;
}

ParallelConfig StageConfig(const Plan& plan, int stage) {
  const PlanStage& own = plan.stages[stage];
  ParallelConfig config = plan.shared;
  config.dp = own.dp;
  config.tp = own.tp;
  config.micro_batch_size = 0;
  if (config.sp > 1) {
    config.sp = own.tp;
  }
  return config;
}

bool SplitsTokens(const Plan& plan, int stage) {
  return plan.shared.sp > 1 && plan.stages[stage].tp > 1;
}

std::vector<Chunk> ChunksOf(const Plan& plan, int dense_layers) {
  std::vector<int> left;  // layers to recompute, by stage
  for (const PlanStage& stage : plan.stages) {
    left.push_back(stage.recomputed_layers);
  }
  std::vector<Chunk> chunks(plan.layers.size());
  for (std::size_t v = 0; v < chunks.size(); ++v) {
    const std::size_t stage = v % plan.stages.size();
    const int dense = std::min(dense_layers, plan.layers[v]);
    dense_layers -= dense;
    const int recomputed = std::min(left[stage], plan.layers[v]);
    left[stage] -= recomputed;
    chunks[v] = {static_cast<int>(stage),
                 plan.layers[v],
                 dense,
                 recomputed,
                 plan.shared.grad_checkpoint == kRecomputeSelective,
                 v == 0,
                 v + 1 == chunks.size()};
  }
  return chunks;
}

void FillTypes(std::span<const int> gpus, Plan& plan) {
  std::size_t gpu_type = 0;
  int used = 0;  // of this type
  for (int s = 0; s < plan.shared.pp; ++s) {
    if (gpu_type + 1 < gpus.size() && used == gpus[gpu_type]) {
      ++gpu_type;
      used = 0;
    }
    used += StageGpus(plan, s);
    if (used > gpus[gpu_type]) {
      Fail(plan,
           fmt::format("stage {} would have GPUs of two types: the GPUs of a "
                       "stage, dp * cp * tp = {}, must divide those of each "
                       "type ({})",
                       s, StageGpus(plan, s), fmt::join(gpus, ", ")));
    }
    plan.stages[s].gpu_type = static_cast<int>(gpu_type);
  }
}

int StageGpus(const Plan& plan, int stage) {
  const PlanStage& own = plan.stages[stage];
  return own.dp * own.tp * plan.shared.cp;
}

int GpusOfType(const Plan& plan, int gpu_type) {
  int gpus = 0;
  for (int s = 0; s < plan.shared.pp; ++s) {
    if (plan.stages[s].gpu_type == gpu_type) {
      gpus += StageGpus(plan, s);
    }
  }
  return gpus;
}

void CheckPlan(const Plan& plan, const Workload& workload,
               std::span<const int> gpus) {
  CheckShape(plan, workload.model);
  for (int s = 0; s < plan.shared.pp; ++s) {
    CheckStage(plan, s, workload, gpus.size());
  }
  for (std::size_t gpu_type = 0; gpu_type < gpus.size(); ++gpu_type) {
    const int used = GpusOfType(plan, static_cast<int>(gpu_type));
    if (used > gpus[gpu_type]) {
      Fail(plan, fmt::format("{} GPUs of type {}, of which there are {}", used,
                             gpu_type, gpus[gpu_type]));
    }
  }
}

}  // namespace trials
