#include "methods/planners/alpa/alpa.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/units.h"
#include "methods/planners/aceso/uniform_plan.h"

namespace methods {
namespace {

using common::kInfinity;

// The best rest of the model from a cluster on, with so many GPUs and stages.
struct Remainder {
  double sum_ms = kInfinity;
  int end = 0;      // cluster after its first stage
  int submesh = 0;  // of its first stage, an index
};

class InterOperator {
 public:
  InterOperator(const OperatorModel& model, const AlpaOptions& options,
                int micro_batch, bool recompute, BaselineResult& result)
      : model_(model),
        micro_batch_(micro_batch),
        recompute_(recompute),
        result_(result) {
    const std::vector<int> layers = LayersOf(model);
    const int count = static_cast<int>(layers.size());
    const int clusters = std::min(count, options.clusters);
    for (int i = 0; i < clusters; ++i) {
      cuts_.push_back(i == 0 ? 0 : layers[i * count / clusters]);
    }
    cuts_.push_back(model.operators());
    for (int gpus = 1; gpus <= model.job().gpus; gpus *= 2) {
      if (gpus <= model.job().gpus_per_node ||
          gpus % model.job().gpus_per_node == 0) {
        submeshes_.push_back(gpus);
      }
    }
  }

  void Run() {
    FillStages();
    std::vector<double> bounds;
    for (const SolvedStage& stage : stages_) {
      if (std::isfinite(stage.ms)) {
        bounds.push_back(stage.ms);
      }
    }
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    const int microbatches = model_.job().batch / micro_batch_;
    double best_ms = kInfinity;
    for (const double bound : bounds) {
      // Every stage takes at most the bound, and one takes as long: no later
      // bound is better.
      if (microbatches * bound >= best_ms) {
        break;
      }
      for (int stages = 1; stages <= Clusters(); ++stages) {
        const double sum = Solve(bound, stages);
        const double ms = sum + (microbatches - 1) * bound;
        if (ms < best_ms) {
          best_ms = ms;
          best_ = Rebuilt(stages);
        }
      }
    }
    if (!best_.choices.empty()) {
      result_.Keep(model_, best_);
    }
  }

 private:
  [[nodiscard]] int Clusters() const {
    return static_cast<int>(cuts_.size()) - 1;
  }
  [[nodiscard]] int Operator(int cluster) const { return cuts_[cluster]; }
  [[nodiscard]] SolvedStage& At(int begin, int end, std::size_t submesh) {
    const auto size = cuts_.size();
    return stages_[(static_cast<std::size_t>(begin) * size +
                    static_cast<std::size_t>(end)) *
                       submeshes_.size() +
                   submesh];
  }
  [[nodiscard]] Remainder& RestOf(int stages, int begin, int gpus) {
    const auto clusters = cuts_.size();
    const auto all = static_cast<std::size_t>(model_.job().gpus) + 1;
    return rests_[(static_cast<std::size_t>(stages) * clusters +
                   static_cast<std::size_t>(begin)) *
                      all +
                  static_cast<std::size_t>(gpus)];
  }

  [[nodiscard]] StageView ViewOf(int begin, int end, int gpus) const {
    // Smaller stages are taken to be within a host, where their place is open.
    const bool whole_host = gpus >= model_.job().gpus_per_node;
    return {.begin = Operator(begin),
            .end = Operator(end),
            .micro_batch = micro_batch_,
            .input_between_hosts = whole_host && begin > 0,
            .output_between_hosts = whole_host || end == Clusters()};
  }

  void FillStages() {
    const auto size = cuts_.size();
    stages_.assign(size * size * submeshes_.size(), {});
    rests_.assign(
        size * size * (static_cast<std::size_t>(model_.job().gpus) + 1), {});
    for (int begin = 0; begin < Clusters(); ++begin) {
      for (int end = begin + 1; end <= Clusters(); ++end) {
        for (std::size_t m = 0; m < submeshes_.size(); ++m) {
          ++result_.explored;
          At(begin, end, m) =
              SolveStage(model_, ViewOf(begin, end, submeshes_[m]),
                         submeshes_[m], recompute_);
        }
      }
    }
  }

  // The least sum of exactly so many stages, each at most the bound, given that
  // Solve was called with fewer stages and the same bound. Rests of lower
  // bounds are replaced only by better ones, as they obey this one too.
  double Solve(double bound, int stages) {
    const int gpus = model_.job().gpus;
    for (int begin = 0; begin < Clusters(); ++begin) {
      for (int end = begin + 1; end <= Clusters(); ++end) {
        if ((stages == 1) != (end == Clusters())) {
          continue;
        }
        for (std::size_t m = 0; m < submeshes_.size(); ++m) {
          const SolvedStage& stage = At(begin, end, m);
          if (stage.ms <= bound &&
              stage.MemoryMb(stages - 1) <= model_.job().memory_limit_mb) {
            Join(stages, begin, end, m, stage.ms);
          }
        }
      }
    }
    return RestOf(stages, 0, gpus).sum_ms;
  }

  void Join(int stages, int begin, int end, std::size_t submesh, double ms) {
    const int gpus = submeshes_[submesh];
    for (int all = gpus; all <= model_.job().gpus; ++all) {
      if (stages == 1 && all != gpus) {
        break;
      }
      const double sum =
          ms + (stages == 1 ? 0.0 : RestOf(stages - 1, end, all - gpus).sum_ms);
      Remainder& best = RestOf(stages, begin, all);
      if (sum < best.sum_ms) {
        best = {sum, end, static_cast<int>(submesh)};
      }
    }
  }

  OperatorPlan Rebuilt(int stages) {
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    int begin = 0;
    int gpus = model_.job().gpus;
    for (; stages > 0; --stages) {
      const Remainder& rest = RestOf(stages, begin, gpus);
      const auto submesh = static_cast<std::size_t>(rest.submesh);
      const SolvedStage& stage = At(begin, rest.end, submesh);
      plan.first.push_back(Operator(begin));
      plan.choices.insert(plan.choices.end(), stage.choices.begin(),
                          stage.choices.end());
      begin = rest.end;
      gpus -= submeshes_[submesh];
    }
    plan.first.push_back(model_.operators());
    return plan;
  }

  const OperatorModel& model_;
  int micro_batch_;
  bool recompute_;
  BaselineResult& result_;
  std::vector<int> cuts_;            // operators, the end included
  std::vector<int> submeshes_;       // their GPUs
  std::vector<SolvedStage> stages_;  // by begin, end, submesh
  std::vector<Remainder> rests_;     // by stages, begin, GPUs
  OperatorPlan best_;
};

}  // namespace

BaselineResult AlpaPlan(const OperatorModel& model,
                        const AlpaOptions& options) {
  BaselineResult result;
  for (int micro_batch = model.table().micro_batches().front();
       micro_batch <= model.table().micro_batches().back() * model.job().gpus &&
       model.job().batch % micro_batch == 0;
       micro_batch *= 2) {
    for (const bool recompute : {false, true}) {
      InterOperator(model, options, micro_batch, recompute, result).Run();
    }
  }
  return result;
}

}  // namespace methods
