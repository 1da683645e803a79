#include "planners/plan_moves.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/statistics.h"
#include "methods/acquisition.h"
#include "methods/surrogate_pair.h"
#include "trials/knobs.h"

namespace planners {
namespace {

using trials::ParallelConfig;
using trials::Plan;

bool Recomputes(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const trials::PlanStage& stage) {
    return stage.recomputed_layers > 0;
  });
}

// Without the members that have no meaning. Megatron-LM has no selective
// recomputation beside a full one.
Plan Normal(Plan plan) {
  plan.shared.dp = plan.shared.tp = 1;
  plan.shared.micro_batch_size = 0;
  if (Recomputes(plan)) {
    plan.shared.grad_checkpoint = trials::kRecomputeNothing;
  }
  return plan;
}

// The configuration with the sizes of the first stage, and full recomputation
// where a layer is recomputed.
ParallelConfig ConfigOf(const Plan& plan) {
  ParallelConfig config = StageConfig(plan, 0);
  if (Recomputes(plan)) {
    config.grad_checkpoint = trials::kRecomputeFull;
  }
  return trials::Canonical(config);
}

const trials::KnobSet& PlanKnobs() {
  static const trials::KnobSet knobs = [] {
    trials::KnobSet all = trials::BuiltInKnobs();
    for (const char* name :
         {"first stage", "last stage", "largest stage", "recomputed layers",
          "recomputed in the first stage", "layers on the first GPU type"}) {
      all = all.With({.name = name,
                      .label = name,
                      .scale = trials::KnobScale::kLinear,
                      .minimum = 0});
    }
    return all;
  }();
  return knobs;
}

// The point of a plan in a space of PlanKnobs, whose values are in thousandths
// of the mean of virtual stages, or of layers. `place`, which belongs to no
// knob, makes it unique.
ParallelConfig Encoded(const Plan& plan, int place) {
  double layers = 0.0;
  double recomputed = 0.0;
  double on_first_type = 0.0;
  for (int s = 0; s < plan.shared.pp; ++s) {
    layers += StageLayers(plan, s);
    recomputed += plan.stages[s].recomputed_layers;
    on_first_type += plan.stages[s].gpu_type == 0 ? StageLayers(plan, s) : 0;
  }
  const double mean = layers / static_cast<double>(plan.layers.size());
  const auto share = [](double part, double whole) {
    return static_cast<int>(std::lround(1000.0 * part / std::max(1.0, whole)));
  };
  ParallelConfig config = ConfigOf(plan);
  config.custom = {
      share(plan.layers.front(), mean),
      share(plan.layers.back(), mean),
      share(std::ranges::max(plan.layers), mean),
      share(recomputed, layers),
      share(plan.stages.front().recomputed_layers, StageLayers(plan, 0)),
      share(on_first_type, layers),
      0,
      place};
  return config;
}

Plan PlanOf(const methods::Problem& problem, const trials::Trial& trial) {
  if (!trial.IsPlan()) {
    return Normal(PlanOfCandidate(problem, trial.config));
  }
  Plan plan;
  FromText(trial.plan, plan);
  return Normal(std::move(plan));
}

class Moves {
 public:
  Moves(const Plan& from, const methods::Problem& problem)
      : from_(from), problem_(problem) {}

  std::vector<Plan> All() {
    std::vector<std::vector<int>> of_type(problem_.machine.gpu_types().size());
    for (int v = 0; v < std::ssize(from_.layers); ++v) {
      of_type[from_.stages[v % from_.stages.size()].gpu_type].push_back(v);
      if (v > 0) {
        Shift({v - 1}, {v});
        Shift({v}, {v - 1});
      }
    }
    for (const std::vector<int>& from : of_type) {
      for (const std::vector<int>& to : of_type) {
        if (&from != &to && !from.empty() && !to.empty()) {
          Shift(from, to);
        }
      }
    }
    for (int s = from_.shared.pp > 1 ? -1 : 0; s < from_.shared.pp; ++s) {
      Recompute(s);
    }
    return std::move(all_);
  }

 private:
  void Add(const Plan& moved) {
    const Plan plan = Normal(moved);
    const trials::SearchSpace& space = *problem_.space;
    if (space.Find(ConfigOf(from_)) && !space.Find(ConfigOf(plan))) {
      return;
    }
    try {
      CheckPlan(plan, *problem_.workload, problem_.machine.GpusByType());
      all_.push_back(plan);
    } catch (const trials::InvalidPlan&) {
    }
  }

  // Moves layers of the virtual stages `from` to those of `to`. Each stage
  // recomputes the same share of them as before.
  void Shift(const std::vector<int>& from, const std::vector<int>& to) {
    const auto unit = std::lcm(std::ssize(from), std::ssize(to));
    for (const int times : {1, 2, 4}) {
      Plan plan = from_;
      for (const int v : from) {
        plan.layers[v] -= static_cast<int>(times * unit / std::ssize(from));
      }
      for (const int v : to) {
        plan.layers[v] += static_cast<int>(times * unit / std::ssize(to));
      }
      if (std::ranges::min(plan.layers) <= 0) {
        return;
      }
      for (int s = 0; s < plan.shared.pp; ++s) {
        const std::div_t share =
            std::div(plan.stages[s].recomputed_layers * StageLayers(plan, s),
                     std::max(1, StageLayers(from_, s)));
        plan.stages[s].recomputed_layers = share.quot + (share.rem > 0 ? 1 : 0);
      }
      Add(plan);
    }
  }

  // Changes the recomputation of one stage, or of all (-1).
  void Recompute(int stage) {
    constexpr int kParts = 8;
    for (int part = 0; part <= kParts; ++part) {
      Plan plan = from_;
      for (int s = 0; s < plan.shared.pp; ++s) {
        if (stage < 0 || s == stage) {
          plan.stages[s].recomputed_layers =
              part * StageLayers(plan, s) / kParts;
        }
      }
      Add(plan);
    }
  }

  const Plan& from_;
  const methods::Problem& problem_;
  std::vector<Plan> all_;
};

std::vector<ParallelConfig> Encoded(const std::vector<Plan>& plans) {
  std::vector<ParallelConfig> configs;
  for (const Plan& plan : plans) {
    configs.push_back(Encoded(plan, static_cast<int>(configs.size())));
  }
  return configs;
}

// The history of trials of the first points of a space of plans.
methods::History HistoryOf(std::vector<trials::Trial> trials,
                           const trials::SearchSpace& space,
                           const methods::History& like) {
  methods::History history(space.size(), like.throughput_options(),
                           like.weight());
  for (int i = 0; i < std::ssize(trials); ++i) {
    trials[i].candidate = i;
    trials[i].config = space[i];
    trials[i].plan.clear();
    history.Add(trials[i]);
  }
  return history;
}

// The expected improvement of OPPA's choice by its own surrogates; 0 of others.
double ExpectedGain(const methods::Suggestion& suggestion, double best) {
  for (const methods::Suggestion::Fit& fit : suggestion.fits) {
    if (fit.surrogate == "choice") {
      const auto value = [&fit](std::string_view name) {
        return std::ranges::find(fit.summary.parameters, name,
                                 &surrogates::FitSummary::Parameter::name)
            ->value;
      };
      return std::exp(methods::LogExpectedImprovement(
                 value("throughput_mean"),
                 std::sqrt(value("throughput_variance")), best)) *
             common::NormalProbability((1.0 - value("memory_mean")) /
                                       std::sqrt(value("memory_variance")));
    }
  }
  return 0.0;
}

}  // namespace

std::vector<Plan> MovesFrom(const Plan& plan, const methods::Problem& problem) {
  return Moves(plan, problem).All();
}

PlanMoves::PlanMoves(const methods::Problem& problem)
    : problem_(problem),
      model_(problem,
             {.tflops = problem.machine.gpu_types().front().half_flop_per_s /
                        1e12}) {}

bool PlanMoves::BeatsEqualStages(const Plan& plan) {
  constexpr double kFaster = 0.99;
  ParallelConfig config = trials::Canonical(StageConfig(plan, 0));
  try {
    Plan equal = Normal(PlanOfCandidate(problem_, config));
    if (Recomputes(plan) &&
        model_.CostOf(equal).memory_share > most_memory_share_) {
      config.grad_checkpoint = trials::kRecomputeFull;
      equal = Normal(PlanOfCandidate(problem_, config));
    }
    return StepTime(plan) < kFaster * StepTime(equal);
  } catch (const trials::InvalidPlan&) {
    return true;  // equal stages would have GPUs of two types
  }
}

void PlanMoves::AddNeighbours(std::vector<Plan> starts,
                              std::vector<Plan>& plans) {
  constexpr int kHops = 3;
  constexpr std::size_t kStarts = 6;  // of a hop but the first
  constexpr std::size_t kMost = 40;   // of a hop
  constexpr double kSlack = 1.05;     // of memory
  std::set<std::string> seen;
  for (const Plan& plan : plans) {
    seen.insert(ToString(plan));
  }
  for (int hop = 0; hop < kHops; ++hop) {
    std::vector<std::pair<double, Plan>> next;  // with their step times
    for (const Plan& start : starts) {
      for (const Plan& plan : MovesFrom(start, problem_)) {
        const auto [step_time_s, memory_share] = model_.CostOf(plan);
        if (memory_share < kSlack * most_memory_share_ &&
            seen.insert(ToString(plan)).second) {
          next.emplace_back(step_time_s, plan);
        }
      }
    }
    std::ranges::stable_sort(next, {}, &std::pair<double, Plan>::first);
    const std::size_t most = plans.size() + kMost;
    starts.clear();
    for (const auto& [step_time_s, plan] : next) {
      if (plans.size() < most && BeatsEqualStages(plan)) {
        plans.push_back(plan);
      }
      if (starts.size() < kStarts) {
        starts.push_back(plan);
      }
    }
  }
}

std::vector<Plan> PlanMoves::PlansFrom(
    const methods::History& history, const std::vector<trials::Trial>& trials) {
  std::vector<Plan> plans;
  int best = -1;
  int best_candidate = -1;
  const auto improve = [&](int i, int& on) {
    if (on < 0 ||
        history.ValueOf(trials[on]).value < history.ValueOf(trials[i]).value) {
      on = i;
    }
  };
  for (int i = 0; i < std::ssize(trials); ++i) {
    plans.push_back(PlanOf(problem_, trials[i]));
    if (trials[i].HasThroughput()) {
      improve(i, best);
      if (!trials[i].IsPlan()) {
        improve(i, best_candidate);
      }
    }
  }
  most_memory_share_ = 1.0;
  if (const auto& peak = trials[best].measurement.peak_memory_bytes) {
    most_memory_share_ = model_.CostOf(plans[best]).memory_share *
                         problem_.machine.memory_bytes() / *peak;
  }
  std::vector<Plan> starts = {plans[best]};
  if (best_candidate >= 0 && best_candidate != best) {
    starts.push_back(plans[best_candidate]);
  }
  AddNeighbours(std::move(starts), plans);
  return plans;
}

trials::Predictions PlanMoves::Predict(const std::vector<Plan>& plans) {
  trials::Predictions predictions;
  for (const Plan& plan : plans) {
    const auto [step_time_s, memory_share] = model_.CostOf(plan);
    predictions.step_time_s.push_back(step_time_s);
    predictions.peak_memory_bytes.push_back(memory_share *
                                            problem_.machine.memory_bytes());
  }
  return predictions;
}

std::optional<methods::Suggestion> PlanMoves::Suggest(
    const methods::History& history, const methods::Suggestion& instead_of) {
  constexpr double kWorthATrial = 0.01;  // of the best value
  const double best_value = history.best_value();
  if (!(best_value > 0.0)) {
    return std::nullopt;
  }
  std::vector<trials::Trial> trials = history.trials();
  trials.insert(trials.end(), history.plans().begin(), history.plans().end());
  const std::vector<Plan> plans = PlansFrom(history, trials);
  const trials::SearchSpace space(Encoded(plans), PlanKnobs());
  const methods::History known = HistoryOf(std::move(trials), space, history);
  methods::Problem of_plans = problem_;
  of_plans.space = &space;
  of_plans.predict = [&](const std::string& /*source*/) {
    return Predict(plans);
  };
  // A nugget would promise a gain of each of many plans that hardly differ.
  methods::SurrogatePair pair(
      of_plans, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                 .memory_prior = surrogates::CostModelForm::kPredicted,
                 .fit = {.learn_nugget = false}});
  methods::Suggestion move = instead_of;
  move.fits = pair.Fit(known);
  std::vector<char> excluded = known.tried();
  for (std::size_t i = known.trials().size(); i < plans.size(); ++i) {
    excluded[i] = history.HasTried(-1, ToString(plans[i])) ? 1 : 0;
  }
  const methods::SurrogatePair::Choice choice =
      pair.ArgMax({.acquisition = methods::Acquisition::kConstrainedImprovement,
                   .best_value = best_value},
                  excluded);
  const double worth_it =
      std::max(kWorthATrial * best_value, ExpectedGain(instead_of, best_value));
  if (choice.candidate < 0 || std::exp(choice.acquisition) < worth_it) {
    return std::nullopt;
  }
  move.candidate = -1;
  move.outside = plans[choice.candidate];
  return move;
}

}  // namespace planners
