#include "methods/planners/nnscaler/pipeline_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "methods/planners/aceso/uniform_plan.h"
#include "methods/planners/alpa/alpa.h"

namespace methods {
namespace {

using surrogates::OperatorChoice;
using surrogates::OperatorModel;
using surrogates::OperatorPlan;
using surrogates::OperatorProfile;
using surrogates::StageView;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One size of the search: a pipeline of some GPUs, replicated on the others.
struct PipelineSize {
  int gpus = 1;  // of one pipeline
  int replicas = 1;
  int micro_batch = 1;  // sequences of a microbatch of one pipeline
  int microbatches = 1;
  bool recompute = false;
};

// The choices of a stage, and their estimates.
struct Stage {
  double ms = kInfinity;
  double last_mb = kInfinity;  // as the last stage
  double more_mb = 0.0;        // for each stage behind it
  std::vector<OperatorChoice> choices;
};

// The best rest of a pipeline from a layer on.
struct Rest {
  double slowest_ms = kInfinity;
  int end = 0;   // layer after its first stage
  int gpus = 0;  // of its first stage
};

// Forward time on one GPU, from the least tp that is profiled.
double ForwardUs(const OperatorModel& model, int op, int micro_batch) {
  for (int log2 = 0; (1 << log2) <= model.table().largest_tp(); ++log2) {
    const OperatorProfile* profile = model.Profile(
        op, micro_batch, {static_cast<std::uint8_t>(log2), 0, 0, 0});
    if (profile != nullptr) {
      return profile->forward_us * (1 << log2);
    }
  }
  return std::nan("");
}

class PipelineSearch {
 public:
  PipelineSearch(const OperatorModel& model,
                 const PlanConstraints& constraints,
                 const PipelineSize& size,
                 double limit_mb)
      : model_(model),
        constraints_(constraints),
        size_(size),
        limit_mb_(limit_mb),
        most_gpus_of_stage_(std::min({constraints.most_gpus_of_stage,
                                      model.job().gpus_per_node,
                                      size.gpus})),
        cuts_(LayersOf(model)) {
    if (cuts_.empty() || cuts_.front() > 0) {
      cuts_.insert(cuts_.begin(), 0);
    }
    // What precedes the layers is in the first stage, with a layer.
    if (cuts_.size() > 1 && !model.TraitsOf(0).begins_layer) {
      cuts_.erase(cuts_.begin() + 1);
    }
    cuts_.push_back(model.operators());
    forward_us_.push_back(0.0);
    for (int op = 0; op < model.operators(); ++op) {
      forward_us_.push_back(forward_us_.back() +
                            ForwardUs(model, op, size.micro_batch));
    }
  }

  std::optional<ConstrainedPlan> Best() {
    const int most = std::min(
        MostStages(constraints_, size_.microbatches, size_.gpus), Layers());
    rests_.assign(
        static_cast<std::size_t>(most) + 1,
        std::vector<std::vector<Rest>>(static_cast<std::size_t>(size_.gpus) + 1,
                                       std::vector<Rest>(cuts_.size())));
    double best_ms = kInfinity;
    int best_stages = 0;
    for (int stages = 1; stages <= most; ++stages) {
      Solve(stages);
      const double ms = (size_.microbatches + stages - 1) *
                        RestOf(stages, size_.gpus, 0).slowest_ms;
      if (ms < best_ms) {
        best_ms = ms;
        best_stages = stages;
      }
    }
    if (best_stages == 0) {
      return std::nullopt;
    }
    ConstrainedPlan best{Rebuilt(best_stages), best_ms, 0.0};
    best.memory_mb = model_.Cost(best.plan).memory_mb;
    return best;
  }

  [[nodiscard]] std::int64_t solved() const { return solved_; }

 private:
  [[nodiscard]] int Layers() const {
    return static_cast<int>(cuts_.size()) - 1;
  }
  [[nodiscard]] int Operator(int layer) const {
    return cuts_[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] Rest& RestOf(int stages, int gpus, int begin) {
    return rests_[static_cast<std::size_t>(stages)][static_cast<std::size_t>(
        gpus)][static_cast<std::size_t>(begin)];
  }

  [[nodiscard]] bool IsBalancedStage(int begin, int end, int gpus) const {
    const auto sum = [this](int a, int b) {
      return forward_us_[static_cast<std::size_t>(b)] -
             forward_us_[static_cast<std::size_t>(a)];
    };
    const double share = sum(Operator(begin), Operator(end)) / gpus /
                         (sum(0, model_.operators()) / size_.gpus);
    return std::isnan(share) || IsBalanced(constraints_, share);
  }

  // The stage of these layers; stages of the same operators are one.
  const Stage& StageOf(int begin, int end, int gpus) {
    const std::array<int, 4> key = {
        begin == 0 ? 1 : 0, end == Layers() ? 1 : 0, end - begin, gpus};
    const auto [at, is_new] = stages_.try_emplace(key);
    if (is_new) {
      ++solved_;
      at->second = Solved(begin, end, gpus);
    }
    return at->second;
  }

  Stage Solved(int begin, int end, int gpus) const {
    Stage stage;
    stage.choices =
        IntraOperator(model_,
                      Operator(begin),
                      Operator(end),
                      size_.micro_batch,
                      gpus,
                      size_.recompute,
                      [this](int op, const OperatorChoice& choice) {
                        return Allows(constraints_, model_, op, choice);
                      });
    if (stage.choices.empty()) {
      return stage;
    }
    StageView view;
    view.begin = Operator(begin);
    view.end = Operator(end);
    view.micro_batch = size_.micro_batch;
    view.choices = stage.choices;
    view.input_between_hosts = begin > 0 && gpus >= model_.job().gpus_per_node;
    view.output_between_hosts =
        end < Layers() && gpus >= model_.job().gpus_per_node;
    stage.ms = model_.Cost(view).total_ms();
    stage.last_mb = model_.MemoryMb(view);
    view.behind = 1;
    stage.more_mb = model_.MemoryMb(view) - stage.last_mb;
    return stage;
  }

  // The best rests of exactly so many stages.
  void Solve(int stages) {
    for (int begin = 0; begin < Layers(); ++begin) {
      for (int end = begin + 1; end <= Layers(); ++end) {
        if ((stages == 1) != (end == Layers())) {
          continue;
        }
        for (int gpus = 1; gpus <= most_gpus_of_stage_; gpus *= 2) {
          if (!IsBalancedStage(begin, end, gpus)) {
            continue;
          }
          const Stage& stage = StageOf(begin, end, gpus);
          if (stage.last_mb + (stages - 1) * stage.more_mb <= limit_mb_) {
            Join(stages, begin, end, gpus, stage.ms);
          }
        }
      }
    }
  }

  // Where each stage of a rest is balanced, so is the rest as a whole.
  void Join(int stages, int begin, int end, int gpus, double ms) {
    const int least = gpus + stages - 1;
    const int most =
        std::min(size_.gpus, gpus + (stages - 1) * most_gpus_of_stage_);
    for (int all = least; all <= most; ++all) {
      if (!IsBalancedStage(begin, Layers(), all)) {
        continue;
      }
      const double slowest_ms =
          stages == 1
              ? ms
              : std::max(ms, RestOf(stages - 1, all - gpus, end).slowest_ms);
      Rest& rest = RestOf(stages, all, begin);
      if (slowest_ms < rest.slowest_ms) {
        rest = {slowest_ms, end, gpus};
      }
    }
  }

  // The plan on all GPUs: replicas are data parallelism of every operator.
  OperatorPlan Rebuilt(int stages) {
    const auto replicas_log2 = static_cast<std::uint8_t>(
        std::countr_zero(static_cast<unsigned>(size_.replicas)));
    OperatorPlan plan;
    plan.micro_batch = size_.micro_batch * size_.replicas;
    int begin = 0;
    int gpus = size_.gpus;
    for (; stages > 0; --stages) {
      const Rest& rest = RestOf(stages, gpus, begin);
      plan.first.push_back(Operator(begin));
      for (OperatorChoice choice :
           StageOf(begin, rest.end, rest.gpus).choices) {
        choice.dp_log2 =
            static_cast<std::uint8_t>(choice.dp_log2 + replicas_log2);
        plan.choices.push_back(choice);
      }
      begin = rest.end;
      gpus -= rest.gpus;
    }
    plan.first.push_back(model_.operators());
    return plan;
  }

  const OperatorModel& model_;
  const PlanConstraints& constraints_;
  PipelineSize size_;
  double limit_mb_;
  int most_gpus_of_stage_;
  std::vector<int> cuts_;           // operators, the end included
  std::vector<double> forward_us_;  // of the first operators
  std::map<std::array<int, 4>, Stage> stages_;
  std::vector<std::vector<std::vector<Rest>>> rests_;
  std::int64_t solved_ = 0;
};

// All sizes of a pipeline, its replicas and its microbatches.
std::vector<PipelineSize> SizesOf(const OperatorModel& model) {
  std::vector<PipelineSize> sizes;
  const surrogates::OperatorJob& job = model.job();
  for (int replicas = 1; replicas <= job.gpus; replicas *= 2) {
    const int most = job.gpus / replicas * model.table().micro_batches().back();
    for (int micro_batch = 1; micro_batch <= most; micro_batch *= 2) {
      if (job.gpus % replicas != 0 ||
          job.batch % (replicas * micro_batch) != 0) {
        continue;
      }
      for (const bool recompute : {false, true}) {
        sizes.push_back({job.gpus / replicas,
                         replicas,
                         micro_batch,
                         job.batch / (replicas * micro_batch),
                         recompute});
      }
    }
  }
  return sizes;
}

}  // namespace

double PipelineMs(const std::vector<double>& stage_ms, int microbatches) {
  return (microbatches + static_cast<int>(stage_ms.size()) - 1) *
         *std::max_element(stage_ms.begin(), stage_ms.end());
}

ConstrainedSearch SearchUnderConstraints(const OperatorModel& model,
                                         const PlanConstraints& constraints,
                                         bool fit) {
  ConstrainedSearch result;
  for (const PipelineSize& size : SizesOf(model)) {
    PipelineSearch search(model,
                          constraints,
                          size,
                          fit ? model.job().memory_limit_mb : kInfinity);
    if (auto best = search.Best()) {
      result.plans.push_back(*std::move(best));
    }
    result.stages += search.solved();
  }
  std::stable_sort(result.plans.begin(),
                   result.plans.end(),
                   [](const auto& a, const auto& b) {
                     return a.iteration_ms < b.iteration_ms;
                   });
  return result;
}

}  // namespace methods
