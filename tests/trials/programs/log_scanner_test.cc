// Each line has the form that the framework prints.

#include "trials/programs/log_scanner.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "trials/adapters/adapter.h"

namespace trials::log_scanner_test {

constexpr StepSizes kSizes = {64, 4096, 8};

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
       {" [2026-04-27 00:00:01.123456] iteration        1/       3 | consumed "
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
       {"01/01/2026 12:00:00 [INFO|DP=0|TP=0]: iteration: 5 / 15 | "
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
    LogScanner scanner(adapter.log(), kSizes, 0.0);
    std::vector<double> steps;
    double memory_bytes = 0.0;
    for (const std::string& line : each.lines) {
      const auto report = scanner.Read(line, 1.0).value_or(TrialReport());
      if (report.step_time_s) {
        steps.push_back(*report.step_time_s);
      }
      memory_bytes = report.peak_memory_bytes.value_or(memory_bytes);
    }
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_DOUBLE_EQ(steps[0], each.step_time_s);
    EXPECT_NEAR(memory_bytes, each.memory_bytes, 1.0);
  }
}

std::optional<double> TimeIn(const std::string& pattern,
                             const std::string& line) {
  const LogPatterns patterns = ReadLogPatterns(common::TomlTable::ParseString(
      "step_time_s = '" + pattern + "'", "adapter"));
  const auto report = LogScanner(patterns, kSizes, 0.0).Read(line, 1.0);
  return report ? report->step_time_s : std::nullopt;
}

TEST(LogScanner, TakesNoDecimalCommaForOneOfThousands) {
  const auto read = [](const std::string& number) {
    return TimeIn("took ([0-9.,]+)", "took " + number + " s");
  };
  EXPECT_EQ(read("7,020"), 7020.0);
  EXPECT_EQ(read("107,020.5"), 107020.5);
  EXPECT_EQ(read("0.06,"), 0.06);
  for (const std::string number :
       {"0,06", "0,060", "1,5", "12,34", "1,0200", "1.5,000", ",020"}) {
    EXPECT_EQ(read(number), std::nullopt) << number;
  }
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
  LogScanner scanner(adapter.log(), kSizes, 10.0);
  const std::string line =
      "{'loss': '4.1', 'grad_norm': '2.3', 'learning_rate': '4.5e-05', "
      "'epoch': '0.1'}";
  EXPECT_DOUBLE_EQ(*scanner.Read(line, 13.0)->step_time_s, 3.0);
  EXPECT_FALSE(scanner.Read("  0%|          | 0/10", 13.5));
  EXPECT_DOUBLE_EQ(*scanner.Read(line, 13.75)->step_time_s, 0.75);
}

TEST(LogScanner, IgnoresImpossibleNumbersAndLongLines) {
  const LogPatterns patterns = ReadLogPatterns(
      common::TomlTable::ParseString("step_time_s = 'took ([0-9.e]+) s'", "p"));
  LogScanner scanner(patterns, kSizes, 0.0);
  EXPECT_FALSE(scanner.Read("took 0 s", 1.0));
  EXPECT_FALSE(scanner.Read("took 1e9 s", 1.0));
  EXPECT_FALSE(scanner.Read("took 1.2.3 s", 1.0));
  EXPECT_FALSE(scanner.Read(std::string(1 << 20, 'x'), 1.0));
  EXPECT_TRUE(scanner.Read("took 2 s", 1.0));
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

// What a scanner with one pattern reads from "x NUMBER".
std::optional<TrialReport> ReadOne(const std::string& key,
                                   const std::string& number) {
  const LogPatterns patterns = ReadLogPatterns(
      common::TomlTable::ParseString(key + " = 'x ([-0-9.e+A-Z,]+)'", "p"));
  return LogScanner(patterns, kSizes, 0.0).Read("x " + number, 1.0);
}

// 64 sequences of 4096 tokens on 8 GPUs.
TEST(LogScanner, EveryKeyHasItsUnit) {
  const auto step_s = [](const char* key, const char* number) {
    return ReadOne(key, number)->step_time_s.value();
  };
  EXPECT_DOUBLE_EQ(step_s("step_time_s", "2.5"), 2.5);
  EXPECT_DOUBLE_EQ(step_s("step_time_ms", "2500"), 2.5);
  EXPECT_DOUBLE_EQ(step_s("steps_per_s", "4"), 0.25);
  EXPECT_DOUBLE_EQ(step_s("samples_per_s", "128"), 0.5);
  EXPECT_DOUBLE_EQ(step_s("tokens_per_s", "1024"), 64 * 4096 / 1024.0);
  EXPECT_DOUBLE_EQ(step_s("tokens_per_s_per_gpu", "1024"), 8 * 4096 / 1024.0);
  const auto bytes = [](const char* key) {
    return ReadOne(key, "3")->peak_memory_bytes.value();
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
    return ReadOne("memory_bytes", number)->peak_memory_bytes.value();
  };
  EXPECT_DOUBLE_EQ(value("1,234"), 1234.0);
  EXPECT_DOUBLE_EQ(value("1.5K"), 1.5e3);
  EXPECT_DOUBLE_EQ(value("1.5M"), 1.5e6);
  EXPECT_DOUBLE_EQ(value("1.5B"), 1.5e9);
  EXPECT_DOUBLE_EQ(value("1.5T"), 1.5e12);
  EXPECT_DOUBLE_EQ(value("1.5P"), 1.5e15);
  EXPECT_FALSE(ReadOne("memory_bytes", "K"));
  EXPECT_FALSE(ReadOne("memory_bytes", ","));
}

}  // namespace trials::log_scanner_test
