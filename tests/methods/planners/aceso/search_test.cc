#include "methods/planners/aceso/search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/hash.h"
#include "methods/planners/aceso/primitives.h"
#include "tests/methods/planners/aceso/small_model.h"

namespace methods::search_test {

constexpr double kUnlimited = 1e9;

TEST(SearchAceso, ImprovesInAtMostAsManyHopsAsAllowed) {
  int longest = 0;
  std::int64_t single_hops = 0;
  std::int64_t first_bottlenecks = 0;
  for (const double limit_mb : {150.0, 200.0, 300.0, kUnlimited}) {
    const OperatorModel model = SmallModel(6, 6, limit_mb);
    for (const int most_hops : {1, 2, 7}) {
      for (const AcesoTrace& trace :
           SearchAceso(model, {.most_hops = most_hops, .budget = 400}).traces) {
        ASSERT_EQ(trace.hops.size(), trace.bottlenecks.size());
        single_hops += std::count(trace.hops.begin(), trace.hops.end(), 1);
        first_bottlenecks +=
            std::count(trace.bottlenecks.begin(), trace.bottlenecks.end(), 1);
        for (std::size_t i = 0; i < trace.hops.size(); ++i) {
          EXPECT_GE(trace.hops[i], 1);
          EXPECT_LE(trace.hops[i], most_hops);
          EXPECT_GE(trace.bottlenecks[i], 1);
          EXPECT_LE(trace.bottlenecks[i], trace.stages);
          longest = std::max(longest, trace.hops[i]);
        }
        for (std::size_t i = 1; i < trace.progress.size(); ++i) {
          EXPECT_LT(trace.progress[i].iteration_ms,
                    trace.progress[i - 1].iteration_ms);
          EXPECT_GE(trace.progress[i].explored, trace.progress[i - 1].explored);
        }
      }
    }
  }
  EXPECT_GE(longest, 3);
  EXPECT_GE(single_hops, 1);
  EXPECT_GE(first_bottlenecks, 1);
}

// Each search keeps its plans that were the best when they were found.
TEST(SearchAceso, ReturnsTheFastestPlansOfAllNumbersOfStages) {
  const OperatorModel model = SmallModel(6, 4, 400.0);
  for (const int top : {1, 3, 50}) {
    const AcesoResult result = SearchAceso(model, {.budget = 400, .top = top});
    ASSERT_FALSE(result.best.empty());
    double fastest = std::numeric_limits<double>::infinity();
    std::size_t improvements = 0;
    for (const AcesoTrace& trace : result.traces) {
      improvements += trace.progress.size();
      if (!trace.progress.empty()) {
        fastest = std::min(fastest, trace.progress.back().iteration_ms);
      }
    }
    ASSERT_EQ(result.best.size(),
              std::min(static_cast<std::size_t>(top), improvements));
    EXPECT_EQ(result.best[0].cost.iteration_ms, fastest);
    for (std::size_t i = 0; i < result.best.size(); ++i) {
      EXPECT_LE(result.best[i].cost.memory_mb, 400.0);
      EXPECT_DOUBLE_EQ(model.Cost(result.best[i].plan).iteration_ms,
                       result.best[i].cost.iteration_ms);
      EXPECT_GE(result.best[i].cost.iteration_ms,
                result.best[i == 0 ? 0 : i - 1].cost.iteration_ms);
    }
  }
}

// Of all plans, a search of unlimited budget evaluates no more than there are,
// and a search of a limited one continues it: its progress is the beginning.
TEST(SearchAceso, ALargerBudgetContinuesTheSameSearch) {
  const OperatorModel model = SmallModel(4, 4, 400.0);
  const AcesoResult all = SearchAceso(model, {.budget = 3000});
  for (const int budget : {1, 10, 60, 300}) {
    const AcesoResult part = SearchAceso(model, {.budget = budget});
    for (std::size_t i = 0; i < part.traces.size(); ++i) {
      const AcesoTrace& trace = part.traces[i];
      if (trace.explored < budget) {  // it ended by itself
        EXPECT_EQ(trace.explored, all.traces[i].explored);
      }
      ASSERT_LE(trace.progress.size(), all.traces[i].progress.size());
      for (std::size_t j = 0; j < trace.progress.size(); ++j) {
        EXPECT_EQ(trace.progress[j].iteration_ms,
                  all.traces[i].progress[j].iteration_ms);
        EXPECT_EQ(trace.progress[j].explored,
                  all.traces[i].progress[j].explored);
      }
    }
  }
}

TEST(SearchAceso, WhereNothingFitsReturnsThePlanWithTheLeastMemory) {
  const OperatorModel model = SmallModel(4, 2, 10.0);
  const AcesoResult result = SearchAceso(model, {.budget = 300});
  EXPECT_TRUE(result.best.empty());
  ASSERT_EQ(result.least_memory.size(), 1u);
  for (const int stages : {1, 2}) {
    OperatorPlan even;
    ASSERT_TRUE(EvenPlan(model, stages, even));
    FitRecomputation(model, even);
    EXPECT_LE(result.least_memory[0].cost.memory_mb,
              model.Cost(even).memory_mb);
  }
}

// Primitives in random order find what the heuristic order finds, in other
// orders for other seeds.
TEST(SearchAceso, ARandomOrderIsAFunctionOfTheSeed) {
  const OperatorModel model = SmallModel(6, 4, 400.0);
  const auto progress = [&](std::uint64_t seed) {
    std::vector<std::int64_t> explored;
    for (const AcesoTrace& trace :
         SearchAceso(model, {.budget = 300, .random_order = true, .seed = seed})
             .traces) {
      for (const AcesoProgress& each : trace.progress) {
        explored.push_back(each.explored);
      }
    }
    return explored;
  };
  EXPECT_EQ(progress(1), progress(1));
  EXPECT_NE(progress(1), progress(2));
  ASSERT_FALSE(progress(1).empty());
  const double heuristic =
      SearchAceso(model, {.budget = 2000}).best[0].cost.iteration_ms;
  const double random =
      SearchAceso(model, {.budget = 2000, .random_order = true})
          .best[0]
          .cost.iteration_ms;
  EXPECT_NEAR(random / heuristic, 1.0, 0.1);
}

// Algorithms 1 and 2, written with sorted lists.
class PlainSearch {
 public:
  PlainSearch(const OperatorModel& model, const AcesoOptions& options,
              int stages)
      : model_(model),
        options_(options),
        random_(common::DeriveSeed(
            "aceso", options.seed + static_cast<unsigned>(stages))) {
    trace_.stages = stages;
    OperatorPlan even;
    if (EvenPlan(model, stages, even)) {
      FitRecomputation(model, even);
      From(Costed(model, even));
    }
  }
  [[nodiscard]] const AcesoTrace& trace() const { return trace_; }

 private:
  using Scored = std::pair<std::pair<bool, double>, CostedPlan>;

  // Behind the plans that are as good.
  static void Insert(const Scored& plan, std::vector<Scored>& plans) {
    auto place = plans.begin();
    while (place != plans.end() && place->first <= plan.first) {
      ++place;
    }
    plans.insert(place, plan);
  }

  void From(CostedPlan plan) {
    Improve(plan);
    while (trace_.explored < options_.budget) {
      std::optional<CostedPlan> next = Better(plan);
      if (next) {
        plan = *next;
        if (options_.fine_tune && Fits(model_, plan.cost)) {
          plan = FineTune(model_, plan, trace_.explored);
        }
        Improve(plan);
      } else if (!later_.empty()) {
        plan = later_.front().second;
        later_.erase(later_.begin());
      } else {
        return;
      }
    }
  }

  void Improve(const CostedPlan& plan) {
    seen_.push_back(plan.plan);
    if (seen_.size() > 1 && Score(model_, plan.cost) >= best_) {
      return;
    }
    best_ = Score(model_, plan.cost);
    if (Fits(model_, plan.cost)) {
      trace_.progress.push_back({trace_.explored, plan.cost.iteration_ms});
    }
  }

  std::optional<CostedPlan> Better(const CostedPlan& plan) {
    int tried = 0;
    for (const int stage : BottlenecksOf(model_, plan.cost)) {
      ++tried;
      if (auto better = Hop(plan, stage, 1)) {
        trace_.bottlenecks.push_back(tried);
        return better;
      }
    }
    return std::nullopt;
  }

  std::optional<CostedPlan> Hop(const CostedPlan& plan, int stage, int hop) {
    if (hop > options_.most_hops || trace_.explored >= options_.budget) {
      return std::nullopt;
    }
    for (const auto& group : Groups(plan, stage)) {
      std::vector<Scored> next = Next(plan, stage, group);
      if (!next.empty() && next.front().first < best_) {
        trace_.hops.push_back(hop);
        Later({next.begin() + 1, next.end()});
        return next.front().second;
      }
      for (const Scored& each : next) {
        const int worst = BottlenecksOf(model_, each.second.cost).front();
        if (auto better = Hop(each.second, worst, hop + 1)) {
          return better;
        }
      }
      Later(next);
    }
    return std::nullopt;
  }

  // New plans by one primitive each, best first.
  std::vector<Scored> Next(const CostedPlan& plan, int stage,
                           const std::vector<PrimitiveKind>& group) {
    std::vector<Scored> found;
    for (const PrimitiveKind kind : group) {
      auto next = Apply(model_, plan, stage, kind, trace_.explored);
      if (next &&
          std::find(seen_.begin(), seen_.end(), next->plan) == seen_.end()) {
        seen_.push_back(next->plan);
        Insert({Score(model_, next->cost), *next}, found);
      }
    }
    return found;
  }

  std::vector<std::vector<PrimitiveKind>> Groups(const CostedPlan& plan,
                                                 int stage) {
    if (!options_.random_order) {
      return PrimitiveGroups(model_, plan.cost, stage);
    }
    std::vector<std::vector<PrimitiveKind>> groups;
    for (const Primitive& primitive : Primitives()) {
      groups.push_back({primitive.kind});
    }
    for (std::size_t last = groups.size() - 1; last != 0; --last) {
      std::swap(groups[last], groups[random_() % (last + 1)]);
    }
    return groups;
  }

  // Plans at most 20% slower than the best one that fit as it does; the 1,000
  // best of them.
  void Later(const std::vector<Scored>& plans) {
    for (const Scored& each : plans) {
      if (each.first.first == best_.first &&
          each.first.second / best_.second < 1.2) {
        Insert(each, later_);
      }
      if (later_.size() > 1000) {
        later_.pop_back();
      }
    }
  }

  const OperatorModel& model_;
  const AcesoOptions& options_;
  std::mt19937_64 random_;
  AcesoTrace trace_;
  std::pair<bool, double> best_;
  std::vector<OperatorPlan> seen_;
  std::vector<Scored> later_;
};

TEST(SearchAceso, ExploresWhatThePlainAlgorithmExplores) {
  for (const double limit_mb : {150.0, 300.0, kUnlimited}) {
    const OperatorModel model = SmallModel(6, 4, limit_mb);
    for (const AcesoOptions& options :
         {AcesoOptions{.budget = 2000},
          AcesoOptions{.most_hops = 2, .budget = 2000},
          AcesoOptions{.budget = 500, .fine_tune = false},
          AcesoOptions{.budget = 500, .random_order = true, .seed = 3}}) {
      for (const AcesoTrace& trace : SearchAceso(model, options).traces) {
        const PlainSearch plain(model, options, trace.stages);
        EXPECT_EQ(trace.explored, plain.trace().explored);
        EXPECT_EQ(trace.hops, plain.trace().hops);
        EXPECT_EQ(trace.bottlenecks, plain.trace().bottlenecks);
        ASSERT_EQ(trace.progress.size(), plain.trace().progress.size());
        for (std::size_t i = 0; i < trace.progress.size(); ++i) {
          EXPECT_EQ(trace.progress[i].explored,
                    plain.trace().progress[i].explored);
          EXPECT_EQ(trace.progress[i].iteration_ms,
                    plain.trace().progress[i].iteration_ms);
        }
      }
    }
  }
}

}  // namespace methods::search_test
