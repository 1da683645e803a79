#include "trials/command/trial_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"

namespace trials {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMark = "oppa ";
constexpr std::size_t kShown = 200;  // bytes of a line in a message

double Number(const Json& value, std::string_view key, double least) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!std::isfinite(number) || number < least) {
    throw std::invalid_argument(fmt::format("{} = {}: must be a number {} 0",
                                            key,
                                            value.dump(),
                                            least > 0.0 ? ">" : ">="));
  }
  return number;
}

Outcome Status(const Json& value) {
  if (value == "out_of_memory") {
    return Outcome::kOutOfMemory;
  }
  if (value == "failed") {
    return Outcome::kFailed;
  }
  throw std::invalid_argument(fmt::format(
      "status = {}: must be \"out_of_memory\" or \"failed\"", value.dump()));
}

TrialReport FromJson(const Json& json) {
  if (!json.is_object()) {
    throw std::invalid_argument("must be an object");
  }
  TrialReport report;
  for (const auto& [key, value] : json.items()) {
    if (key == "step_time_s") {
      report.step_time_s =
          Number(value, key, std::numeric_limits<double>::min());
    } else if (key == "peak_memory_bytes") {
      report.peak_memory_bytes = Number(value, key, 0.0);
    } else if (key == "status") {
      report.status = Status(value);
    } else if (key == "message") {
      report.message =
          value.is_string() ? value.get<std::string>() : value.dump();
    } else {
      throw std::invalid_argument(fmt::format(
          "unknown key '{}'; known are step_time_s, peak_memory_bytes, status, "
          "message",
          key));
    }
  }
  return report;
}

}  // namespace

std::optional<TrialReport> ParseTrialReport(std::string_view line) {
  line = common::Trim(line);
  if (!line.starts_with(kMark) || line.find('{') == std::string_view::npos ||
      common::Trim(line.substr(kMark.size())).front() != '{') {
    return std::nullopt;
  }
  try {
    return FromJson(Json::parse(line.substr(kMark.size())));
  } catch (const std::exception& e) {
    throw std::invalid_argument(fmt::format(
        "report '{}' cannot be read: {}", line.substr(0, kShown), e.what()));
  }
}

void LineReader::Take(
    std::string_view piece,
    const std::function<void(std::string_view line)>& on_line) {
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    line_ += part.substr(0, kLongest - std::min(line_.size(), kLongest));
    if (end == std::string_view::npos) {
      return;
    }
    on_line(line_);
    line_.clear();
    piece.remove_prefix(end + 1);
  }
}

void LineReader::Finish(
    const std::function<void(std::string_view line)>& on_line) {
  if (!line_.empty()) {
    on_line(line_);
    line_.clear();
  }
}

}  // namespace trials
