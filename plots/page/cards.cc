#include <cmath>
#include <map>
#include <string>

#include <fmt/format.h>

#include "common/units.h"
#include "plots/page/parts.h"

namespace plots {
namespace {

using trials::Outcome;
using trials::Trial;

std::string SpeedUpText(const SpeedUp& speed) {
  return fmt::format("{:.2f}×", speed.ratio);
}

// "27,797"
std::string Thousands(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

// Why the given configuration is not the reference of speed-ups; "" if it is,
// or if none is given.
std::string GivenThatFailed(const PageRun& run) {
  for (const Trial& trial : run.trials) {
    if (trial.chosen_by == trials::ChosenBy::kGiven) {
      return trial.measurement.outcome == Outcome::kCompleted
                 ? ""
                 : fmt::format(" (the given one: {})",
                               OutcomeWords(trial.measurement.outcome));
    }
  }
  return "";
}

std::string Card(const std::string& name, const std::string& value,
                 const std::string& note, const char* style = "") {
  return fmt::format(
      "<div class=\"card{}\"><span class=\"name\">{}</span><b>{}</b>"
      "<span>{}</span></div>",
      style, name, value, note);
}

std::string BestCard(const PageRun& run) {
  const double value = run.Best().throughput.steps_per_s;
  const trials::Valuation valuation = run.problem->info.valuation();
  const double rate = value / valuation.Factor(run.Best().config);
  const auto& tokens = run.problem->info.tokens_per_step;
  const bool money = valuation.objective == trials::Objective::kMoney;
  return Card(
      money ? "Most steps per money" : "Best throughput",
      fmt::format("{} <small>{}</small>", PageNumber(value), UnitOf(run)),
      fmt::format(
          "{} per step{}, trial {}", Duration(1.0 / rate),
          tokens ? fmt::format(", {} tokens/s", Thousands(*tokens * rate)) : "",
          run.Best().number),
      " lead");
}

std::string SpeedUpCard(const PageRun& run) {
  const bool given = run.First().chosen_by == trials::ChosenBy::kGiven;
  const std::string reference =
      given ? "the present configuration"
            : "the first configuration that ran" + GivenThatFailed(run);
  if (run.first == run.best) {
    return Card("Speed-up", "none", "over " + reference);
  }
  const SpeedUp speed = SpeedUpOf(run.Best(), run.First());
  return Card(
      run.problem->info.valuation().objective == trials::Objective::kMoney
          ? "Steps per money"
          : "Speed-up",
      SpeedUpText(speed),
      fmt::format("[{:.2f}, {:.2f}] over {}", speed.low, speed.high,
                  reference));
}

std::string MemoryCard(const PageRun& run) {
  const auto& peak = run.Best().measurement.peak_memory_bytes;
  if (!peak) {
    return "";
  }
  const double headroom = HeadroomPercent(run, run.Best());
  const auto& capacity = run.problem->info.memory_capacity_bytes;
  return Card(
      "Peak memory",
      PageNumber(*peak / common::kGiga, 3) + " <small>GB</small>",
      std::isnan(headroom)
          ? std::string("of a GPU")
          : fmt::format("of {} GB, {:.0f}% free{}",
                        PageNumber(*capacity / common::kGiga, 3), headroom,
                        headroom < 10.0 ? ": little to spare" : ""));
}

}  // namespace

std::string PageCards(const PageRun& run) {
  std::string cards;
  if (run.best >= 0) {
    cards += BestCard(run) + SpeedUpCard(run) + MemoryCard(run);
  }
  std::map<Outcome, int> counts;
  for (const Trial& trial : run.trials) {
    ++counts[trial.measurement.outcome];
  }
  std::string outcomes;
  for (const auto& [outcome, count] : counts) {
    outcomes += fmt::format("{}{} {}", outcomes.empty() ? "" : ", ", count,
                            OutcomeWords(outcome));
  }
  cards += Card("Trials", std::to_string(run.trials.size()), outcomes);
  cards +=
      Card("Search time",
           Duration(run.trials.empty() ? 0.0 : run.trials.back().elapsed_s),
           run.problem->info.backend == "command" ? "on the machine"
                                                  : "on a virtual clock");
  return "<div class=\"cards\">" + cards + "</div>\n";
}

}  // namespace plots
