// What a whole training takes on machines to choose from: days, money, energy.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json.h"
#include "jobs/plan/forecast.h"
#include "plots/table.h"

namespace jobs {

// What is assumed of a training besides its steps.
struct TrainingAssumptions {
  double tokens = 0.0;  // of the whole training, > 0
  // USD of a GPU hour, by the name of --gpu; "": of every kind.
  std::map<std::string, double> prices;
  double grams_co2_per_kwh = 0.0;  // 0: unknown
  // Interruptions that no one planned. The default: 419 in 54 days of 16,384
  // GPUs (Llama 3 405B).
  double failures_per_gpu_day = 4.7e-4;
  double restart_minutes = 10.0;  // until steps go on
  // Writing of a checkpoint. All nodes write, each its part.
  double storage_gb_per_s_per_node = 1.0;

  // Of this kind of GPU; 0: unknown.
  [[nodiscard]] double PriceOf(const std::string& kind) const;
};

// The best interval between checkpoints, and the expected share of the time in
// which steps are trained that count. `failure_s`: the mean time between
// failures of the whole machine.
// Source: Daly 2006, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", Eqs. 20 and 37, for failures that follow an
// exponential distribution.
struct Goodput {
  double interval_s = 0.0;  // of useful work between two checkpoints
  double share = 1.0;
};
[[nodiscard]] Goodput GoodputOf(double checkpoint_s, double restart_s,
                                double failure_s);

// A kind of GPU, a number of them, and the fastest layout there.
struct Offer {
  std::string kind;  // as --gpu names it
  std::string framework;
  MachineSize size;
  std::string problem = {};  // why there is no layout
  std::optional<Prediction> best = {};
  std::pair<double, double> band = {1.0, 1.0};  // of the step, relative
  bool is_guess = false;  // few or no measurements to compare with
  double power_w = 0.0;   // of a GPU's board; 0: unknown
  double checkpoint_bytes = 0.0;
  // The step with half the bandwidth between nodes, over that with all of it.
  double half_network = 0.0;

  Goodput goodput = {};
  double days = 0.0;
  double money = 0.0;       // USD; 0: unknown
  double energy_mwh = 0.0;  // of the boards at their rated power; 0: unknown
  bool is_best_choice = false;  // none is faster and cheaper
};

// Sets what follows from the assumptions, and which offers are on the Pareto
// front of days and money (of days and GPU days without prices).
void Complete(const TrainingAssumptions& assumptions,
              std::vector<Offer>& offers);

[[nodiscard]] plots::Table OfferTable(const TrainingAssumptions& assumptions,
                                      const std::vector<Offer>& offers);
[[nodiscard]] common::Json OfferJson(const plots::Table& table);
// The assumptions, the table, the fastest and the cheapest offer in a sentence.
[[nodiscard]] std::string OfferText(const TrainingAssumptions& assumptions,
                                    const std::vector<Offer>& offers,
                                    std::size_t columns);
// A page with the table and the front as a picture. `job`: JobText.
[[nodiscard]] std::string OfferPage(const TrainingAssumptions& assumptions,
                                    const std::vector<Offer>& offers,
                                    const std::string& job);

}  // namespace jobs
