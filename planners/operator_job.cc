#include "planners/operator_job.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "common/units.h"

namespace planners {
namespace {

using common::kMebi;  // the megabyte of Aceso's profiles

// The numbers of sequences of a GPU's microbatch in the space and in `others`,
// ascending.
std::vector<int> MicroBatchesOf(const trials::SearchSpace& space, int batch,
                                const std::vector<int>& others) {
  std::set<int> sizes(others.begin(), others.end());
  for (const trials::ParallelConfig& config : space.configs()) {
    sizes.insert(MicroBatchOf(config, batch));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

OperatorJobSizes JobOf(const OperatorJobOptions& options,
                       const trials::Workload* workload) {
  const auto pick = [&](const char* key, int given, auto of) {
    if (given == 0 && workload == nullptr) {
      throw common::InputError(fmt::format(
          "{}: give a value, or [workload] from which it is read", key));
    }
    return given > 0 ? given : of(*workload);
  };
  using trials::Workload;
  OperatorJobSizes job{
      .layers = pick("layers", options.layers,
                     [](const Workload& w) { return w.model.layers; }),
      .batch = pick("batch", options.batch,
                    [](const Workload& w) { return w.batch_size; })};
  if (!options.profiles.empty()) {
    return job;
  }
  if (workload == nullptr) {
    throw common::InputError(
        "without profiles, the sizes of operators are read from [workload]");
  }
  const trials::Model& model = workload->model;
  RequireUniformBlocks("the planner", model);
  AnalyticJob& gpt = job.analytic;
  gpt.hidden = model.hidden_size;
  gpt.heads = model.attention_heads;
  gpt.feed_forward = model.ffn_size * std::max(1, model.experts_per_token);
  gpt.sequence_length = workload->sequence_length;
  gpt.vocabulary = std::max(model.vocab_size, 1);
  gpt.kv_heads = model.kv_heads;
  gpt.gated = model.gated_ffn;
  gpt.tflops = options.tflops;
  gpt.memory_gb_per_s = options.memory_gb_per_s;
  gpt.link_gb_per_s = options.link_gb_per_s;
  gpt.between_hosts_gb_per_s = options.between_hosts_gb_per_s;
  return job;
}

OperatorModel ModelOf(const methods::Problem& problem,
                      const OperatorJobOptions& options,
                      const OperatorJobSizes& sizes) {
  const OperatorJob job{
      .layers = sizes.layers,
      .batch = sizes.batch,
      .gpus = problem.machine.gpus(),
      .gpus_per_node = problem.machine.gpus_per_node(),
      .memory_limit_mb = kMemoryShare * problem.machine.memory_bytes() / kMebi};
  if (options.profiles.empty() != options.links.empty()) {
    throw common::InputError(
        "profiles and links: give both files or neither of them");
  }
  if (options.profiles.empty()) {
    AnalyticJob analytic = sizes.analytic;
    analytic.gpus_per_node = job.gpus_per_node;
    return {
        AnalyticOperators(analytic),
        LinkTable::Uniform(options.link_gb_per_s,
                           options.between_hosts_gb_per_s, job.gpus_per_node),
        job};
  }
  return {OperatorTable::Read(options.profiles, options.profiled_model),
          LinkTable::Read(options.links, options.profiled_model), job};
}

OperatorModel ModelOfCandidates(const methods::Problem& problem,
                                const OperatorJobOptions& options) {
  OperatorJobSizes job = JobOf(options, problem.workload);
  job.analytic.micro_batches =
      MicroBatchesOf(*problem.space, job.batch, job.analytic.micro_batches);
  for (const trials::ParallelConfig& config : problem.space->configs()) {
    job.analytic.largest_tp = std::max(job.analytic.largest_tp, config.tp);
  }
  return ModelOf(problem, options, job);
}

std::vector<methods::Option> OperatorJobRows(
    OperatorJobOptions& o, const std::vector<methods::Option>& own) {
  std::vector<methods::Option> rows = {
      {"profiles", methods::CsvFile{&o.profiles},
       "Profiled operators; without them, those of the sizes of [workload]."},
      {"links", methods::CsvFile{&o.links},
       "Profiled links of the same machine."},
      {"profiled_model",
       methods::Text{&o.profiled_model, "a name in the profiles"},
       "The model of the profiles."},
      {"layers", methods::Integer{&o.layers, 0},
       "Layers of the model; 0, also below: that of [workload]."},
      {"batch", methods::Integer{&o.batch, 0}, "Sequences per step."},
      {"tflops", methods::Number{&o.tflops, 1e-3},
       "That matrix products reach."},
      {"memory_gb_per_s", methods::Number{&o.memory_gb_per_s, 1e-3},
       "That other operators reach."},
      {"link_gb_per_s", methods::Number{&o.link_gb_per_s, 1e-3},
       "Bandwidth within a host."},
      {"between_hosts_gb_per_s",
       methods::Number{&o.between_hosts_gb_per_s, 1e-3},
       "Bandwidth between hosts."},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

int MicroBatchOf(const trials::ParallelConfig& config, int batch) {
  return config.micro_batch_size > 0
             ? config.micro_batch_size
             : std::max(1, batch / (config.dp * config.microbatches));
}

Estimate EstimateOf(double iteration_ms, double memory_mb) {
  if (!std::isfinite(iteration_ms) || !std::isfinite(memory_mb)) {
    return {};
  }
  return {1e-3 * iteration_ms, kMebi * memory_mb};
}

}  // namespace planners
