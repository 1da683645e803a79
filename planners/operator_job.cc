#include "planners/operator_job.h"

#include <algorithm>
#include <array>
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

// A size of the model as an option; 0: that of the workload.
struct SizeOption {
  const char* key;
  int OperatorJobOptions::*given;
  int AnalyticJob::*size;  // null: of OperatorJobSizes
  int (*of)(const trials::Workload&);
  const char* meaning;
};
using trials::Workload;
constexpr std::array kSizeOptions = {
    SizeOption{"layers", &OperatorJobOptions::layers, nullptr,
               [](const Workload& w) { return w.model.layers; },
               "Layers of the model; 0, also below: that of [workload]."},
    SizeOption{"batch", &OperatorJobOptions::batch, nullptr,
               [](const Workload& w) { return w.batch_size; },
               "Sequences per step."},
    SizeOption{"hidden", &OperatorJobOptions::hidden, &AnalyticJob::hidden,
               [](const Workload& w) { return w.model.hidden_size; },
               "Width of the model."},
    SizeOption{"heads", &OperatorJobOptions::heads, &AnalyticJob::heads,
               [](const Workload& w) { return w.model.attention_heads; },
               "Attention heads."},
    SizeOption{
        "feed_forward", &OperatorJobOptions::feed_forward,
        &AnalyticJob::feed_forward,
        [](const Workload& w) {
          return w.model.ffn_size * std::max(1, w.model.experts_per_token);
        },
        "Width of the feed-forward layer; a given one has two matrices."},
    SizeOption{"sequence_length", &OperatorJobOptions::sequence_length,
               &AnalyticJob::sequence_length,
               [](const Workload& w) { return w.sequence_length; },
               "Tokens of a sequence."},
    SizeOption{
        "vocabulary", &OperatorJobOptions::vocabulary, &AnalyticJob::vocabulary,
        [](const Workload& w) { return std::max(w.model.vocab_size, 1); },
        "Tokens of the vocabulary."}};

}  // namespace

OperatorJobSizes JobOf(const OperatorJobOptions& options,
                       const trials::Workload* workload) {
  const auto pick = [&](const SizeOption& option) {
    if (options.*option.given == 0 && workload == nullptr) {
      throw common::InputError(fmt::format(
          "{}: give a value, or [workload] from which it is read", option.key));
    }
    return options.*option.given > 0 ? options.*option.given
                                     : option.of(*workload);
  };
  OperatorJobSizes job{.layers = pick(kSizeOptions[0]),
                       .batch = pick(kSizeOptions[1])};
  if (!options.profiles.empty()) {
    return job;
  }
  AnalyticJob& gpt = job.analytic;
  for (const SizeOption& option : kSizeOptions) {
    if (option.size != nullptr) {
      gpt.*option.size = pick(option);
    }
  }
  gpt.kv_heads = workload == nullptr || options.heads > 0
                     ? gpt.heads
                     : workload->model.kv_heads;
  gpt.gated = workload != nullptr && options.feed_forward == 0 &&
              workload->model.gated_ffn;
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
      .memory_limit_mb =
          options.memory_share * problem.machine.memory_bytes() / kMebi};
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
       "Profiled operators; without them, those of the sizes below."},
      {"links", methods::CsvFile{&o.links},
       "Profiled links of the same machine."},
      {"profiled_model",
       methods::Text{&o.profiled_model, "a name in the profiles"},
       "The model of the profiles."},
  };
  for (const SizeOption& option : kSizeOptions) {
    rows.push_back(
        {option.key, methods::Integer{&(o.*option.given), 0}, option.meaning});
  }
  const std::vector<methods::Option> speeds = {
      {"tflops", methods::Number{&o.tflops, 1e-3},
       "That matrix products reach."},
      {"memory_gb_per_s", methods::Number{&o.memory_gb_per_s, 1e-3},
       "That other operators reach."},
      {"link_gb_per_s", methods::Number{&o.link_gb_per_s, 1e-3},
       "Bandwidth within a host."},
      {"between_hosts_gb_per_s",
       methods::Number{&o.between_hosts_gb_per_s, 1e-3},
       "Bandwidth between hosts."},
      {"memory_share", methods::Number{&o.memory_share, 1e-3, 1.0},
       "The share of the GPU's memory that a plan may use."},
  };
  rows.insert(rows.end(), speeds.begin(), speeds.end());
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
