// Each line has the form that the framework prints.

#include "trials/programs/log_scanner.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "trials/adapters/adapter.h"

namespace trials::log_scanner_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr StepSizes kSizes = {64, 4096, 8};

LogPatterns Patterns(const std::string& toml) {
  return ReadLogPatterns(common::TomlTable::ParseString(toml, "p"));
}

// What `oppa plan --log` reads from lines with one pattern of seconds.
LogSteps ReadLines(const std::string& pattern,
                   const std::vector<std::string>& lines,
                   const std::string& more = "") {
  const LogPatterns patterns =
      Patterns("step_time_s = '" + pattern + "'\n" + more);
  return ReadLog(patterns, kSizes, fmt::format("{}", fmt::join(lines, "\n")));
}

std::optional<double> TimeIn(const std::string& pattern,
                             const std::string& line) {
  // Twice: a first step alone is refused.
  const LogSteps steps = ReadLines(pattern, {line, line});
  return steps.step_times_s.empty() ? std::nullopt
                                    : std::optional(steps.step_times_s[0]);
}

// The steps that a trial counts from lines that arrive at these times.
std::vector<double> Live(
    const LogPatterns& patterns,
    const std::vector<std::pair<double, std::string>>& lines,
    std::string* note = nullptr) {
  LogScanner scanner(patterns, kSizes, 0.0);
  std::vector<double> steps;
  const auto take = [&steps](const std::vector<TrialReport>& reports) {
    for (const TrialReport& report : reports) {
      steps.push_back(report.step_time_s.value());
    }
  };
  for (const auto& [time_s, line] : lines) {
    take(scanner.Read(line, time_s));
  }
  take(scanner.Finish());
  if (note != nullptr) {
    *note = scanner.Note();
  }
  return steps;
}

TEST(LogScanner, ReadsStepTimeAndMemoryOfEachFramework) {
  const std::string titan =
      "[rank3]:[titan] 2026-02-24 19:46:17,508 - root - INFO - "
      "\x1b[31mstep:  4  \x1b[32mloss:  7.62585  \x1b[33mgrad_norm: 26.6250  "
      "\x1b[36mmemory: 66.91GiB(37.51%)  \x1b[34mtps: 8,192  \x1b[36mtflops: "
      "314.71  \x1b[35mmfu: 13.99%\x1b[39m";
  const struct {
    const char* adapter;
    std::vector<std::string> lines;
    double step_time_s, memory_bytes;
  } cases[] = {
      {"megatron-lm",
       {" [2026-04-27 00:00:01.123456] iteration        2/       3 | consumed "
        "samples:           64 | elapsed time per iteration (ms): 4012.5 | "
        "throughput per GPU (TFLOP/s/GPU): 40.4 | learning rate: 1.000000E-04 "
        "| global batch size:    64 | lm loss: 3.000000E+00 | loss scale: 1.0 "
        "|",
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1024.00 | max "
        "allocated: 2048.00 | reserved: 3000.00 | max reserved: 3000.00"},
       4.0125,
       2048.0 * 1048576},
      // Two ranks print their tokens per second.
      {"torchtitan",
       {titan, titan},
       64.0 * 4096 / (8192 * 8),
       66.91 * 1073741824},
      {"nanotron",
       {"01/01/2026 12:00:00 [INFO|DP=0|TP=0]: iteration: 6 / 15 | "
        "consumed_tokens: 1.31M | time_per_iteration_ms: 1.22K | "
        "tokens_per_sec: 215K | tokens_per_sec_per_gpu: 26.9K",
        " Memory usage: 1.00MiB. Peak allocated 456.50MiB. Peak reserved: "
        "500.00MiB"},
       1.22,
       456.5 * 1048576},
      // The first line has no step time.
      {"deepspeed",
       {"[2026-01-01 02:45:40,722] [INFO] [logging.py:96:log_dist] [Rank 0] "
        "step=3, skipped=0, lr=[1.5e-07], mom=[(0.9, 0.999)]",
        "[2026-01-01 02:45:40,722] [INFO] [timer.py:260:stop] "
        "epoch=0/micro_step=3/global_step=3, RunningAvgSamplesPerSec=74.6, "
        "CurrSamplesPerSec=128.0, MemAllocated=4.75GB, MaxMemAllocated=15.5GB"},
       0.5,
       15.5 * 1073741824}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.adapter);
    const Adapter adapter = Adapter::Find(each.adapter);
    const LogSteps steps = ReadLog(
        adapter.log(), kSizes, fmt::format("{}", fmt::join(each.lines, "\n")));
    EXPECT_THAT(steps.step_times_s,
                ElementsAre(testing::DoubleEq(each.step_time_s)));
    EXPECT_NEAR(steps.peak.bytes, each.memory_bytes, 1.0);
  }
}

// "1,050" is 1050 or 1.05: another number of the log tells, or none.
TEST(LogScanner, ACommaMeansWhatAnotherNumberOfTheLogProves) {
  const auto read = [](const std::vector<std::string>& numbers,
                       const std::string& more = "") {
    std::vector<std::string> lines;
    for (const std::string& number : numbers) {
      lines.push_back(
          fmt::format("step {} took {} s", lines.size() + 2, number));
    }
    return ReadLines("took ([0-9.,]+)", lines, more).step_times_s;
  };
  EXPECT_THAT(read({"1,050", "0,800"}), ElementsAre(1.05, 0.8));
  EXPECT_THAT(read({"1,050", "12,3456"}), ElementsAre(1.05, 12.3456));
  EXPECT_THAT(read({"7,020", "107,020.5"}), ElementsAre(7020.0, 107020.5));
  EXPECT_THAT(read({"7,020", "1,000,000"}), ElementsAre(7020.0, 1e6));
  EXPECT_THAT(read({"1.050,5"}), ElementsAre(1050.5));
  EXPECT_THAT(read({"0.06,"}), ElementsAre(0.06));
  EXPECT_THAT(read({"7,020"}, "comma = 'thousands'"), ElementsAre(7020.0));
  EXPECT_THAT(read({"7,020"}, "comma = 'decimal'"), ElementsAre(7.02));
  for (const std::string number : {"1.5,000", ",020"}) {
    EXPECT_THAT(read({number}), testing::Not(ElementsAre(5.0))) << number;
  }
  EXPECT_THAT(fakes::ErrorOf([&] {
                return read({"1,050", "1,102"});
              }),
              testing::AllOf(HasSubstr("'1,050' may be 1050 or 1.05"),
                             HasSubstr("comma = ")));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return read({"0,85", "0.85"});
              }),
              HasSubstr("a decimal point where other numbers"));
}

TEST(LogScanner, AnOpenCommaWaitsForAFewLinesOfATrial) {
  const LogPatterns patterns = Patterns("step_time_s = 'took ([0-9.,]+)'");
  EXPECT_THAT(
      Live(patterns,
           {{2.0, "took 1,050"}, {3.1, "took 1,100"}, {4.0, "took 0,900"}}),
      ElementsAre(1.05, 1.1, 0.9));
  std::vector<std::pair<double, std::string>> lines;
  for (int i = 1; i < 20; ++i) {
    lines.emplace_back(i, fmt::format("took 1,0{}", 10 + i));
  }
  EXPECT_THAT(fakes::ErrorOf([&] { return Live(patterns, lines); }),
              HasSubstr("may be 1011 or 1.011"));
}

// The pattern says where the number is; the log says its unit.
TEST(LogScanner, TheUnitOfALogCounts) {
  const auto is = [](const std::string& line, double step_s) {
    EXPECT_THAT(TimeIn("(?:took|time|time_ms|dt)[^0-9]*([0-9.]+)", line),
                testing::Optional(testing::DoubleNear(step_s, 1e-9)))
        << line;
  };
  is("took 812 ms", 0.812);
  is("took 812ms.", 0.812);
  is("took 1.5 min", 90.0);
  is("took 950 us", 0.00095);
  is("time (ms): 812", 0.812);
  is("'time_ms': 812,", 0.812);
  is("took 2.5it/s", 0.4);
  is("took 812ms: loss 2", 0.812);
  is("took 950 \xCE\xBCs", 0.00095);
  is("took 812\xC2\xA0ms", 0.812);
  is("took 812000000 ns", 0.812);
  is("took 0.01 hrs", 36.0);
  is("took 2.5 s/iter", 2.5);
  is("took 2.5 lr 1", 2.5);
  is("took 2.5", 2.5);
  const auto problem = [](const std::string& line) {
    return fakes::ErrorOf(
        [&] { return TimeIn("(?:took|time)[^0-9]*([0-9.]+)", line); });
  };
  EXPECT_THAT(problem("took 2.5 tokens/s"), HasSubstr("tokens/s'"));
  EXPECT_THAT(problem("time (ms): 0.8 s"), HasSubstr("'ms' and 's'"));
  for (const char* line :
       {"took 1510 cs", "took 1510cs", "time (ticks): 5", "took 2 days, 3 h"}) {
    EXPECT_THAT(problem(line), HasSubstr("name a time in h, min, s")) << line;
  }
  EXPECT_THAT(problem("took 1510x"), HasSubstr("has no time of a step"));
}

TEST(LogScanner, ATimeInPartsIsReadWholeOrRefused) {
  for (const auto& [text, step_s] : std::vector<std::pair<std::string, double>>{
           {"2m45s", 165.0},
           {"1m15.01s", 75.01},
           {"1m 15s", 75.0},
           {"2 min 45 s", 165.0},
           {"2 minutes 45 seconds", 165.0},
           {"1h02m", 3720.0},
           {"0h1m15s", 75.0},
           {"1h 2m 3.5s", 3723.5},
           {"1s 500ms", 1.5},
           {"15.5 s 3 ms data", 15.5},
           {"15 s, 3 ms data", 15.0}}) {
    const auto is = [step_s = step_s](const std::string& pattern,
                                      const std::string& line) {
      EXPECT_THAT(TimeIn(pattern, line),
                  testing::Optional(testing::DoubleNear(step_s, 1e-9)))
          << line;
    };
    is("took ([0-9.]+)", "took " + text);
    is("took ([0-9.]+)", "took " + text + ", loss 2.3");
    is("took ([0-9hms. ]+)", "took " + text);
  }
  EXPECT_EQ(TimeIn("([0-9.]+)s$", "took 2m45s"), 165.0);
  EXPECT_EQ(TimeIn("([0-9.]+) s/it", "after 12 min 0.5 s/it"), 0.5);
  for (const char* text : {"2m45", "2m45s/it", "1 min, 15 s", "2 min and 45 s",
                           "2m45,5s", "1.5 min 15 s"}) {
    EXPECT_THAT(fakes::ErrorOf([&] {
                  return TimeIn("took ([0-9.]+)", std::string("took ") + text);
                }),
                HasSubstr("has a time in parts"))
        << text;
  }
}

TEST(LogScanner, TheFirstStepAloneIsRefused) {
  const auto error = [](const std::vector<std::string>& lines) {
    return fakes::ErrorOf([&] { return ReadLines("took ([0-9.]+)", lines); });
  };
  EXPECT_THAT(error({"took 155.0 s"}), HasSubstr("one step, and the first"));
  EXPECT_THAT(error({"step 1 took 155.0 s", "step 1 took 154.0 s"}),
              HasSubstr("one step, and the first"));
  EXPECT_EQ(error({"step 12 took 15.0 s"}), "no error");
}

// A rate or the time of something else is no step time, however long it is.
TEST(LogScanner, ALineThatIsCutOffBeforeItsUnitIsLeftOut) {
  EXPECT_THAT(
      ReadLines("took ([0-9.]+)", {"took 0.5 min", "took 0.50", "took 0.6 min"})
          .step_times_s,
      ElementsAre(30.0, 36.0));
  EXPECT_THAT(
      ReadLines("took ([0-9.]+)", {"took 1.5 s", "took 1.4"}).step_times_s,
      ElementsAre(1.5, 1.4));
  EXPECT_THAT(fakes::ErrorOf([] {
                return ReadLines("took ([0-9.]+)",
                                 {"took 0.5", "took 0.6", "took 500 ms"});
              }),
              HasSubstr("'took 500 ms' has a unit, and 2 lines before it have "
                        "none"));
}

TEST(LogScanner, ANumberThatIsNoTimeOfAStepIsRefused) {
  const auto problem = [](const std::string& line) {
    return fakes::ErrorOf([&] { return TimeIn("([0-9.]+)[^0-9]*$", line); });
  };
  for (const char* line :
       {"tokens_per_second_per_gpu:9087.5", "Tokens/s/device: 9087.5, loss",
        "tok/s: 9087.5", "TFLOPS: 120.5", "examples/sec=42.5",
        "ups=0.17, gnorm", "steps_per_sec 0.17", "throughput: 42.5",
        "eta: 12.5 s", "42.5/s", "12.5 s/epoch", "10 steps took 60.5 s",
        "epoch 3 took 60.5 s", "Epoch 1/3 - loss: 2.5 - time: 300.5s",
        "perf 120.5 TFLOP/s", "12.5 GB"}) {
    EXPECT_THAT(problem(line), HasSubstr("has no time of a step")) << line;
  }
  for (const char* line :
       {"step 10 took 6.5", "epoch 3 step 4: 6.5 s", "(4096 tokens): 6.5 s",
        "'step_time_ms': 6.5, 'tps'", "6.5 samples/sec:", "6.5/s/it",
        "speed: 6.5 s/it", "sec/step: 6.5"}) {
    EXPECT_THAT(problem(line), Not(HasSubstr("has no time of a step"))) << line;
  }
}

TEST(LogScanner, ALineGluedToAnotherIsLeftOut) {
  EXPECT_EQ(TimeIn("step: ([0-9.]+)",
                   "Epoch 1, sec/step: 0.5Epoch 1, sec/step: 0.5\n"
                   "Epoch 1, sec/step: 0.6\nEpoch 1, sec/step: 0.7\n"
                   "Epoch 1, sec/step: 0.8\nEpoch 1, sec/step: 0.9"),
            0.6);
  EXPECT_THAT(fakes::ErrorOf([] {
                return TimeIn("took ([0-9.]+)",
                              "10 steps took 60.5 s\nsaving took 1.2 s\n"
                              "10 steps took 60.7 s\nsaving took 1.3 s\n");
              }),
              HasSubstr("has no time of a step"));
}

TEST(LogScanner, APartOfAStepIsRefused) {
  for (const auto& each : std::vector<std::pair<std::string, std::string>>{
           {"data_time: ([0-9.]+)",
            "iter: 19  total_loss: 1.2  time: 0.34  data_time: 0.0123  lr: 1"},
           {"Data: ([0-9.]+)", "Time: 0.350s, 731.43/s  Data: 0.010 (0.015)"},
           {"Data \\(t\\): ([0-9.]+)",
            "Data (t): 0.012 Batch (t): 0.845, 606/s"},
           {"fwd_bwd_time=([0-9.]+)", "step=10 loss=2.3 fwd_bwd_time=6.15"},
           {"gen:([0-9.]+)", "step:3 - timing_s/gen:50.1 - timing_s/step:99.2"},
           {"step_time=([0-9.]+)", "backward_time=0.2, optim_step_time=0.050"},
           {"fwd ([0-9.]+) ms", "step 3 fwd 300.1 ms bwd 600.2 ms"},
           {"([0-9.]+) ms python", "5 820.4 ms run, 812.3 ms python, 8.1 ms"},
           {"\\| step: ([0-9.]+)", "time (ms) | fwd: 30 | bwd: 50 | step: 9.1"},
       }) {
    EXPECT_THAT(fakes::ErrorOf([&] { return TimeIn(each.first, each.second); }),
                HasSubstr("has no time of a step"))
        << each.second;
  }
  EXPECT_EQ(TimeIn(" time: ([0-9.]+)", "iter: 19  time: 0.34  data_time: 0.01"),
            0.34);
  EXPECT_EQ(TimeIn("([0-9.]+) s", "step 3: 0.5 s, data 0.01 s"), 0.5);
  EXPECT_EQ(TimeIn("took ([0-9.]+) s", "data parallel step 3 took 0.5 s"), 0.5);
  EXPECT_EQ(TimeIn("([0-9.]+)$", "'train_speed(s/it)': 4.5"), 4.5);
}

TEST(LogScanner, AMicrobatchIsNoStep) {
  constexpr StepSizes kFour = {64, 4096, 8, 4};
  const auto error = [&](const LogPatterns& patterns, const std::string& log) {
    return fakes::ErrorOf([&] { return ReadLog(patterns, kFour, log); });
  };
  const LogPatterns took = Patterns("step_time_s = 'took ([0-9.]+) s'");
  for (const char* line :
       {"micro step 7 took 1.2 s", "step 3 microbatch 2/4 took 1.2 s",
        "iter 12 step 3 | loss 1.2 | took 1.2 s"}) {
    EXPECT_THAT(error(took, line), HasSubstr("and a step has 4")) << line;
    EXPECT_EQ(TimeIn("took ([0-9.]+) s", line), 1.2) << "with one in a step";
  }
  EXPECT_EQ(error(took, "step 3 took 1.2 s, micro batch size 4"), "no error");
  const auto bar = [](const std::string& name) {
    return name + ": 10%|#  | 10/100 [00:30<04:30, 3.00s/it]\r" + name +
           ": 20%|##  | 20/100 [01:00<04:00, 3.00s/it]";
  };
  const Adapter accelerate = Adapter::Find("accelerate-fsdp");
  EXPECT_THAT(error(accelerate.log(), bar("Training")),
              HasSubstr("microbatch"));
  EXPECT_EQ(error(accelerate.log(), bar("Steps")), "no error");
  EXPECT_THAT(error(Patterns("step_time_s = '([0-9.]+)s/it'"), bar("Epoch 0")),
              HasSubstr("microbatch"));
  const Adapter nemo = Adapter::Find("nemo");
  EXPECT_THAT(error(nemo.log(), bar("Epoch 0")), HasSubstr("microbatch"));
  EXPECT_EQ(error(nemo.log(),
                  "Epoch 0:  2%|#  | 2/100 [00:06<04:54, 3.00s/it, "
                  "v_num=3, train_step_timing in s=2.98]"),
            "no error");
}

TEST(LogScanner, TheClockTellsWholeStepsFromOthers) {
  // A program is uneven by milliseconds, unlike a ticker.
  const auto lines = [](double clock_s, const char* form, int uneven_ms = 7) {
    std::vector<std::string> log;
    for (int i = 1; i <= 6; ++i) {
      const int ms = static_cast<int>(1e3 * clock_s) * i + i % 2 * uneven_ms;
      log.push_back(fmt::format(fmt::runtime(form), ms / 60000,
                                ms % 60000 / 1000, ms % 1000, i));
    }
    return log;
  };
  const auto error = [&](double clock_s, const char* form) {
    return fakes::ErrorOf(
        [&] { return ReadLines("took ([0-9.]+) s", lines(clock_s, form)); });
  };
  EXPECT_THAT(error(5.0, "12:{:02}:{:02},{:03} step {} took 1.5 s"),
              HasSubstr("a part of a step"));
  EXPECT_THAT(error(1.5, "12:{:02}:{:02},{:03} step {} took 5.0 s"),
              HasSubstr("several steps"));
  EXPECT_EQ(fakes::ErrorOf([&] {
              return ReadLines(
                  "took ([0-9.]+) s",
                  lines(1.0, "12:{:02}:{:02},{:03} step {} took 5.0 s", 0));
            }),
            "no error");
  EXPECT_EQ(error(2.0, "12:{:02}:{:02},{:03} step {} took 1.5 s"), "no error");
  EXPECT_EQ(error(15.0, "12:{:02}:{:02},{:03} step {}0 took 1.5 s"), "no error")
      << "a line is for ten steps";
  EXPECT_THAT(error(3.0, "12:{:02}:{:02},{:03} step {} took 1.5 s"),
              HasSubstr("a part of a step"))
      << "half a step, as of another batch";
  EXPECT_THAT(error(15.0, "12:{:02}:{:02},{:03} at {}: took 1.5 s"),
              HasSubstr("print the number of the step, too"))
      << "lines without a number may leave steps out";
  EXPECT_THAT(error(0.15, "12:{:02}:{:02},{:03} step {} took 1.5 s"),
              HasSubstr("several steps"));
  EXPECT_THAT(error(0.15, "12:{:02}:{:02},{:03} step {} took 0.015 s"),
              HasSubstr("a part of a step"));
  const LogPatterns took = Patterns("step_time_s = 'took ([0-9.]+) s'");
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Live(took, {{10.0, "step 1 took 1.5 s"},
                                   {15.0, "step 2 took 1.5 s"},
                                   {20.0, "step 3 took 1.6 s"}});
              }),
              HasSubstr("a step each 5 s, and the pattern finds 1.5 s"));
}

TEST(LogScanner, AnOddGapBetweenLinesDoesNotHideTheClock) {
  // Times of steps, and what the gaps before some of them have, too.
  const auto error = [](double clock_s, double shown_s,
                        const std::vector<std::pair<int, double>>& odd,
                        bool restarts = false) {
    std::vector<std::string> log;
    double now_s = 86400.0 - 10.0 * clock_s;
    for (int i = 1; i <= 30; ++i) {
      now_s += clock_s + 0.003 * (i % 2);
      for (const auto& [step, more_s] : odd) {
        now_s += step == i ? more_s : 0.0;
      }
      const double day_s = std::fmod(now_s, 86400.0);
      log.push_back(fmt::format(
          "{:02}:{:02}:{:06.3f} step {} took {} s",
          static_cast<int>(day_s) / 3600, static_cast<int>(day_s) / 60 % 60,
          std::fmod(day_s, 60.0), restarts && i > 20 ? i - 20 : i, shown_s));
    }
    return fakes::ErrorOf([&] { return ReadLines("took ([0-9.]+)", log); });
  };
  for (const auto& odd : std::vector<std::vector<std::pair<int, double>>>{
           {}, {{9, 60.0}}, {{5, 60.0}, {19, -40.0}, {25, 60.0}}}) {
    for (const bool restarts : {false, true}) {
      EXPECT_THAT(error(45.0, 15.0, odd, restarts), HasSubstr("each 45 s"));
      EXPECT_THAT(error(5.0, 15.0, odd, restarts), HasSubstr("each 5 s"));
      EXPECT_EQ(error(15.0, 14.5, odd, restarts), "no error");
      EXPECT_THAT(error(15.0, 19.0, {}, restarts), HasSubstr("each 15 s"));
    }
  }
}

TEST(LogScanner, TheClockOfATrialRulesOutTimesOfShortSteps) {
  const LogPatterns took = Patterns("step_time_s = 'took ([0-9.]+)'");
  // Lines each `clock_s`, or `together` of them at once, after a start.
  const auto error = [&](double clock_s, const std::vector<double>& shown_s,
                         int together = 1, const char* form = "step {} took {}",
                         double start_s = 8.0) {
    std::vector<std::pair<double, std::string>> lines;
    for (int i = 0; i < std::ssize(shown_s); ++i) {
      const int late = (i / together + 1) * together;
      lines.emplace_back(start_s + clock_s * late + 1e-4 * i,
                         fmt::format(fmt::runtime(form), i + 1, shown_s[i]));
    }
    return fakes::ErrorOf([&] { return Live(took, lines); });
  };
  const auto all = [](double shown_s, int steps = 5) {
    return std::vector<double>(steps, shown_s);
  };
  EXPECT_EQ(error(0.12, all(0.119)), "no error");
  EXPECT_THAT(error(0.12, all(0.012)), HasSubstr("a part of a step"));
  EXPECT_THAT(error(0.12, all(0.012), 1, "at {}: took {}"),
              HasSubstr("a part of a step"));
  EXPECT_THAT(error(0.12, all(120.0)),
              HasSubstr("5 steps of 120 s in a trial"));
  EXPECT_THAT(error(0.12, all(120.0), 5),
              HasSubstr("5 steps of 120 s in a trial"));
  EXPECT_THAT(error(0.12, all(2.1), 1, "at {}: took {}"),
              HasSubstr("several steps"));
  EXPECT_THAT(error(0.12, {1.8, 1.6, 1.5, 1.4, 1.2}),
              HasSubstr("a mean with slow first steps"));
  EXPECT_THAT(error(0.12, all(0.2, 20)), HasSubstr("several steps"));
  for (const int together : {2, 3, 5, 20}) {
    EXPECT_EQ(error(0.12, all(0.119, 20), together), "no error")
        << "a buffer of " << together;
  }
}

TEST(LogScanner, StepsOnOtherDataAreNoSteps) {
  EXPECT_EQ(TimeIn("([0-9.]+) s", "[rank0]: eval step 3: 1.5 s"), std::nullopt);
  EXPECT_EQ(TimeIn("([0-9.]+) s", "step 3, evaluated: 1.5 s"), 1.5);
}

TEST(LogScanner, APatternThatTakesAPartOfANumberMeansAllOfIt) {
  EXPECT_EQ(TimeIn("took.*([0-9.]+) s", "took 12.5 s"), 12.5);
  EXPECT_EQ(TimeIn("took ([0-9]+)", "took 8.25 s"), 8.25);
  EXPECT_EQ(TimeIn("took ([0-9.]+)", "took 1.22K s"), 1220.0);
  EXPECT_EQ(TimeIn("took ([0-9.]+)", "took 8e-1 s"), 0.8);
  EXPECT_EQ(TimeIn("took .([0-9.]+),", "took (0.9,0.8)"), 0.9);
  EXPECT_EQ(TimeIn("took ([0-9.]+)", "took 0:01:03"), std::nullopt);
  EXPECT_EQ(TimeIn("took ([0-9.]+)", "took 80% of it"), std::nullopt);
}

// In a backtracking matcher the first two take years, and the last one needs a
// stack as deep as the line is long.
TEST(LogScanner, TakesLinearTimeForEveryPattern) {
  const std::string line = "took " + std::string(4000, 'x');
  EXPECT_EQ(TimeIn("took (x+x+)+y", line), std::nullopt);
  EXPECT_EQ(TimeIn("(?:.*)*took ([0-9.]+)s(?:(?:\\w+ ?)*:)?", line),
            std::nullopt);
  EXPECT_EQ(TimeIn("took ((?:1|2)+)", "took " + std::string(4000, '1')),
            std::nullopt);
}

TEST(LogScanner, MeasuresTheTimeBetweenLinesThatEndASteps) {
  const Adapter adapter = Adapter::Find("hf-trainer");
  const std::string line =
      "{'loss': '4.1', 'grad_norm': '2.3', 'learning_rate': '4.5e-05', "
      "'epoch': '0.1'}";
  EXPECT_THAT(Live(adapter.log(),
                   {{3.0, line}, {3.5, "  0%|          | 0/10"}, {3.75, line}}),
              ElementsAre(3.0, 0.75));
}

TEST(LogScanner, EvaluationIsNoPartOfAStepByTheClock) {
  const Adapter adapter = Adapter::Find("hf-trainer");
  std::vector<std::pair<double, std::string>> lines;
  double now_s = 3.0;
  for (int step = 1; step <= 6; ++step) {
    lines.emplace_back(now_s += 0.5, "{'loss': 2.3}");
    if (step % 2 == 0) {
      lines.emplace_back(now_s += 1.0, "{'eval_loss': 2.2}");
    }
  }
  EXPECT_THAT(Live(adapter.log(), lines),
              ElementsAre(3.5, 0.5, 0.5, 0.5, 0.5, 0.5));
}

// Four nodes print the line of a step, some milliseconds apart.
TEST(LogScanner, LinesOfSeveralNodesAreOneStepByTheClock) {
  const Adapter adapter = Adapter::Find("hf-trainer");
  std::vector<std::pair<double, std::string>> lines;
  for (int step = 1; step <= 5; ++step) {
    for (int node = 0; node < 4; ++node) {
      lines.emplace_back(8.0 + 0.5 * step + 0.004 * node, "{'loss': 2.3}");
    }
  }
  std::string note;
  const std::vector<double> steps = Live(adapter.log(), lines, &note);
  ASSERT_THAT(steps, SizeIs(5));
  for (int i = 1; i < 5; ++i) {
    EXPECT_NEAR(steps[i], 0.5, 1e-9);
  }
  EXPECT_EQ(note, "4 lines a step, counted once");
}

TEST(LogScanner, ShortStepsByTheClockAreSteps) {
  const Adapter adapter = Adapter::Find("hf-trainer");
  std::vector<std::pair<double, std::string>> lines;
  for (int step = 1; step <= 9; ++step) {
    lines.emplace_back(3.0 + 0.01 * step, "{'loss': 2.3}");
  }
  std::string note;
  EXPECT_THAT(Live(adapter.log(), lines, &note), SizeIs(9));
  EXPECT_EQ(note, "");
}

// Four ranks print each step, without a number of the rank or of the step.
TEST(LogScanner, LinesWithinAFractionOfAStepAreOneStep) {
  const LogPatterns patterns = Patterns("step_time_s = 'took ([0-9.]+) s'");
  std::vector<std::pair<double, std::string>> lines;
  for (int step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      lines.emplace_back(5.0 + 0.8 * step + 0.02 * rank, "took 0.8 s");
    }
  }
  std::string note;
  EXPECT_THAT(Live(patterns, lines, &note), ElementsAre(0.8, 0.8, 0.8));
  EXPECT_EQ(note, "4 lines a step, counted once");
}

TEST(LogScanner, LinesWithTheNumberOfAStepAreOneStepAtAnyTime) {
  const std::vector<std::string> lines = {
      "step 1: took 5.0 s", "step 1: took 5.1 s", "step 2: took 0.8 s",
      "step 2: took 0.9 s", "step 3: took 0.8 s", "step 3: took 0.9 s"};
  const LogSteps steps = ReadLines("took ([0-9.]+) s", lines);
  EXPECT_THAT(steps.step_times_s, ElementsAre(5.0, 0.8, 0.8));
  EXPECT_EQ(steps.note, "2 lines a step, counted once");
}

TEST(LogScanner, InAFileTheTimeOfDayOrTheNameOfTheRankTellsStepsApart) {
  EXPECT_THAT(ReadLines("took ([0-9.]+) s",
                        {"12:00:01.000 took 5.0 s", "12:00:01.003 took 5.0 s",
                         "12:00:01.900 took 0.8 s", "12:00:01.901 took 0.8 s"})
                  .step_times_s,
              ElementsAre(5.0, 0.8));
  const LogSteps ranks = ReadLines(
      "took ([0-9.]+) s", {"rank 0: took 5.0 s", "rank 1: took 5.1 s",
                           "rank 0: took 0.8 s", "rank 1: took 0.9 s"});
  EXPECT_THAT(ranks.step_times_s, ElementsAre(5.0, 0.8));
  EXPECT_EQ(ranks.note, "2 lines a step, counted once");
}

// A bar's rate is a mean since its beginning (Lightning) or smoothed.
TEST(LogScanner, ABarTellsByItsTimeWhereItsRateHasTheSlowFirstSteps) {
  const LogPatterns patterns = Adapter::Find("nemo").log();
  const auto bar = [](int count, const char* elapsed, const char* rate) {
    return fmt::format("Epoch 0:  22%|##   | {}/90 [{}<01:02,  {}, v_num=1]\n",
                       count, elapsed, rate);
  };
  EXPECT_THAT(
      ReadLog(patterns, kSizes,
              bar(1, "00:08", "8.77s/it") + bar(11, "00:38", "3.45s/it"))
          .step_times_s,
      ElementsAre(3.0));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return ReadLog(
                    patterns, kSizes,
                    bar(1, "00:08", "8.77s/it") + bar(5, "00:20", "4.14s/it"));
              }),
              HasSubstr("has the slow first steps in it"));
}

// Bars from one count to another, whose steps have each the same time.
std::string Bars(int from, int to, int total, double step_s,
                 double elapsed_s = 0.0) {
  std::string text;
  for (int i = from; i <= to; ++i) {
    const int seconds = static_cast<int>(elapsed_s + (i - from + 1) * step_s);
    text += fmt::format("  3%|#   | {}/{} [{:02}:{:02}<49:00, {:.2f}s/it]\r", i,
                        total, seconds / 60, seconds % 60, step_s);
  }
  return text;
}

TEST(LogScanner, ABarCountsNeitherEvaluationsNorOtherRuns) {
  const LogPatterns hf = Adapter::Find("hf-trainer").log();
  const auto time = [&](const std::string& text) {
    return ReadLog(hf, kSizes, text).step_times_s.at(0);
  };
  const std::string dict = "\n{'eval_loss': 2.1, 'eval_runtime': 150.0}\n";
  const std::string evaluation = Bars(1, 50, 50, 3.0);
  for (const double step_s : {0.7, 2.0, 15.0}) {
    std::string quiet;
    std::string shown;
    for (int i = 0; i < 12; ++i) {
      const std::string bars = Bars(10 * i + 1, 10 * i + 10, 120, step_s,
                                    i * (10.0 * step_s + 150.37));
      quiet += bars + dict;
      shown += bars + "\n" + evaluation + dict;
    }
    EXPECT_NEAR(time(quiet), step_s, 0.06 * step_s);
    EXPECT_NEAR(time(shown), step_s, 0.06 * step_s);
    EXPECT_NEAR(time(Bars(1, 60, 60, step_s) + evaluation + dict), step_s,
                0.06 * step_s)
        << "at the end";
    EXPECT_NEAR(time(Bars(1, 60, 90, step_s) + Bars(41, 90, 90, step_s)),
                step_s, 0.06 * step_s)
        << "a crash";
  }
  EXPECT_THAT(
      fakes::ErrorOf([&] { return time(evaluation + Bars(1, 40, 90, 15.0)); }),
      HasSubstr("bars of 50 and of 90"));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return time(Bars(2, 2, 3, 0.6) + "\n" +
                            Bars(281, 284, 873, 4.3, 1536.0));
              }),
              HasSubstr("bars of 3 and of 873"))
      << "both short";
  EXPECT_THAT(
      fakes::ErrorOf([&] {
        return time(Bars(1, 15, 15, 12.0) + "\n" + Bars(1, 4, 200, 3.0));
      }),
      HasSubstr("bars of 15 and of 200"))
      << "one that has ended before another begins";
  EXPECT_NEAR(
      time("{'train_samples_per_second': 21.3}\n" + Bars(1, 500, 500, 0.4)),
      64 / 21.3, 0.01)
      << "a bar after the end of training";
  EXPECT_THAT(fakes::ErrorOf([&] { return time(Bars(1, 1, 90, 31.0)); }),
              HasSubstr("has the slow first steps in it"));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return time(dict + "{'train_samples_per_second': 160.0}");
              }),
              HasSubstr("with the time of evaluations in it"));
}

std::string Numbered(int from, int to, double step_s, const char* form) {
  std::string text;
  for (int i = from; i <= to; ++i) {
    text += fmt::format(fmt::runtime(form), i, step_s + 0.01 * (i % 2)) + "\n";
  }
  return text;
}

TEST(LogScanner, OfSeveralRunsInAFileTheLastOneCounts) {
  for (const char* form :
       {"step: {} took {:.2f} s", "[rank0] iteration {} | took {:.2f}"}) {
    for (const char* step : {"", "step = '(?:step:|iteration) +(\\d+)'"}) {
      const auto median = [&](const std::string& text) {
        return ReadLines("took ([0-9.]+)", {text}, step).step_times_s.at(1);
      };
      const std::string slow = Numbered(1, 20, 5.0, form);
      EXPECT_NEAR(median(slow + Numbered(1, 20, 1.5, form)), 1.5, 0.02);
      EXPECT_NEAR(median(slow + Numbered(1, 8, 1.5, form)), 1.5, 0.02)
          << "a shorter one";
      EXPECT_NEAR(median(slow + Numbered(15, 22, 1.5, form)), 1.5, 0.02)
          << "from a checkpoint";
      EXPECT_NEAR(median(slow + Numbered(1, 20, 3.0, form) +
                         Numbered(1, 20, 1.5, form)),
                  1.5, 0.02);
      EXPECT_NEAR(median(Numbered(1, 2, 5.0, form) + Numbered(1, 9, 1.5, form)),
                  1.5, 0.02)
          << "a crash after two steps";
      EXPECT_THAT(fakes::ErrorOf([&] {
                    return median(slow + Numbered(15, 15, 9.0, form));
                  }),
                  HasSubstr("its last run has one step"));
      std::string mixed;
      for (int i = 1; i <= 20; ++i) {
        mixed += Numbered(i, i, 5.0, form) + Numbered(i, i, 1.5, form);
      }
      EXPECT_THAT(fakes::ErrorOf([&] { return median(mixed); }),
                  HasSubstr("two runs wrote at the same time"));
    }
  }
  // Two ranks, one after the other, and epochs that count from the beginning.
  const char* form = "step: {} took {:.2f} s";
  EXPECT_THAT(ReadLines("took ([0-9.]+)",
                        {Numbered(1, 8, 1.5, form) + Numbered(1, 8, 1.6, form)})
                  .step_times_s,
              SizeIs(8));
  EXPECT_THAT(ReadLines("took ([0-9.]+)", {Numbered(1, 30, 1.5, form) +
                                           Numbered(1, 30, 1.6, form)})
                  .step_times_s,
              SizeIs(60));
}

TEST(LogScanner, TheNumberOfAStepIsNoLineOfTheSource) {
  const auto steps = [](const char* form) {
    std::vector<std::string> lines;
    for (int i = 1; i <= 6; ++i) {
      lines.push_back(fmt::format(fmt::runtime(form), i, i == 1 ? 6.57 : 0.57));
    }
    return ReadLines(" time: ([0-9.]+)", lines).step_times_s;
  };
  for (const char* form : {
           "INFO | core.trainer:after_iter:238 - epoch: 4, iter: {}/7393, "
           "step time: {}s",
           "INFO:root:step {}, step time: {}",
           "mmengine - INFO - Iter(train) [{}0/2046]  eta: 0:29:39  time: {}",
           "mmdet - INFO - Epoch [1][{}0/7517]  eta: 4:44:04, time: {}, "
           "data_time: 0.031",
           "INFO:train:train_step:88 global_step: {} time: {}",
       }) {
    EXPECT_THAT(steps(form), SizeIs(6)) << form;
  }
}

TEST(LogScanner, ALabelOfARateInFrontOfANumberIsRefused) {
  for (const char* label :
       {"It/sec ", "its/s: ", "it/s=", "it_per_s: ", "ex/s: ", "up/s ",
        "steps/min: ", "iters per hour: ", "grad_norm: ", "ppl: ", "acc: ",
        "memory=", "time_remaining_h: ", "Time/seq ", "time per sample: "}) {
    EXPECT_THAT(fakes::ErrorOf([&] {
                  return ReadLines(std::string(label) + "([0-9.]+)",
                                   {fmt::format("Iter 11: {}1.019", label),
                                    fmt::format("Iter 12: {}1.018", label),
                                    fmt::format("Iter 13: {}1.018", label)});
                }),
                Not("no error"))
        << label;
  }
}

TEST(LogScanner, TimesThatOnlyGrowOrFallAreNotSettled) {
  const auto error = [](const std::vector<double>& times_s,
                        const char* form = "x{} took {} s") {
    std::vector<std::string> lines;
    for (const double time_s : times_s) {
      lines.push_back(
          fmt::format(fmt::runtime(form), lines.size() + 2, time_s));
    }
    return fakes::ErrorOf([&] { return ReadLines("took ([0-9.]+)", lines); });
  };
  EXPECT_THAT(error({9.1, 10.1, 11.1, 12.1}), HasSubstr("only grow"));
  EXPECT_THAT(error({7.5, 32.5, 62.5}), HasSubstr("only grow"));
  EXPECT_THAT(error({35.9, 19.5, 18.7, 14.7}), HasSubstr("only fall"));
  EXPECT_THAT(error({9.0, 5.51, 4.25, 4.25, 3.9, 3.5}), HasSubstr("only fall"));
  EXPECT_EQ(error({30.5, 2.3, 2.25, 2.24}), "no error") << "a slow start";
  EXPECT_EQ(error({2.1, 2.2, 2.15, 2.2}), "no error");
  EXPECT_THAT(error({12, 1, 1, 2, 1}, "x{} took {:.0f} s"),
              HasSubstr("whole seconds"));
  EXPECT_EQ(error({120, 100, 101, 100}, "x{} took {:.0f} s"), "no error");
}

TEST(LogScanner, ABarOfMicrobatchesIsRefusedBehindAnyHead) {
  StepSizes sizes = kSizes;
  sizes.microbatches = 4;
  const LogPatterns patterns = Adapter::Find("accelerate-fsdp").log();
  for (const char* head :
       {"", "worker-0  | ", "2026-01-02T03:04:05.678Z ", "[rank0]: ", "0: "}) {
    for (const char* label :
         {"", "Epoch 1: ", "training: ", "1|1|Loss: 1.4: "}) {
      const std::string line = fmt::format(
          "{}{}  3%|#   | 2/90 [00:30<49:00, 2.50s/it]", head, label);
      EXPECT_THAT(
          fakes::ErrorOf([&] { return ReadLog(patterns, sizes, line); }),
          HasSubstr("may be of a microbatch"))
          << line;
    }
  }
}

TEST(LogScanner, CountsOfMicrobatchesAndStepsTellThemApart) {
  const auto error = [](int of_step) {
    std::vector<std::string> lines;
    for (int i = 46; i <= 60; ++i) {
      lines.push_back(fmt::format("Epoch 1 | iter {} step {} | iter time: {}.5",
                                  i, i / of_step, i % 3 + 10));
    }
    return fakes::ErrorOf(
        [&] { return ReadLines("iter time: ([0-9.]+)", lines); });
  };
  EXPECT_EQ(error(1), "no error");
  EXPECT_THAT(error(5), HasSubstr("may be of a microbatch, and a step has"));
  EXPECT_THAT(error(100), HasSubstr("may be of a microbatch, and a step has"));
}

TEST(LogScanner, OnlyLinesOfTheBatchOfTheJobCount) {
  const auto steps = [](int first, int second) {
    std::vector<std::string> lines;
    for (int i = 1; i <= 11; ++i) {
      lines.push_back(fmt::format(
          "iteration {}/ 100 | elapsed time per iteration (ms): {}.5 | global "
          "batch size: {} |",
          i, i < 7 ? 1100 : 2100, i < 7 ? first : second));
    }
    return ReadLines("iteration .ms.: ([0-9.]+)", lines).step_times_s;
  };
  EXPECT_THAT(steps(32, 64), testing::Each(testing::DoubleNear(2.1, 0.01)));
  EXPECT_THAT(steps(64, 128), testing::Each(testing::DoubleNear(1.1, 0.01)));
  EXPECT_THAT(steps(32, 128), testing::IsEmpty());
}

TEST(LogScanner, TheRateInABarIsReadByTheTimeOfTheBar) {
  std::string text;
  for (int i = 1; i <= 30; ++i) {  // 2.5 s, but 30 s for the first one
    const double elapsed_s = 27.5 + 2.5 * i;
    text += fmt::format(
        "steps:   3%|#   | {}/90 [{:02}:{:02}<49:00, "
        "{:.2f}s/it, loss=2]\r",
        i, static_cast<int>(elapsed_s) / 60, static_cast<int>(elapsed_s) % 60,
        elapsed_s / i);
  }
  EXPECT_THAT(ReadLines("([0-9.]+)s/it", {text}).step_times_s,
              ElementsAre(testing::DoubleNear(2.5, 0.1)));
  for (const char* head :
       {"", "worker-0  | ", "2026-01-02T03:04:05.678Z ", "[rank0]: "}) {
    std::string lines = head + text;
    for (std::size_t at = 0; (at = lines.find('\r', at)) != std::string::npos;
         ++at) {
      lines.replace(at, 1, std::string("\n") + head);
    }
    EXPECT_THAT(ReadLog(Adapter::Find("accelerate-fsdp").log(), kSizes, lines)
                    .step_times_s,
                ElementsAre(testing::DoubleNear(2.5, 0.1)))
        << head;
  }
}

TEST(LogPatterns, WhereNothingMatchesTheMostSimilarLinesAreNamed) {
  const std::string text = WhatWasTried(
      Adapter::Find("megatron-lm").log(),
      "loading 12 files\nelapsed: 812 per step 1\nelapsed: 813 per step 2\n"
      "iteration 3 | took 812\nvocabulary 32000\n");
  EXPECT_THAT(text,
              testing::AllOf(HasSubstr("tried 'elapsed time per iteration"),
                             HasSubstr("\n  elapsed: 812 per step 1\n"),
                             HasSubstr("\n  iteration 3 | took 812"),
                             testing::Not(HasSubstr("step 2")),
                             testing::Not(HasSubstr("vocabulary"))));
}

TEST(LogScanner, IgnoresImpossibleNumbersAndLongLines) {
  const auto has = [](const std::string& line) {
    return TimeIn("took ([0-9.e]+) s", line).has_value();
  };
  EXPECT_FALSE(has("took 0 s"));
  EXPECT_FALSE(has("took 1e9 s"));
  EXPECT_FALSE(has("took 1.2.3 s"));
  EXPECT_FALSE(has(std::string(1 << 20, 'x')));
  EXPECT_TRUE(has("took 2.5 s"));
}

TEST(LogPatterns, NamesAnInvalidExpressionAndItsPlace) {
  const auto read = [](const std::string& text) {
    return fakes::ErrorOf([&] {
      return ReadLogPatterns(common::TomlTable::ParseString(text, "p"));
    });
  };
  EXPECT_NE(read("step_time_s = '('").find("p:1:15"), std::string::npos);
  EXPECT_NE(read("step_time_s = 'took'").find("parentheses"),
            std::string::npos);
  EXPECT_NE(read("step_tim_s = '(1)'").find("step_time_s"), std::string::npos);
}

// What a log of one line, "x NUMBER", says with one pattern.
LogSteps ReadOne(const std::string& key, const std::string& number) {
  return ReadLog(Patterns(key + " = 'x ([-0-9.e+A-Z,]+)'"), kSizes,
                 "x " + number + "\nx " + number);
}

// 64 sequences of 4096 tokens on 8 GPUs.
TEST(LogScanner, EveryKeyHasItsUnit) {
  const auto step_s = [](const char* key, const char* number) {
    return ReadOne(key, number).step_times_s.at(0);
  };
  EXPECT_DOUBLE_EQ(step_s("step_time_s", "2.5"), 2.5);
  EXPECT_DOUBLE_EQ(step_s("step_time_ms", "2500"), 2.5);
  EXPECT_DOUBLE_EQ(step_s("steps_per_s", "4"), 0.25);
  EXPECT_DOUBLE_EQ(step_s("samples_per_s", "128"), 0.5);
  EXPECT_DOUBLE_EQ(step_s("tokens_per_s", "1024"), 64 * 4096 / 1024.0);
  EXPECT_DOUBLE_EQ(step_s("tokens_per_s_per_gpu", "1024"), 8 * 4096 / 1024.0);
  const auto bytes = [](const char* key) {
    return ReadOne(key, "3").peak.bytes;
  };
  EXPECT_DOUBLE_EQ(bytes("memory_bytes"), 3.0);
  EXPECT_DOUBLE_EQ(bytes("memory_kib"), 3.0 * 1024);
  EXPECT_DOUBLE_EQ(bytes("memory_mib"), 3.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(bytes("memory_gib"), 3.0 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(bytes("memory_mb"), 3e6);
  EXPECT_DOUBLE_EQ(bytes("memory_gb"), 3e9);
}

TEST(LogScanner, NumbersHaveSeparatorsAndSuffixes) {
  const auto value = [](const char* number) {
    return ReadOne("memory_bytes", number).peak.bytes;
  };
  EXPECT_DOUBLE_EQ(value("1,234.5"), 1234.5);
  EXPECT_DOUBLE_EQ(value("1.5K"), 1.5e3);
  EXPECT_DOUBLE_EQ(value("1.5M"), 1.5e6);
  EXPECT_DOUBLE_EQ(value("1.5B"), 1.5e9);
  EXPECT_DOUBLE_EQ(value("1.5T"), 1.5e12);
  EXPECT_DOUBLE_EQ(value("1.5P"), 1.5e15);
  EXPECT_EQ(value("K"), 0.0);
  EXPECT_EQ(value(","), 0.0);
}

}  // namespace trials::log_scanner_test
