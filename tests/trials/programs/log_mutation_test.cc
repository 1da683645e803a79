// Logs with known step times in the forms of frameworks and programs, changed
// as ranks, locales, terminals and crashes change them: what is read is right,
// or refused. OPPA_LOGS=300 reads more of them, OPPA_SEED=N others.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/quantiles.h"
#include "common/toml_table.h"
#include "trials/adapters/adapter.h"
#include "trials/programs/log_scanner.h"

namespace trials::log_mutation_test {

constexpr StepSizes kSizes = {512, 4096, 8};
constexpr double kTokensOfGpu = 512 * 4096 / 8.0;

struct Form {
  const char* adapter;  // or the pattern of --step-time
  bool is_adapter;
  std::string (*line)(int step, double seconds, double elapsed_s);
};

const Form kForms[] = {
    {"megatron-lm", true,
     [](int step, double s, double) {
       return fmt::format(
           " iteration {:8d}/ 500 | consumed samples: 64 | elapsed time per "
           "iteration (ms): {:.1f} | learning rate: 1.0E-04 | lm loss: 3.1 |",
           step, 1e3 * s);
     }},
    {"megatron-lm", true,
     [](int step, double s, double) {
       return fmt::format(
           "iteration {:8d}/ 500 | elapsed time per iteration (s): {:.3f} | "
           "samples per second: 9.490 |",
           step, s);
     }},
    {"torchtitan", true,
     [](int step, double s, double) {
       const long tps = std::lround(kTokensOfGpu / s);
       return fmt::format(
           "2026-01-01 10:00:00,100 - root - INFO - step: {:2d}  loss:  9.1000 "
           " memory: 40.00GiB(50.00%)  tps: {}{}  tflops: 1,300.00",
           step, tps >= 1000 ? fmt::format("{},", tps / 1000) : "",
           tps >= 1000 ? fmt::format("{:03d}", tps % 1000)
                       : fmt::format("{}", tps));
     }},
    {"nanotron", true,
     [](int step, double s, double) {
       return fmt::format(
           "iteration: {} / 500 | elapsed_time_per_iteration_ms: {} | "
           "tokens_per_sec: 22.8K |",
           step,
           s < 1.0 ? fmt::format("{:.0f}", 1e3 * s)
                   : fmt::format("{:.3g}K", s));
     }},
    {"deepspeed", true,
     [](int step, double s, double) {
       return fmt::format(
           "[timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, "
           "RunningAvgSamplesPerSec=58.73, CurrSamplesPerSec={1:.4f}, "
           "MemAllocated=6.01GB, MaxMemAllocated=19.52GB",
           step, 512 / s);
     }},
    {"nemo", true,
     [](int step, double s, double) {
       return fmt::format(
           "Training epoch 0, iteration {0}/499 | lr: 1.9e-06 | "
           "global_step: {0} | train_step_timing in s: {1:.3f}",
           step, s);
     }},
    // By the clock only.
    {"hf-trainer", true,
     [](int, double, double) {
       return std::string("{'loss': 2.31, 'grad_norm': 1.3, 'epoch': 0.1}");
     }},
    // In a file; the rate is the mean since the beginning.
    {"nemo", true,
     [](int step, double, double elapsed_s) {
       const long elapsed = std::lround(std::floor(elapsed_s));
       return fmt::format(
           "Epoch 0:   6%|#  | {}/90 [{:02d}:{:02d}<02:29, {:5.2f}s/it]", step,
           elapsed / 60, elapsed % 60, elapsed_s / step);
     }},
    {"took ([0-9.,]+)", false,
     [](int, double s, double) { return fmt::format("took {:.3f} s", s); }},
    {"time[^0-9]*([0-9.,]+)", false,
     [](int, double s, double) {
       return fmt::format("time {:.1f}ms", 1e3 * s);
     }},
    {"time .*?([0-9.,]+)", false,
     [](int step, double s, double) {
       return fmt::format("step {}: time {:.4f} min", step, s / 60);
     }},
    {"([0-9.]+)(?:it/s|s/it)", false,
     [](int step, double s, double) {
       return fmt::format("Steps: {0}/500 [00:31<00:47, {1}, lr=1e-5]", step,
                          s < 1 ? fmt::format("{:.2f}it/s", 1 / s)
                                : fmt::format("{:.2f}s/it", s));
     }},
    {"time (?:per )?.*([0-9.]+)", false,
     [](int step, double s, double) {
       return fmt::format("iter {}, time (ms): {:.0f}", step, 1e3 * s);
     }},
};

struct Log {
  std::vector<std::pair<double, std::string>> lines;  // and when they arrive
  double step_s = 0.0;
  int steps = 0;
};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  Log Make(const Form& form) {
    Log log;
    log.step_s = std::exp(Uniform(std::log(0.3), std::log(60.0)));
    log.steps = 8 + Below(20);
    const int ranks = Chance(0.5) ? 1 : 2 + Below(7);
    const bool is_named = Chance(0.5);
    // A locale with a decimal comma; frameworks know none.
    const bool comma = !form.is_adapter && Chance(0.4);
    const bool color = Chance(0.2);
    const double begin_s = 10.0 + Uniform(0.0, 5.0);
    double now_s = begin_s;
    for (int step = 1; step <= log.steps; ++step) {
      const double s = log.step_s * Uniform(0.99, 1.01) *
                       (step == 1 ? Uniform(1.0, 9.0) : 1.0);
      now_s += s;
      for (int rank = 0; rank < ranks; ++rank) {
        std::string line =
            form.line(step, s * Uniform(0.999, 1.001), now_s - begin_s);
        if (comma) {
          std::ranges::replace(line, '.', ',');
        }
        if (is_named && ranks > 1) {
          line = fmt::format("[rank{}]: {}", rank, line);
        }
        if (color) {
          line = "\x1b[36m" + line + "\x1b[0m";
        }
        log.lines.emplace_back(now_s + 0.002 * rank, line);
      }
      if (Chance(0.1)) {
        log.lines.emplace_back(now_s + 0.02, Other());
      }
    }
    Damage(log);
    return log;
  }

 private:
  double Uniform(double low, double high) {
    constexpr double kSpan = 0x1p-53;
    return low + (high - low) * kSpan * static_cast<double>(random_() >> 11U);
  }
  bool Chance(double p) { return Uniform(0.0, 1.0) < p; }
  int Below(int n) { return static_cast<int>(Uniform(0.0, n)); }

  std::string Other() {
    static const char* const lines[] = {
        "Loading checkpoint shards: 100%|####| 4/4 [00:02<00:00,  1.95it/s]",
        "Map: 100%|###| 669/669 [00:00<00:00, 3076.21 examples/s]",
        "validate step: 99  loss: 9.0  memory: 40.00GiB(50%)  tps: 99,000",
        "saving checkpoint at iteration 7 took long",
        "WARNING 12:00:01 something at 0.5 of 1.0",
        "{'eval_loss': 2.2, 'eval_samples_per_second': 734.5}",
        "time (ms) | forward-compute: 193.77 | backward-compute: 73.02"};
    return lines[Below(std::size(lines) - 1)];
  }

  // Lines that are cut or glued, as by a full disk or by two writers.
  void Damage(Log& log) {
    const double rate = Chance(0.5) ? 0.0 : 0.06;
    for (std::size_t i = 0; i < log.lines.size(); ++i) {
      std::string& line = log.lines[i].second;
      if (Chance(rate)) {
        line.resize(Below(static_cast<int>(line.size())));
      } else if (i + 1 < log.lines.size() && Chance(rate)) {
        line += log.lines[i + 1].second;
        log.lines.erase(log.lines.begin() + static_cast<long>(i) + 1);
      }
      if (rate > 0.0) {
        line += "\r";
      }
    }
  }

  std::mt19937_64 random_;
};

LogPatterns PatternsOf(const Form& form) {
  return form.is_adapter
             ? Adapter::Find(form.adapter).log()
             : ReadLogPatterns(common::TomlTable::ParseString(
                   fmt::format("step_time_s = '{}'", form.adapter), "p"));
}

// The median without the first step, as `oppa` takes it; nothing if refused.
std::optional<double> Median(std::vector<double> steps) {
  if (steps.empty()) {
    return std::nullopt;
  }
  if (steps.size() > 1) {
    steps.erase(steps.begin());
  }
  return common::Median(steps);
}

std::vector<double> Live(const LogPatterns& patterns, const Log& log) {
  LogScanner scanner(patterns, kSizes, 0.0);
  std::vector<double> steps;
  const auto take = [&steps](const std::vector<TrialReport>& reports) {
    for (const TrialReport& report : reports) {
      if (report.step_time_s) {
        steps.push_back(*report.step_time_s);
      }
    }
  };
  for (const auto& [time_s, line] : log.lines) {
    take(scanner.Read(line, time_s));
  }
  take(scanner.Finish());
  return steps;
}

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

TEST(LogMutations, AreReadRightlyOrRefused) {
  const int logs = FromEnvironment("OPPA_LOGS", 78);
  const int seed = FromEnvironment("OPPA_SEED", 1);
  int read = 0;
  for (int i = 0; i < logs; ++i) {
    const Form& form = kForms[i % std::size(kForms)];
    const Log log = Mutator(1000003ULL * seed + i).Make(form);
    std::string text;
    for (const auto& [time_s, line] : log.lines) {
      text += line + "\n";
    }
    SCOPED_TRACE(fmt::format("log {} of seed {}, {}:\n{}", i, seed,
                             form.adapter, text.substr(0, 3000)));
    const LogPatterns patterns = PatternsOf(form);
    try {
      if (const auto step_s =
              Median(ReadLog(patterns, kSizes, text).step_times_s)) {
        // A bar has whole seconds, of 20 or more.
        EXPECT_NEAR(*step_s, log.step_s, 0.06 * log.step_s);
        ++read;
      }
    } catch (const std::invalid_argument&) {
    }
    try {
      const std::vector<double> steps = Live(patterns, log);
      // One more where two lines of one are cut or glued.
      EXPECT_LE(steps.size(), log.steps + 1);
      if (const auto step_s = Median(steps)) {
        EXPECT_NEAR(*step_s, log.step_s, 0.03 * log.step_s);
        ++read;
      }
    } catch (const std::invalid_argument&) {
    }
  }
  fmt::print("{} of {} readings have a step time\n", read, 2 * logs);
  EXPECT_GT(read, logs);
}

}  // namespace trials::log_mutation_test
