// Clusters of one and of two GPU types by Astra's search, and the trials of its
// plans: the settings of its tables and figures. Measured steps on mixed GPUs.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/csv_table.h"
#include "common/quantiles.h"
#include "common/text.h"
#include "common/units.h"
#include "harness/spec.h"
#include "planners/astra/plan_search.h"
#include "planners/textbook/textbook_model.h"
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

// The models of its experiments: their labels there and their workloads.
constexpr std::array<std::pair<const char*, const char*>, 7> kModels = {
    {{"Llama-2-7B", "llama-2-7b"},
     {"Llama-2-13B", "llama-2-13b"},
     {"Llama-2-70B", "llama-2-70b"},
     {"Llama-3-8B", "llama-3-8b"},
     {"Llama-3-70B", "llama-3-70b"},
     {"GLM-67B", "glm-67b"},
     {"GLM-130B", "glm-130b"}}};

// Hosts with eight GPUs of one type. A800 and H800 are A100 and H100 with 8 of
// their 12 and 18 NVLinks (NVIDIA's data sheets).
trials::Cluster Hosts(const std::string& name, int gpus) {
  const bool hopper = name.front() == 'H';
  trials::Cluster cluster = trials::ReadCluster(trials::FindDataFile(
      "clusters", hopper ? "h100-infiniband" : "a100-selene"));
  cluster.intra.rates = nullptr;
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
      : workload_(WorkloadOf(model, training.batch, training.sequence_length)),
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

  // The fastest of the first plans of a search; 0 tokens per second if none
  // fits. Strategies for which the rules are true are left out.
  struct Best {
    double tokens_per_s = 0.0;
    trials::Plan plan;
    std::int64_t strategies = 0;  // that pass the rules
    double search_s = 0.0;        // CPU seconds, without the simulator
  };
  [[nodiscard]] Best BestOfPlans(const std::string& rules = "") {
    planners::AstraMethodOptions options = options_;
    options.rules = rules;
    const double start = common::CpuSeconds();
    planners::PlanSearchResult found =
        planners::SearchPlans(problem_, options, {.top = kTop});
    Best best{.strategies = found.strategies,
              .search_s = common::CpuSeconds() - start};
    for (planners::CostedStrategy& each : found.best) {
      const double rate = Simulated(each.plan);
      if (rate > best.tokens_per_s) {
        best.tokens_per_s = rate;
        best.plan = std::move(each.plan);
      }
    }
    return best;
  }

  // Tokens per second of the plan whose communication does not overlap.
  [[nodiscard]] double WithoutOverlap(trials::Plan plan) {
    plan.shared.overlap_zero_comm = plan.shared.overlap_zero_allgather =
        plan.shared.overlap_p2p = false;
    return Simulated(plan);
  }

  // Tokens per second of the textbook's rules of thumb; 0: they do not fit.
  [[nodiscard]] double RulesOfThumb() {
    const trials::Cluster& cluster = gpu_types_.front();
    const planners::TextbookModel model(
        workload_, {.gpus_per_node = cluster.gpus_per_node,
                    .memory_bytes = cluster.gpu.memory_bytes});
    try {
      return Simulated(planners::PlanOfCandidate(
          problem_, model.Advise(problem_.machine.gpus())));
    } catch (const trials::InvalidPlan&) {
      return 0.0;
    }
  }

  // By Astra's own model; what it offers beyond a plan is in `search`.
  [[nodiscard]] planners::PlanSearchResult Search(
      const planners::PlanSearchOptions& search) const {
    return planners::SearchPlans(problem_, options_, search);
  }

  // Tokens per second of the fastest strategy of such a search; 0: none fits.
  [[nodiscard]] double RateOf(const planners::PlanSearchResult& result) const {
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
                        Simulated(planners::PlanOfCandidate(problem_, config)));
      } catch (const trials::InvalidPlan&) {
        continue;  // a stage of two types
      }
    }
    return best;
  }

 private:
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
  planners::AstraMethodOptions options_;  // with the rate of the first type
};

plots::Cell Thousands(double tokens_per_s) {
  return Decimals(tokens_per_s / 1000.0, 0);
}

// "none" where one of the rates is 0.
plots::Cell RateRatio(double rate, double of) {
  return Decimals(rate > 0.0 && of > 0.0 ? rate / of : common::kInfinity);
}

// The seconds of a step of OPT-350M with the slowest kind of replica, simulated
// and by Astra's model: `types` has the GPU types of the stages of each kind.
using StepTimes = std::array<double, 2>;
StepTimes SlowestReplica(trials::Plan plan, std::string_view types,
                         std::vector<trials::Cluster> clusters,
                         trials::Precision precision) {
  trials::Workload workload = WorkloadOf(
      "opt-350m", 2 * plan.stages.front().dp * plan.shared.microbatches, 2048);
  workload.precision = precision;
  const trials::Simulator simulator(workload, clusters,
                                    {trials::ReadFramework(trials::FindDataFile(
                                        "frameworks", "megatron-deepspeed"))});
  for (trials::Cluster& cluster : clusters) {
    if (precision == trials::Precision::kFp32) {
      cluster.gpu.half_flop_per_s = cluster.gpu.single_flop_per_s;
    }
  }
  methods::Problem problem;
  problem.machine = trials::Machine(clusters);
  problem.workload = &workload;
  planners::AstraMethodOptions options;  // data sheets: PCIe 3.0 x16, 1 Gb/s
  options.intra_node_gb_per_s = 15.75;
  options.inter_node_gb_per_s = 0.125;
  planners::AstraPlanModel astra(problem, options);
  StepTimes slowest = {};
  for (const std::string_view replica : common::Split(types, ';')) {
    for (std::size_t s = 0; s < replica.size(); ++s) {
      plan.stages[s].gpu_type = replica[s] - '0';
    }
    slowest = {std::max(slowest[0], simulator.Simulate(plan).step_time_s),
               std::max(slowest[1], astra.CostOf(plan).step_time_s)};
  }
  return slowest;
}

// Published steps on mixed GPUs, next to the simulator and to Astra's model of
// plans.
Output MixedMeasured() {
  const auto table =
      common::CsvTable::Read(trials::ExperimentsFolder().parent_path() /
                             "results/published/sailor2025.csv");
  Output output{.name = "mixed_measured"};
  std::array<std::vector<double>, 4> ratios;  // by model; then in parts
  for (const common::CsvTable::Row& row : table.rows()) {
    const auto cell = [&](const char* column) {
      return std::string(table.Cell(row, column));
    };
    trials::Plan plan;
    FromText(cell("plan"), plan);
    const double measured_s = common::ParseDouble(cell("step_time_s"));
    plots::Row line = {{"run", cell("name")},
                       {"GPU types", cell("types")},
                       {"plan", ToString(plan)},
                       {"measured", plots::Fixed(measured_s, 1)}};
    std::array<std::vector<double>, 2> varied;
    for (const double links : {1.0, 4.0}) {
      auto clusters = trials::ReadClusters(
          trials::FindDataFile("clusters", cell("cluster")));
      for (trials::Cluster& cluster : clusters) {
        cluster.intra.bandwidth_bytes_per_s *= links;
      }
      for (const auto precision :
           {trials::Precision::kFp32, trials::Precision::kFp16}) {
        for (const int sp : {1, plan.stages.front().tp}) {
          plan.shared.sp = sp;
          const StepTimes times =
              SlowestReplica(plan, cell("types"), clusters, precision);
          varied[0].push_back(times[0]);
          varied[1].push_back(times[1]);
        }
      }
    }
    for (const std::size_t model : {0, 1}) {
      const std::vector<double>& times = varied[model];
      const auto [low, high] = std::ranges::minmax(times);
      line.insert(line.end(), {{model == 0 ? "simulated" : "Astra's model",
                                plots::Fixed(times[0], 1)},
                               {"in parts", plots::Fixed(times[1], 1)},
                               {"least", plots::Fixed(low, 1)},
                               {"most", plots::Fixed(high, 1)}});
      ratios[model].push_back(times[0] / measured_s);
      ratios[model + 2].push_back(times[1] / measured_s);
    }
    output.table.Add(std::move(line));
  }
  output.conclusion = fmt::format(
      "Seconds per step of Sailor's runs on mixed GPUs, nothing fitted to "
      "them. GPU types of the stages of each kind of replica: 0 RTX 3090, 1 "
      "Titan RTX, 2 RTX 2080. The median ratio to the measurement is {:.2f} "
      "simulated and {:.2f} by Astra's model; {:.2f} and {:.2f} if each "
      "tensor-parallel rank sends only its part of a message between stages.",
      common::Median(ratios[0]), common::Median(ratios[1]),
      common::Median(ratios[2]), common::Median(ratios[3]));
  return output;
}

// One and two GPU types, next to its Table 2.
Output AstraClusters() {
  constexpr int kGpus = 1024;
  const Published published("astra");
  Output output{.name = "astra_clusters"};
  int ordered = 0;
  for (const auto& [label, model] : kModels) {
    plots::Row row = {{"model", label}};
    const auto add = [&, label = label](const char* gpus, double rate) {
      row.emplace_back(fmt::format("{}, published", gpus),
                       Thousands(published.Value("Table 2", label, gpus)));
      row.emplace_back("here", Thousands(rate));
      return rate;
    };
    const auto one = [&, model = model](const char* gpu, int gpus) {
      return Job(model, {Hosts(gpu, gpus)}).BestOfPlans().tokens_per_s;
    };
    const double h100 = add("H100", one("H100", kGpus));
    const double h800 = add("H800", one("H800", kGpus));
    const double a800 = add("A800", one("A800", kGpus));
    Job mixed(model, {Hosts("A800", kGpus / 2), Hosts("H100", kGpus / 2)});
    const Job::Best best = mixed.BestOfPlans();
    const double both = add("A800 + H100", best.tokens_per_s);
    ordered += h100 > h800 && h800 > both && both > a800 ? 1 : 0;
    row.insert(row.end(),
               {{"equal stages there", Thousands(mixed.BestOfEqualStages())},
                {"H100, half as many", Thousands(one("H100", kGpus / 2))},
                {"fastest plan of the mixed cluster", ToString(best.plan)}});
    output.table.Add(std::move(row));
  }
  output.conclusion = fmt::format(
      "Its Table 2 in thousands of tokens per second on {} GPUs (the mixed "
      "cluster has half of each type), simulated: the fastest of the first {} "
      "plans of the search. {} sequences of {} tokens, Megatron Core; the "
      "publication prints neither, nor the shares of the types. The order H100 "
      "> H800 > mixed > A800 of its Table 2 holds for {} of {} models.",
      kGpus, kTop, Training().batch, Training().sequence_length, ordered,
      kModels.size());
  return output;
}

// 32 to 4,096 GPUs, next to its Table 1, data parallelism alone, communication
// without overlap and rules of thumb: Figs. 5 (32 to 1,024), 8, 9, 11.
Output AstraScale() {
  const Published published("astra");
  Output output{.name = "astra_scale"};
  for (const auto& [label, model] : kModels) {
    double first = 0.0;  // tokens per second of a GPU
    for (const int gpus : {32, 64, 128, 256, 1024, 4096}) {
      Job job(model, {Hosts("A800", gpus)});
      const Job::Best best = job.BestOfPlans();
      const double rate = best.tokens_per_s;
      first = first > 0.0 ? first : rate / gpus;
      const auto text = [&, label = label](const char* series) {
        return plots::Figures(
            published.Text("Table 1", fmt::format("{}, {}", label, series),
                           fmt::format("{}", gpus)));
      };
      output.table.Add(
          {{"model", label},
           {"GPUs", gpus},
           {"tokens/s of a GPU", Decimals(rate / gpus, 0)},
           {"of the fewest GPUs'", RateRatio(rate / gpus, first)},
           {"only data parallelism",
            RateRatio(job.BestOfPlans("$tp > 1 || $pp > 1").tokens_per_s,
                      rate)},
           {"without overlap",
            RateRatio(rate > 0.0 ? job.WithoutOverlap(best.plan) : 0.0, rate)},
           {"rules of thumb", RateRatio(job.RulesOfThumb(), rate)},
           {"strategies, published", text("strategies")},
           {"here", best.strategies},
           {"search and simulation (s), published", text("end to end")},
           {"CPU seconds here", Decimals(best.search_s)}});
    }
  }
  output.conclusion = fmt::format(
      "Its Figs. 5, 8, 9 and 11 and Table 1: Astra's plan on A800, simulated "
      "as above, and other plans relative to it. Rules of thumb are those of "
      "the textbook, in the place of the experts' plans of Fig. 5, which are "
      "not published. \"none\" does not fit. {} sequences of {} tokens at "
      "every scale. Counts of strategies are not comparable: Table 1 prints "
      "neither its batch nor the values of each parameter.",
      Training().batch, Training().sequence_length);
  return output;
}

// Two GPU types next to equal stages: Fig. 6.
Output AstraMixed() {
  Output output{.name = "astra_mixed"};
  for (const auto& [label, model] : kModels) {
    for (const int gpus : {64, 256, 1024, 4096}) {
      Job job(model, {Hosts("A800", gpus / 2), Hosts("H100", gpus / 2)});
      const double best = job.BestOfPlans().tokens_per_s;
      const double equal = job.BestOfEqualStages();
      output.table.Add({{"model", label},
                        {"GPUs", gpus},
                        {"Astra's plan", Thousands(best)},
                        {"best of equal stages", Thousands(equal)},
                        {"ratio", Decimals(equal > 0.0 ? best / equal
                                                       : common::kInfinity)}});
    }
  }
  output.conclusion =
      "Its Fig. 6: half A800, half H100, thousands of tokens per second, "
      "simulated. Equal stages, the fastest of all, take the place of the "
      "experts' plans, which are not published.";
  return output;
}

// A small cluster of two GPU types and each half of it.
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
    const Job::Best best = job.BestOfPlans();
    const planners::PlanSearchResult found = job.Search({.top = 1});
    output.table.Add({{"cluster", label},
                      {"equal stages", Thousands(job.BestOfEqualStages())},
                      {"Astra's plans", Thousands(best.tokens_per_s)},
                      {"strategies", found.strategies},
                      {"that fit", found.fit},
                      {"fastest plan", ToString(best.plan)}});
  }
  output.conclusion = fmt::format(
      "Llama-2-7B, {} sequences of {} tokens, thousands of tokens per second, "
      "simulated: the fastest of all configurations with equal stages of one "
      "type each, and of the first {} plans of the search.",
      training.batch, training.sequence_length, kTop);
  return output;
}

// What uniform recomputation in groups and an optimizer on the host add to its
// search, by its own model.
Output AstraOffload() {
  Output output{.name = "astra_offload"};
  const std::pair<int, std::vector<int>> settings[] = {
      {0, {8, 64}}, {1, {8, 64}}, {2, {16, 32, 64}}, {6, {32, 64}}};
  for (const auto& [index, sizes] : settings) {
    for (const int gpus : sizes) {
      const auto& [label, model] = kModels.at(index);
      const Job job(model, {Hosts("A800", gpus)});
      plots::Row row = {{"model", label}, {"GPUs", gpus}};
      planners::PlanSearchResult last;
      for (const auto& [name, search] :
           {std::pair("strategies", planners::PlanSearchOptions{.top = 1}),
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
  }
  output.conclusion = fmt::format(
      "By Astra's cost model, on A800: recomputation of the first layers of a "
      "stage; also of all layers in groups; also an optimizer on the host. "
      "Thousands of tokens per second; {} sequences of {} tokens.",
      Training().batch, Training().sequence_length);
  return output;
}

}  // namespace

std::vector<Output> AstraPlanOutputs() {
  return {AstraHalves(), AstraClusters(), AstraScale(),
          AstraMixed(),  AstraOffload(),  MixedMeasured()};
}

}  // namespace studies
