#include "jobs/tune/finals.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/secrets.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "harness/testbeds/program.h"
#include "plots/experiment_records.h"
#include "trials/programs/trial_rendering.h"
#include "trials/record.h"
#include "trials/record_list.h"
#include "trials/trial.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using trials::Outcome;

// The unit of the last decimal place of the values, such as 0.01; 0 if they
// have six places or more.
double Resolution(const std::vector<double>& values) {
  constexpr int kMost = 5;
  constexpr double kRounding = 1e-9;
  for (int place = 0; place <= kMost; ++place) {
    const double scale = std::pow(10.0, place);
    if (std::ranges::all_of(values, [&](double value) {
          const double units = value * scale;
          return std::abs(units - std::round(units)) <=
                 kRounding * std::max(1.0, units);
        })) {
      return 1.0 / scale;
    }
  }
  return 0.0;
}

}  // namespace

RoundSpread SpreadOfRounds(const std::vector<Finalist>& all) {
  RoundSpread spread;
  double squares = 0.0;
  for (const Finalist& each : all) {
    std::vector<double> means;
    for (const std::vector<double>& round : each.rounds) {
      if (!round.empty()) {
        means.push_back(common::Mean(round));
      }
    }
    if (!means.empty()) {
      const int freedom = static_cast<int>(means.size()) - 1;
      squares +=
          freedom * common::Variance(means) / std::pow(common::Mean(means), 2);
      spread.freedom += freedom;
    }
  }
  spread.variance = spread.freedom > 0 ? squares / spread.freedom : 0.0;
  return spread;
}

std::optional<StepTime> MeanStepTime(const Finalist& finalist,
                                     const RoundSpread& spread) {
  std::vector<double> steps;
  int rounds = 0;
  for (const std::vector<double>& round : finalist.rounds) {
    steps.insert(steps.end(), round.begin(), round.end());
    rounds += round.empty() ? 0 : 1;
  }
  if (steps.empty()) {
    return std::nullopt;
  }
  const auto n = static_cast<double>(steps.size());
  const double mean_s = common::Mean(steps);
  const double variance = common::Variance(steps);
  const double resolution = Resolution(steps);
  const double of_rounding = resolution * resolution / 12.0 /
                             (4.0 * variance > resolution * resolution ? n : 1);
  const double of_runs =
      std::max(variance / n, mean_s * mean_s * spread.variance / rounds);
  return StepTime{mean_s, std::sqrt(of_runs + of_rounding),
                  static_cast<int>(steps.size()), spread.freedom};
}

SpeedUp Compare(const StepTime& a, const StepTime& b) {
  constexpr double kEqual = 1e-9;  // but for rounding
  constexpr double kOutside = 0.05;
  const double log_factor = std::log(b.mean_s / a.mean_s);
  const double error =
      std::hypot(a.standard_error_s / a.mean_s, b.standard_error_s / b.mean_s);
  const int freedom = std::min(a.freedom, b.freedom);
  const double q = freedom > 0 ? common::StudentQuantile(kOutside, freedom)
                               : common::kNormal95;
  SpeedUp result;
  result.factor = {std::exp(log_factor), std::exp(log_factor - q * error),
                   std::exp(log_factor + q * error)};
  const double t = std::abs(log_factor) / error;
  if (std::abs(log_factor) < kEqual) {
    result.p = 1.0;
  } else if (error == 0.0) {
    result.p = 0.0;
  } else {
    result.p = freedom > 0 ? common::StudentP(t, freedom)
                           : 2.0 * common::NormalProbability(-t);
  }
  return result;
}

bool Contends(const Finalist& finalist, const std::vector<Finalist>& all,
              std::size_t rounds) {
  const double clear = rounds > 1 ? 1.05 : 1.15;
  std::vector<Finalist> so_far = all;
  for (Finalist& each : so_far) {
    each.rounds.resize(std::min(rounds, each.rounds.size()));
  }
  const RoundSpread spread = SpreadOfRounds(so_far);
  const auto itself =
      std::ranges::find(so_far, finalist.config, &Finalist::config);
  const std::optional<StepTime> own = MeanStepTime(*itself, spread);
  return finalist.config == kPresent || !own ||
         std::ranges::none_of(so_far, [&](const Finalist& each) {
           const std::optional<StepTime> other = MeanStepTime(each, spread);
           return other && Compare(*other, *own).factor.low > clear;
         });
}

std::string ToString(const SpeedUp& speed_up) {
  return fmt::format("{:.2f} times [{:.2f}, {:.2f}]", speed_up.factor.value,
                     speed_up.factor.low, speed_up.factor.high);
}

Finals ReadFinals(const fs::path& file) {
  const common::Json json = trials::ReadRecord(file);
  if (json.is_null()) {
    return {};
  }
  auto finals = common::JsonAs<Finals>(json, file.string());
  for (const Finalist& each : finals.finalists) {
    for (const std::vector<double>& round : each.rounds) {
      const bool possible = std::ranges::all_of(round, [](double time_s) {
        return time_s >= trials::kLeastStepSeconds &&
               time_s <= trials::kMostStepSeconds;
      });
      if (!possible) {
        throw common::InputError(
            fmt::format("{}: {} has a time that no step takes", file.string(),
                        each.config));
      }
    }
  }
  return finals;
}

namespace {

constexpr std::size_t kRounds = 3;
constexpr std::size_t kColumns = 80;  // of best.sh

// The best trials, completed ones first, and the job as it is.
std::vector<Finalist> Choose(const TuneJob& job, int count) {
  std::vector<trials::Trial> trials = job.Recorded();
  std::erase_if(trials, [&](const trials::Trial& trial) {
    return !trial.HasThroughput() ||
           trial.measurement.outcome == Outcome::kTimedOut ||
           !FindCandidate(trial, *job.testbed().space);
  });
  std::ranges::stable_sort(
      trials, std::greater(), [](const trials::Trial& trial) {
        return std::pair(trial.measurement.outcome == Outcome::kCompleted,
                         trial.throughput.steps_per_s);
      });
  const auto present = job.Present();
  if (present && trials.size() > 1) {
    std::erase_if(trials, [&](const trials::Trial& trial) {
      return trial.config == *present;  // it is measured as kPresent
    });
  }
  trials.resize(
      std::min(trials.size(), static_cast<std::size_t>(std::max(1, count))));
  std::vector<Finalist> finalists;
  for (const trials::Trial& trial : trials) {
    finalists.push_back({job.Text(trial.config), {}, std::nullopt});
  }
  if (present || job.testbed().program->RunsAsGiven()) {
    // Where time is short, the best and the present one are measured.
    finalists.insert(
        finalists.begin() + std::min<std::ptrdiff_t>(1, std::ssize(finalists)),
        {kPresent, {}, std::nullopt});
  }
  return finalists;
}

// What the file has of these finalists. Measurements after fewer trials were
// made on another day, perhaps of a busier machine, and those before an
// accepted change of another program.
void Load(const fs::path& file, Finals& finals) {
  const Finals known = ReadFinals(file);
  for (Finalist& finalist : finals.finalists) {
    const auto same =
        std::ranges::find(known.finalists, finalist.config, &Finalist::config);
    if (known.trials == finals.trials && known.changes == finals.changes &&
        same != known.finalists.end()) {
      finalist = *same;
    }
  }
}

// Adds a round. Returns false if a stop signal interrupts it.
bool MeasureOnce(TuneJob& job, Finalist& finalist, const std::string& what,
                 double limit_s) {
  try {
    const auto config =
        finalist.config == kPresent
            ? std::nullopt
            : std::optional(trials::ParseParallelConfig(
                  finalist.config, job.testbed().space->knobs()));
    const auto round = finalist.rounds.size();
    const trials::Measurement measured =
        job.Measure(config, job.manifest().budget.q_max, what,
                    static_cast<int>(round), limit_s);
    finalist.duration_s =
        finalist.duration_s.value_or(0.0) + measured.duration_s;
    std::vector<double>& steps = finalist.rounds.emplace_back();
    if (measured.outcome == Outcome::kCompleted &&
        !measured.step_times_s.empty()) {
      steps.assign(measured.step_times_s.begin() + 1,  // after the warm-up
                   measured.step_times_s.end());
      if (measured.losses) {
        if (!finalist.losses) {
          finalist.losses.emplace();
        }
        finalist.losses->push_back(*measured.losses);
      }
    } else {
      if (!finalist.failures) {
        finalist.failures.emplace();
      }
      finalist.failures->push_back(measured.outcome);
    }
    job.PrintRow(fmt::format("round {}", round + 1), measured,
                 common::Mean(steps), trials::kUnknown,
                 config ? job.Changes(*config) : kPresent);
    if (measured.outcome != Outcome::kCompleted &&
        measured.outcome != Outcome::kFailed && finalist.config != kPresent) {
      finalist.rounds.resize(kRounds);  // it may hang in the next one, too
    }
    if (measured.peak_memory_bytes) {
      finalist.peak_memory_bytes =
          std::max(finalist.peak_memory_bytes.value_or(0.0),
                   *measured.peak_memory_bytes);
    }
    return true;
  } catch (const trials::TrialInterrupted&) {
    return false;
  }
}

// The time for finals: what the search has left, and what runs took.
class FinalsClock {
 public:
  FinalsClock(const TuneJob& job, const std::vector<trials::Trial>& trials,
              const std::vector<Finalist>& finalists)
      : limit_s_(job.manifest().budget.time_s / kSearchShare -
                 (trials.empty() ? 0.0 : trials.back().elapsed_s)),
        finalists_(finalists) {
    for (const trials::Trial& trial : trials) {
      if (trial.measurement.outcome == Outcome::kCompleted) {
        longest_s_ = std::max(longest_s_, trial.measurement.duration_s);
      }
    }
  }

  [[nodiscard]] bool IsEnough(double needed_s) const {
    return needed_s <= limit_s_;
  }

  // The limit of the next run; 0: none. The best and the present one have two
  // rounds, each at least twice as long as the longest trial.
  [[nodiscard]] double Of(const Finalist& finalist) const {
    constexpr double kPatience = 2.0;
    constexpr std::size_t kNeeded = 2;
    double left_s = limit_s_;
    for (const Finalist& each : finalists_) {
      left_s -= each.duration_s.value_or(0.0);
    }
    const bool needed =
        finalist.rounds.size() < kNeeded &&
        (finalist.config == kPresent || &finalist == &finalists_.front());
    return needed ? std::max(left_s, kPatience * longest_s_) : left_s;
  }

 private:
  double limit_s_;
  double longest_s_ = 0.0;
  const std::vector<Finalist>& finalists_;
};

struct Round {
  std::vector<Finalist*> runs;
  double needed_s = 0.0;  // for them and for what has run
};

// `round` counts from 0.
Round NextRound(std::vector<Finalist>& finalists, std::size_t round) {
  Round next;
  for (Finalist& finalist : finalists) {
    const double so_far_s = finalist.duration_s.value_or(0.0);
    next.needed_s += so_far_s;
    if (finalist.rounds.size() <= round &&
        Contends(finalist, finalists, round)) {
      next.runs.push_back(&finalist);
      next.needed_s += round > 0 ? so_far_s / static_cast<double>(round) : 0.0;
    }
  }
  if (round % 2 == 1) {
    std::ranges::reverse(next.runs);  // a drift helps none of them
  }
  return next;
}

// "p = 0.012", "p < 0.001"
std::string PText(double p) {
  constexpr double kLeast = 0.001;
  return p < kLeast ? fmt::format("p < {}", kLeast)
                    : fmt::format("p = {:.2g}", p);
}

// "; it failed in 1 of 3 rounds: out of memory"
std::string FailureText(const Finalist& finalist, const char* who = "it") {
  if (!finalist.Failed()) {
    return "";
  }
  const auto succeeded = static_cast<std::size_t>(std::ranges::count_if(
      finalist.rounds, [](const auto& round) { return !round.empty(); }));
  const std::size_t failed = finalist.failures->size();
  const std::string how = plots::OutcomeWords(finalist.failures->front());
  return fmt::format("; {} failed in {} of {} rounds{}", who, failed,
                     failed + succeeded, how == "failed" ? "" : ": " + how);
}

// The first and each of the others, in lines.
std::string RankingText(const Verdict& verdict) {
  const std::vector<Finalist>& ranked = verdict.ranked;
  std::string text;
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    const SpeedUp ahead = Compare(*MeanStepTime(ranked.front(), verdict.spread),
                                  *MeanStepTime(ranked[i], verdict.spread));
    text +=
        fmt::format("{} is {} as fast as {}{} ({}){}\n", ranked.front().config,
                    ToString(ahead), ranked[i].config,
                    ahead.Differs() ? "" : ", which is not distinguishable",
                    PText(ahead.p), FailureText(ranked[i]));
  }
  return text;
}

// "; 1.96 times [1.19, 3.23] as fast as yours"
std::string FasterText(const SpeedUp& speed_up) {
  return speed_up.Differs()
             ? fmt::format("; {} as fast as yours", ToString(speed_up))
             : fmt::format("; not distinguishable from yours: {} as fast, {}",
                           ToString(speed_up), PText(speed_up.p));
}

std::string MemoryText(const Finalist& best, double capacity_bytes) {
  if (!best.peak_memory_bytes || !(capacity_bytes > 0.0) ||
      (best.Failed() &&
       common::Contains(*best.failures, Outcome::kOutOfMemory))) {
    return "";
  }
  const double used = *best.peak_memory_bytes;
  const double left = capacity_bytes - used;
  return fmt::format("; peak memory {:.2f} GB, {:.2f} GB ({:.0f}%) left",
                     used / common::kGiga, left / common::kGiga,
                     100.0 * left / capacity_bytes);
}

// How a command line with placeholders for nodes is started; "" of another.
std::string NodesText(const std::string& command) {
  const auto names = [&command](const char* word) {
    return command.find(word) != std::string::npos;
  };
  return names("{master_addr}")
             ? fmt::format(
                   "Start it on every node, with the first node for "
                   "{{master_addr}}{}.\n\n",
                   names("{node_rank}")
                       ? " and the number of the node for {node_rank}"
                       : "")
             : "";
}

}  // namespace

std::vector<Finalist> MeasureFinalists(TuneJob& job, int count) {
  const std::vector<trials::Trial> trials = job.Recorded();
  Finals finals{static_cast<int>(trials.size()), Choose(job, count)};
  if (const auto accepted = trials::ReadRunInfo(job.run_folder()).accepted) {
    finals.changes = static_cast<int>(accepted->size());
  }
  std::vector<Finalist>& finalists = finals.finalists;
  const fs::path file = job.folder() / "finals.json";
  Load(file, finals);
  const FinalsClock clock(job, trials, finalists);
  for (std::size_t round = 0; round < kRounds; ++round) {
    const auto [next, needed_s] = NextRound(finalists, round);
    if (next.empty()) {
      continue;  // the file has this round
    }
    if (round > 1 && !clock.IsEnough(needed_s)) {
      job.Print("no time is left for a third round\n");
      break;
    }
    const std::string what = fmt::format("round {} of {}", round + 1, kRounds);
    job.Print("measuring the best again, {}, {}\n", what,
              Count(next.size(), "run"));
    for (Finalist* const finalist : next) {
      const double limit_s = clock.Of(*finalist);
      if (limit_s <= 0.0) {
        job.Print("  {}: no time is left\n", finalist->config);
        continue;
      }
      if (!MeasureOnce(job, *finalist, what, limit_s)) {
        return finalists;  // interrupted
      }
      trials::WriteRecord(file, common::ToJson(finals));
    }
  }
  return finalists;
}

std::string Verdict::config() const {
  return keeps_present ? kPresent : ranked.front().config;
}

StepTime Verdict::time() const {
  return keeps_present ? *present : *MeanStepTime(ranked.front(), spread);
}

std::optional<Verdict> Judge(const std::vector<Finalist>& finalists,
                             const std::string& present) {
  using Losses = std::vector<trials::LossCurve>;
  Verdict verdict{.spread = SpreadOfRounds(finalists)};
  for (const Finalist& each : finalists) {
    const std::optional<StepTime> time = MeanStepTime(each, verdict.spread);
    if (each.config == kPresent) {
      verdict.yours = each;
      verdict.present = time;
    } else if (time) {
      verdict.ranked.push_back(each);
    }
  }
  if (verdict.ranked.empty()) {
    return std::nullopt;
  }
  std::ranges::stable_sort(verdict.ranked, {}, [](const Finalist& each) {
    return std::pair(each.Failed(), MeanStepTime(each)->mean_s);
  });
  const Finalist& best = verdict.ranked.front();
  if (verdict.present) {
    verdict.speed_up =
        Compare(*MeanStepTime(best, verdict.spread), *verdict.present);
    verdict.keeps_present =
        !verdict.speed_up->Differs() || verdict.speed_up->factor.value < 1.0 ||
        best.config == present || (best.Failed() && !verdict.yours->Failed());
  }
  if (!verdict.keeps_present && verdict.yours) {
    verdict.loss = CompareLosses(best.losses.value_or(Losses()),
                                 verdict.yours->losses.value_or(Losses()));
  }
  return verdict;
}

BestJob BestOf(const TuneJob& job, const Verdict& verdict) {
  const harness::ProgramJob& program = *job.testbed().program;
  BestJob best;
  best.config = verdict.keeps_present
                    ? job.Present()
                    : trials::ParseParallelConfig(verdict.config(),
                                                  job.testbed().space->knobs());
  // A command line with placeholders is none that runs, unlike the user's own.
  if (verdict.keeps_present && program.RunsAsGiven()) {
    best.rendered.words = job.run().problem->backend.GetStrings("program");
  } else {
    best.rendered =
        program.Render(job.RequestOf(*best.config), job.folder() / "best");
  }
  const std::string words =
      fmt::format("{}", fmt::join(program.options().program, " "));
  if (words.find("{max_steps}") != std::string::npos) {
    best.note = fmt::format("It has the {} steps of a trial: write your own.\n",
                            job.manifest().budget.q_max);
  }
  return best;
}

common::Json ToJson(const Verdict& verdict, const BestJob& best,
                    const TuneJob& job) {
  const StepTime time = verdict.time();
  common::Json json = {{"config", verdict.config()},
                       {"step_time_s", time.mean_s},
                       {"standard_error_s", time.standard_error_s},
                       {"steps", time.steps},
                       {"tokens_per_s", job.tokens_per_step() / time.mean_s}};
  json.update(job.CostOf(time.mean_s));
  const Finalist& chosen =
      verdict.keeps_present ? *verdict.yours : verdict.ranked.front();
  if (chosen.Failed()) {
    json["failures"] = common::ToJson(*chosen.failures);
  }
  if (const auto& speed_up = verdict.speed_up) {
    json["speed_up"] = {{"config", verdict.ranked.front().config},
                        {"value", speed_up->factor.value},
                        {"low", speed_up->factor.low},
                        {"high", speed_up->factor.high},
                        {"p", speed_up->p}};
  }
  if (const auto& loss = verdict.loss) {
    json["loss"] = {{"value", loss->loss},
                    {"present", loss->present},
                    {"noise", loss->noise},
                    {"steps", loss->steps},
                    {"moved", loss->Moved()}};
  }
  json["command"] = common::WithoutSecrets(best.rendered.words);
  json["environment"] = common::WithoutSecrets(best.rendered.environment);
  if (best.config) {
    json["parameters"] = trials::ParametersAsJson(
        job.testbed().space->knobs(), *best.config, job.batch_size());
  }
  return json;
}

std::string ToText(const Verdict& verdict, const BestJob& best,
                   const TuneJob& job) {
  const Finalist& fastest = verdict.ranked.front();
  const std::string command = trials::CommandLine(best.rendered, job.columns());
  const auto& files = best.rendered.files;
  return fmt::format(
      "{}\n{}:\n\n  {}\n\n{}", job.Wrapped(RankingText(verdict)),
      verdict.keeps_present
          ? fmt::format("Keep yours: no configuration {}is measurably faster",
                        fastest.Failed() ? "that ran in every round " : "")
          : "Use this command line",
      command,
      job.Wrapped(fmt::format(
          "{}{}{}: {}{}{}{}{}\nAlso in {} and best.json{}\n",
          NodesText(command), best.note, fastest.config,
          job.SpeedText(MeanStepTime(fastest)->mean_s),
          verdict.speed_up ? FasterText(*verdict.speed_up) : "",
          FailureText(fastest) +
              (verdict.yours ? FailureText(*verdict.yours, "yours") : ""),
          MemoryText(fastest, job.testbed().machine.memory_bytes()),
          verdict.loss && verdict.loss->Moved()
              ? "\nIt " + ToString(*verdict.loss)
              : "",
          (job.folder() / "best.sh").string(),
          files.empty() ? "" : ", with " + files[0].path.string())));
}

void WriteBest(const Verdict& verdict, const BestJob& best,
               const TuneJob& job) {
  for (const trials::RenderedFile& file : best.rendered.files) {
    common::ReplaceFile(file.path, file.content);
  }
  trials::WriteListed(
      job.folder() / "best.sh",
      fmt::format("#!/bin/sh\n# {}\n{}{} \"$@\"\n", verdict.config(),
                  best.note.empty() ? "" : "# " + best.note,
                  trials::CommandLine(best.rendered, kColumns)),
      0700);
  trials::WriteRecord(job.folder() / "best.json", ToJson(verdict, best, job));
}

}  // namespace jobs
