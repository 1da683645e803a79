#include "trials/programs/log_scanner.h"

#include <cmath>
#include <stdexcept>

#include "common/text.h"

namespace trials {
namespace {

using Quantity = LogPatterns::Quantity;

// A longer line is not a report.
constexpr std::size_t kLongestLine = 4096;

// "7,020", "1.22K", "0.5". Another comma may be a decimal one.
std::optional<double> Number(std::string text) {
  static const common::Pattern groups(
      "^[1-9][0-9]{0,2}(,[0-9]{3})+([^0-9,][^,]*)?$");
  while (text.ends_with(',')) {  // of the sentence
    text.pop_back();
  }
  if (text.find(',') != std::string::npos && !groups.IsIn(text)) {
    return std::nullopt;
  }
  std::erase(text, ',');
  double factor = 1.0;
  constexpr std::string_view kSuffixes = "KMBTPE";
  if (!text.empty()) {
    const std::size_t suffix = kSuffixes.find(text.back());
    if (suffix != std::string_view::npos) {
      factor = std::pow(1e3, static_cast<double>(suffix) + 1.0);
      text.pop_back();
    }
  }
  try {
    return factor * common::ParseDouble(text);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// The number that a line has; nothing if it does not match.
std::optional<double> Find(const common::Pattern& expression,
                           std::string_view line) {
  const std::vector<std::string_view> match = expression.Find(line);
  return match.empty() ? std::nullopt : Number(std::string(match[1]));
}

}  // namespace

std::optional<double> LogScanner::StepTime(const LogPatterns::Pattern& pattern,
                                           double number) const {
  const double value = pattern.factor * number;
  switch (pattern.quantity) {
    case Quantity::kStepTime:
      return value;
    case Quantity::kSteps:
      return 1.0 / value;
    case Quantity::kSamples:
      return sizes_.sequences / value;
    case Quantity::kTokens:
      return sizes_.sequences * sizes_.tokens_of_sequence / value;
    case Quantity::kTokensOfGpu:
      return sizes_.sequences * sizes_.tokens_of_sequence /
             (value * sizes_.gpus);
    case Quantity::kMemory:
      break;
  }
  return std::nullopt;
}

TrialReport LogScanner::Numbers(std::string_view text) const {
  TrialReport report;
  for (const LogPatterns::Pattern& pattern : patterns_.patterns) {
    const std::optional<double> number = Find(pattern.expression, text);
    if (!number) {
      continue;
    }
    if (pattern.quantity == Quantity::kMemory) {
      const double bytes = pattern.factor * *number;
      if (bytes > 0.0 && bytes < kMostMemoryBytes) {
        report.peak_memory_bytes = bytes;
      }
    } else if (!report.step_time_s) {
      report.step_time_s = StepTime(pattern, *number);
    }
  }
  return report;
}

bool LogScanner::TakeStep(std::string_view text) {
  const std::optional<double> step = Find(*patterns_.step, text);
  const bool is_above = step && *step > last_step_;
  last_step_ = is_above ? *step : last_step_;
  return is_above;
}

std::optional<TrialReport> LogScanner::Read(std::string_view line,
                                            double now_s) {
  const std::string_view text = line.substr(0, kLongestLine);
  TrialReport report = Numbers(text);
  if (patterns_.ends_step && !report.step_time_s &&
      patterns_.ends_step->IsIn(text)) {
    report.step_time_s = now_s - last_s_;
  }
  if (report.step_time_s && patterns_.step && !TakeStep(text)) {
    report.step_time_s.reset();
  }
  last_s_ = report.step_time_s ? now_s : last_s_;
  if (report.step_time_s && !(*report.step_time_s >= kLeastStepSeconds &&
                              *report.step_time_s <= kMostStepSeconds)) {
    report.step_time_s.reset();
  }
  return report.step_time_s || report.peak_memory_bytes ? std::optional(report)
                                                        : std::nullopt;
}

}  // namespace trials
