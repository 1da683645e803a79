#include "planners/aceso/search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "common/hash.h"
#include "common/parallel.h"
#include "common/ranges.h"
#include "planners/aceso/conversions.h"
#include "planners/aceso/primitives.h"

namespace planners {
namespace {

using ScoreOf = std::pair<bool, double>;

// Equal plans have equal hashes.
std::uint64_t HashOf(const OperatorPlan& plan) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(values[0]));
  };
  static_assert(sizeof(OperatorChoice) == 4);  // no padding
  const std::uint64_t choices = common::Hash(bytes(plan.choices));
  return common::DeriveSeed(
      bytes(plan.first),
      choices + static_cast<std::uint64_t>(plan.micro_batch));
}

// GPUs of each stage, powers of two up to `most`: as equal as possible or, from
// the last stage on, as many as possible. Empty where they do not add up.
std::vector<int> GpusOfStages(int gpus, int stages, int most, bool equal) {
  std::vector<int> gpus_of(stages, 1);
  int sum = stages;
  for (bool changed = true; sum < gpus && changed;) {
    changed = false;
    for (int s = 0; s < stages && (equal || !changed); ++s) {
      int& each = gpus_of[equal ? s : stages - 1 - s];
      if (each <= gpus - sum && 2 * each <= most) {
        sum += each;
        each *= 2;
        changed = true;
      }
    }
  }
  return sum == gpus ? gpus_of : std::vector<int>();
}

// The search with one number of stages.
class StageSearch {
 public:
  StageSearch(const OperatorModel& model, const AcesoOptions& options,
              int stages, bool replicate)
      : model_(model),
        options_(options),
        replicate_(replicate),
        random_(common::DeriveSeed(
            "aceso", options.seed + static_cast<unsigned>(stages))) {
    trace_.stages = stages;
  }

  void Run() {
    OperatorPlan first;
    if (!FirstPlan(model_, trace_.stages, options_.start, replicate_, first)) {
      return;
    }
    FitRecomputation(model_, first);
    CostedPlan current = Costed(model_, std::move(first));
    Keep(current);
    while (trace_.explored < options_.budget) {
      std::optional<CostedPlan> better = Iterate(current);
      if (better) {
        current = *std::move(better);
        if (Fits(model_, current.cost)) {
          current = FineTune(model_, std::move(current), trace_.explored);
          visited_.insert(HashOf(current.plan));
        }
        Keep(current);
      } else if (!unexplored_.empty()) {
        current = std::move(unexplored_.begin()->second);
        unexplored_.erase(unexplored_.begin());
      } else {
        break;
      }
    }
  }

  [[nodiscard]] const AcesoTrace& trace() const { return trace_; }
  [[nodiscard]] const std::vector<CostedPlan>& best() const { return best_; }

 private:
  // One iteration of Algorithm 1: a better plan than the best one.
  std::optional<CostedPlan> Iterate(const CostedPlan& from) {
    const std::vector<int> bottlenecks = BottlenecksOf(model_, from.cost);
    for (std::size_t i = 0; i < bottlenecks.size(); ++i) {
      hops_ = 0;
      auto better = MultiHop(from, bottlenecks[i], 0);
      if (better) {
        trace_.hops.push_back(hops_);
        trace_.bottlenecks.push_back(static_cast<int>(i) + 1);
        return better;
      }
    }
    return std::nullopt;
  }

  // Algorithm 2.
  std::optional<CostedPlan> MultiHop(const CostedPlan& from, int bottleneck,
                                     int hop) {
    if (hop == options_.most_hops || trace_.explored >= options_.budget) {
      return std::nullopt;
    }
    for (const auto& group : GroupsOf(from, bottleneck)) {
      std::vector<std::pair<ScoreOf, CostedPlan>> found;
      for (const PrimitiveKind kind : group) {
        auto next = Apply(model_, from, bottleneck, kind, trace_.explored);
        if (next && visited_.insert(HashOf(next->plan)).second) {
          const ScoreOf score = Score(model_, next->cost);
          found.emplace_back(score, *std::move(next));
        }
      }
      // Best performance first.
      std::ranges::stable_sort(found, {},
                               &std::pair<ScoreOf, CostedPlan>::first);
      if (!found.empty() && found[0].first < best_score_) {
        hops_ = hop + 1;
        CostedPlan better = std::move(found[0].second);
        found.erase(found.begin());
        Postpone(std::move(found));
        return better;
      }
      for (auto& [score, plan] : found) {
        const std::vector<int> order = BottlenecksOf(model_, plan.cost);
        auto better = MultiHop(plan, order[0], hop + 1);
        if (better) {
          return better;
        }
      }
      Postpone(std::move(found));
    }
    return std::nullopt;
  }

  std::vector<std::vector<PrimitiveKind>> GroupsOf(const CostedPlan& from,
                                                   int bottleneck) {
    if (!options_.random_order) {
      return PrimitiveGroups(model_, from.cost, bottleneck);
    }
    std::vector<std::vector<PrimitiveKind>> groups;
    for (const Primitive& primitive : Primitives()) {
      groups.push_back({primitive.kind});
    }
    for (std::size_t i = groups.size(); i > 1; --i) {
      std::swap(groups[i - 1], groups[random_() % i]);
    }
    return groups;
  }

  // Keeps plans to continue from, if they are at most 20% slower than the best
  // one, as the published program does.
  void Postpone(std::vector<std::pair<ScoreOf, CostedPlan>>&& plans) {
    constexpr std::size_t kMost = 1000;
    for (auto& each : plans) {
      if (each.first.first == best_score_.first &&
          each.first.second < 1.2 * best_score_.second) {
        unexplored_.insert(std::move(each));
        if (unexplored_.size() > kMost) {
          unexplored_.erase(std::prev(unexplored_.end()));
        }
      }
    }
  }

  void Keep(const CostedPlan& plan) {
    visited_.insert(HashOf(plan.plan));
    const ScoreOf score = Score(model_, plan.cost);
    if (best_.empty() || score < best_score_) {
      best_score_ = score;
      best_.insert(best_.begin(), plan);
      if (best_.size() > static_cast<std::size_t>(options_.top)) {
        best_.pop_back();
      }
      if (!score.first) {
        trace_.progress.push_back({trace_.explored, score.second});
      }
    }
  }

  const OperatorModel& model_;
  const AcesoOptions& options_;
  bool replicate_;  // see FirstPlan
  std::mt19937_64 random_;
  AcesoTrace trace_;
  std::vector<CostedPlan> best_;  // fastest first
  ScoreOf best_score_ = {true, 0.0};
  int hops_ = 0;  // of the last improvement
  std::unordered_set<std::uint64_t> visited_;
  std::multimap<ScoreOf, CostedPlan> unexplored_;
};

}  // namespace

std::int64_t AcesoResult::explored() const {
  const auto explored = common::Map(traces, &AcesoTrace::explored);
  return std::accumulate(explored.begin(), explored.end(), std::int64_t{0});
}

bool FirstPlan(const OperatorModel& model, int stages, AcesoStart start,
               bool replicate, OperatorPlan& plan) {
  const int gpus = model.job().gpus;
  const int most_tp = model.table().largest_tp();
  const int most_stages = start == AcesoStart::kUnevenOperators
                              ? static_cast<int>(LayersOf(model).size())
                              : model.operators();
  if (stages > gpus || stages > most_stages) {
    return false;
  }
  std::vector<int> begins;
  for (int s = 0; s < stages; ++s) {
    begins.push_back(s == 0 || start != AcesoStart::kUnevenOperators
                         ? s * (model.operators() / stages)
                         : LayersOf(model)[s]);
  }
  begins.push_back(model.operators());
  const std::vector<int> gpus_of =
      GpusOfStages(gpus, stages, replicate ? gpus : most_tp,
                   start != AcesoStart::kUnevenGpus);
  if (gpus_of.empty()) {
    return false;
  }
  const int most_dp = std::max(1, *std::ranges::max_element(gpus_of) / most_tp);
  plan = {};
  plan.micro_batch = most_dp * model.table().micro_batches().front();
  if (model.job().batch % plan.micro_batch != 0) {
    return false;
  }
  for (int s = 0; s < stages; ++s) {
    const int tp = std::min(gpus_of[s], most_tp);
    plan.Append(begins[s], std::vector<OperatorChoice>(
                               begins[s + 1] - begins[s],
                               OperatorChoice::Of(tp, gpus_of[s] / tp)));
  }
  plan.first.push_back(model.operators());
  return std::isfinite(model.Cost(plan).iteration_ms);
}

namespace {

// The searches with every number of stages.
std::vector<StageSearch> SearchStages(const OperatorModel& model,
                                      const AcesoOptions& options,
                                      bool replicate) {
  const int most = std::min(model.job().gpus, options.most_stages);
  std::vector<StageSearch> searches;
  for (int stages = 1; stages <= most; ++stages) {
    searches.emplace_back(model, options, stages, replicate);
  }
  common::ParallelFor(most, options.threads,
                      [&](int /*worker*/, int i) { searches[i].Run(); });
  return searches;
}

}  // namespace

AcesoResult SearchAceso(const OperatorModel& model,
                        const AcesoOptions& options) {
  std::vector<StageSearch> searches = SearchStages(model, options, false);
  if (std::ranges::all_of(
          searches, [](const auto& search) { return search.best().empty(); })) {
    searches = SearchStages(model, options, true);
  }
  AcesoResult result;
  std::vector<CostedPlan> all;
  for (const StageSearch& search : searches) {
    result.traces.push_back(search.trace());
    all.insert(all.end(), search.best().begin(), search.best().end());
  }
  std::ranges::stable_sort(
      all, {}, [&](const CostedPlan& plan) { return Score(model, plan.cost); });
  for (const CostedPlan& plan : all) {
    if (Fits(model, plan.cost)) {
      result.best.push_back(plan);
    }
  }
  if (result.best.empty() && !all.empty()) {
    result.least_memory.push_back(all.front());
  }
  if (result.best.size() > static_cast<std::size_t>(options.top)) {
    result.best.resize(options.top);
  }
  return result;
}

}  // namespace planners
