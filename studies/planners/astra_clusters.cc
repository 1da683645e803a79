// Clusters of one and of two GPU types by Astra's search, and the trials of its
// plans: the setting of its Table 2.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "methods/planners/astra/plan_search.h"
#include "studies/planners/planners.h"
#include "trials/cluster.h"
#include "trials/data_folder.h"
#include "trials/simulator/simulator.h"

namespace studies {
namespace {

constexpr int kTop = 20;  // plans that are simulated

struct Training {
  int batch = 1024;
  int sequence_length = 4096;
  std::vector<int> model_chunks = {1};
};

// Tokens per second that Table 2 prints for 1,024 GPUs.
struct PublishedStep {
  const char* label;
  const char* model;
  double h100;
  double h800;
  double a800;
  double mixed;
};
constexpr std::array<PublishedStep, 7> kTable2 = {{
    {"Llama-2-7B", "llama-2-7b", 10148287, 9024716, 3966756, 5240609},
    {"Llama-2-13B", "llama-2-13b", 5721253, 4937998, 2187876, 3040095},
    {"Llama-2-70B", "llama-2-70b", 1233850, 1174362, 458719, 654206},
    {"Llama-3-8B", "llama-3-8b", 9167338, 7610698, 3586433, 4660743},
    {"Llama-3-70B", "llama-3-70b", 1129568, 1079507, 425660, 626050},
    {"GLM-67B", "glm-67b", 1288107, 1218933, 483384, 699978},
    {"GLM-130B", "glm-130b", 508377, 491088, 202137, 300193},
}};

// Hosts with eight GPUs of one type. A800 and H800 are A100 and H100 with 8 of
// their 12 and 18 NVLinks (NVIDIA's data sheets).
trials::Cluster Hosts(const std::string& name, int gpus) {
  const bool hopper = name.front() == 'H';
  trials::Cluster cluster = trials::ReadCluster(trials::FindDataFile(
      "clusters", hopper ? "h100-infiniband" : "a100-selene"));
  if (name.ends_with("800")) {
    constexpr double kLinks = 8.0;
    cluster.intra.bandwidth_bytes_per_s *= kLinks / (hopper ? 18.0 : 12.0);
  }
  cluster.name = name;
  return trials::WithGpus(cluster, gpus);
}

trials::Framework Megatron() {
  return trials::ReadFramework(
      trials::FindDataFile("frameworks", "megatron-core"));
}

// A job on a cluster, as a method sees it.
class Job {
 public:
  Job(const std::string& model, std::vector<trials::Cluster> gpu_types,
      const Training& training = {})
      : workload_(WorkloadOf(model, training)),
        gpu_types_(std::move(gpu_types)),
        simulator_(workload_, gpu_types_, {Megatron()}) {
    trials::SearchSpaceOptions options;
    options.values = {{"tp", {1, 2, 4, 8}},
                      {"dp_bucket_mb", {25}},
                      {"zero_stage", {1}},
                      {"zero_bucket_mb", {24}},
                      {"overlap_zero_comm", {1}},
                      {"overlap_zero_allgather", {1}},
                      {"model_chunks", training.model_chunks},
                      {"overlap_p2p", {1}},
                      {"micro_batch_size", {1, 2, 4, 8}}};
    const int gpus = trials::GpusOf(gpu_types_);
    space_.emplace(trials::SearchSpace::Enumerate(workload_, gpus, options));
    problem_.space = &*space_;
    problem_.machine = trials::Machine(gpu_types_);
    problem_.workload = &workload_;
    options_.tflops = gpu_types_.front().gpu.half_flop_per_s / 1e12;
  }

  // Tokens per second of the fastest of the first plans, and its text; 0 if
  // none fits.
  [[nodiscard]] double BestOfPlans(std::string& text) {
    const methods::PlanSearchResult found =
        methods::SearchPlans(problem_, options_, {.top = kTop});
    double best = 0.0;
    for (const methods::CostedStrategy& each : found.best) {
      const double rate = Simulated(each.plan);
      if (rate > best) {
        best = rate;
        text = ToString(each.plan);
      }
    }
    return best;
  }

  // By Astra's own model; what it offers beyond a plan is in `search`.
  [[nodiscard]] methods::PlanSearchResult Search(
      const methods::PlanSearchOptions& search) const {
    return methods::SearchPlans(problem_, options_, search);
  }

  // Tokens per second of the fastest strategy of such a search; 0: none fits.
  [[nodiscard]] double RateOf(const methods::PlanSearchResult& result) const {
    return result.best.empty()
               ? 0.0
               : Tokens() / result.best.front().cost.step_time_s;
  }

  // The fastest equal split of layers, of all candidates.
  [[nodiscard]] double BestOfEqualStages() {
    double best = 0.0;
    for (const trials::ParallelConfig& config : space_->configs()) {
      if (workload_.model.layers % config.pp != 0) {
        continue;
      }
      try {
        best = std::max(best,
                        Simulated(methods::PlanOfCandidate(problem_, config)));
      } catch (const trials::InvalidPlan&) {
        continue;  // a stage of two types
      }
    }
    return best;
  }

 private:
  static trials::Workload WorkloadOf(const std::string& model,
                                     const Training& training) {
    trials::Workload workload;
    workload.model = trials::ReadModel(trials::ExperimentsFolder() /
                                       "workloads" / (model + ".json"));
    workload.batch_size = training.batch;
    workload.sequence_length = training.sequence_length;
    return workload;
  }

  [[nodiscard]] double Tokens() const {
    return static_cast<double>(workload_.batch_size) *
           workload_.sequence_length;
  }

  [[nodiscard]] double Simulated(const trials::Plan& plan) {
    const trials::StepReport report = simulator_.Simulate(plan);
    return report.fits ? Tokens() / report.step_time_s : 0.0;
  }

  trials::Workload workload_;
  std::vector<trials::Cluster> gpu_types_;
  trials::Simulator simulator_;
  std::optional<trials::SearchSpace> space_;
  methods::Problem problem_;
  methods::AstraMethodOptions options_;  // with the rate of the first type
};

plots::Cell Thousands(double tokens_per_s) {
  return plots::Figures(fmt::format("{:.0f}", tokens_per_s / 1000.0));
}

}  // namespace

Output AstraClusters() {
  constexpr int kGpus = 1024;
  Output output{.name = "astra_clusters"};
  int ordered = 0;
  for (const PublishedStep& row : kTable2) {
    const auto one = [&](const char* gpu, int gpus) {
      std::string text;
      return Job(row.model, {Hosts(gpu, gpus)}).BestOfPlans(text);
    };
    const double h100 = one("H100", kGpus);
    const double h800 = one("H800", kGpus);
    const double a800 = one("A800", kGpus);
    const double half = one("H100", kGpus / 2);
    Job mixed(row.model, {Hosts("A800", kGpus / 2), Hosts("H100", kGpus / 2)});
    std::string text;
    const double both = mixed.BestOfPlans(text);
    ordered += h100 > h800 && h800 > both && both > a800 ? 1 : 0;
    const auto ratio = [](double value, double other) {
      return plots::Figures(fmt::format("{:.2f}", value / other));
    };
    output.table.Add(
        {{"model", row.label},
         {"H100", Thousands(h100)},
         {"H800", Thousands(h800)},
         {"A800", Thousands(a800)},
         {"A800 + H100", Thousands(both)},
         {"equal stages there", Thousands(mixed.BestOfEqualStages())},
         {"H100, half as many", Thousands(half)},
         {"mixed / A800, published", ratio(row.mixed, row.a800)},
         {"here", ratio(both, a800)},
         {"mixed / H100, published", ratio(row.mixed, row.h100)},
         {"here", ratio(both, h100)},
         {"fastest plan of the mixed cluster", text}});
  }
  output.conclusion = fmt::format(
      "Thousands of tokens per second on {} GPUs (the mixed cluster has half "
      "of "
      "each type), simulated: the fastest of the first {} plans of the search. "
      "{} sequences of {} tokens, Megatron Core; the publication prints "
      "neither, nor the shares of the types. The order H100 > H800 > mixed > "
      "A800 of its Table 2 holds for {} of {} models.",
      kGpus, kTop, Training().batch, Training().sequence_length, ordered,
      kTable2.size());
  return output;
}

Output AstraHalves() {
  const Training training{256, 2048, {1, 2, 4, 8}};
  Output output{.name = "astra_halves"};
  const trials::Cluster slow = Hosts("A100", 8);
  const trials::Cluster fast = Hosts("H100", 8);
  const std::vector<std::pair<std::string, std::vector<trials::Cluster>>>
      clusters = {{"8 A100", {slow}},
                  {"8 H100", {fast}},
                  {"8 A100 + 8 H100", {slow, fast}}};
  for (const auto& [label, gpu_types] : clusters) {
    Job job("llama-2-7b", gpu_types, training);
    std::string text;
    const double plans = job.BestOfPlans(text);
    const methods::PlanSearchResult found = job.Search({.top = 1});
    output.table.Add({{"cluster", label},
                      {"equal stages", Thousands(job.BestOfEqualStages())},
                      {"Astra's plans", Thousands(plans)},
                      {"strategies", found.strategies},
                      {"that fit", found.fit},
                      {"fastest plan", text}});
  }
  output.conclusion = fmt::format(
      "Llama-2-7B, {} sequences of {} tokens, thousands of tokens per second, "
      "simulated: the fastest of all configurations with equal stages of one "
      "type each, and of the first {} plans of the search.",
      training.batch, training.sequence_length, kTop);
  return output;
}

Output AstraOffload() {
  Output output{.name = "astra_offload"};
  for (const auto& [label, model, gpus] :
       {std::tuple{"Llama-2-7B", "llama-2-7b", 8},
        std::tuple{"Llama-2-7B", "llama-2-7b", 64},
        std::tuple{"Llama-2-13B", "llama-2-13b", 8},
        std::tuple{"Llama-2-13B", "llama-2-13b", 64},
        std::tuple{"Llama-2-70B", "llama-2-70b", 16},
        std::tuple{"Llama-2-70B", "llama-2-70b", 32},
        std::tuple{"Llama-2-70B", "llama-2-70b", 64},
        std::tuple{"GLM-130B", "glm-130b", 32},
        std::tuple{"GLM-130B", "glm-130b", 64}}) {
    const Job job(model, {Hosts("A800", gpus)});
    plots::Row row = {{"model", label}, {"GPUs", gpus}};
    methods::PlanSearchResult last;
    for (const auto& [name, search] :
         {std::pair("strategies", methods::PlanSearchOptions{.top = 1}),
          {"with groups", {.top = 1, .groups = true}},
          {"and offloading", {.top = 1, .groups = true, .offload = true}}}) {
      last = job.Search(search);
      row.emplace_back(name, last.strategies);
      row.emplace_back("that fit", last.fit);
      row.emplace_back("fastest", last.best.empty()
                                      ? plots::Figures("none")
                                      : Thousands(job.RateOf(last)));
    }
    row.emplace_back(
        "offloads",
        !last.best.empty() && last.best.front().extras.offload_optimizer
            ? "yes"
            : "no");
    output.table.Add(std::move(row));
  }
  output.conclusion = fmt::format(
      "By Astra's cost model, on A800: recomputation of the first layers of a "
      "stage; also of all layers in groups; also an optimizer on the host. "
      "Thousands of tokens per second; {} sequences of {} tokens.",
      Training().batch, Training().sequence_length);
  return output;
}

}  // namespace studies
