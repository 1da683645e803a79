#include "jobs/plan/comparison.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/units.h"
#include "jobs/plan/completion.h"
#include "plots/table.h"

namespace jobs {
namespace {

using common::InputError;
using common::kGiga;

// The parts of a step or of memory, which a calibration stretches evenly.
template <typename Breakdown>
trials::Components PartsOf(const Breakdown& parts, double total) {
  trials::Components stretched = ComponentsOf(parts);
  for (auto& [name, value] : stretched) {
    value *= total / parts.Total();
  }
  return stretched;
}

trials::Components TimesOf(const ComparedSide& side) {
  return PartsOf(side.report.busiest, side.one.step_time_s);
}

trials::Components BytesOf(const ComparedSide& side) {
  return PartsOf(side.report.memory, side.one.peak_memory_bytes);
}

struct Difference {
  std::string name;
  double first = 0.0;
  double second = 0.0;

  [[nodiscard]] double change() const { return second - first; }
};

// The parts of which one side has some, largest change first.
std::vector<Difference> Differences(const trials::Components& first,
                                    const trials::Components& second) {
  std::vector<Difference> all;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].second != 0.0 || second[i].second != 0.0) {
      all.push_back(
          {std::string(first[i].first), first[i].second, second[i].second});
    }
  }
  std::ranges::stable_sort(all, std::greater(), [](const Difference& one) {
    return std::abs(one.change());
  });
  return all;
}

// "+1.2 s optimizer, -0.3 s pipeline bubble", of those that matter.
std::string Causes(const std::vector<Difference>& all, double total,
                   double unit, std::string_view unit_name) {
  constexpr double kWorthNaming = 0.1;  // of the whole difference
  constexpr std::size_t kMost = 3;
  std::vector<std::string> causes;
  for (const Difference& one : all) {
    if (causes.size() < kMost &&
        std::abs(one.change()) > kWorthNaming * std::abs(total)) {
      causes.push_back(fmt::format("{:+.3g} {} {}", one.change() / unit,
                                   unit_name, one.name));
    }
  }
  return fmt::format("{}", fmt::join(causes, ", "));
}

// A row for the whole and one for each part that matters, with as many decimals
// as make four digits of the whole.
void AddParts(const std::vector<Difference>& all, const Difference& whole,
              double unit, plots::Table& table) {
  constexpr int kDigits = 4;
  constexpr double kShown = 1e-3;  // of the larger whole
  const double larger = std::max(whole.first, whole.second);
  const int decimals = std::max(
      0, kDigits - static_cast<int>(std::ceil(std::log10(larger / unit))));
  const auto add = [&](const Difference& one, std::string_view indent) {
    const auto number = [&](double value, const char* sign) {
      std::string text =
          fmt::format(fmt::runtime(sign), value / unit, decimals);
      if (text.find_first_not_of("-0.") == std::string::npos) {
        text.erase(0, text.find_first_not_of('-'));  // of zero, no sign
      }
      return plots::Figures(std::move(text));
    };
    table.Add({{"part", fmt::format("{}{}", indent, one.name)},
               {"1", number(one.first, "{:.{}f}")},
               {"2", number(one.second, "{:.{}f}")},
               {"2 - 1", number(one.change(), "{:+.{}f}")}});
  };
  add(whole, "");
  for (const Difference& one : all) {
    if (std::max(one.first, one.second) > kShown * larger) {
      add(one, "  ");
    }
  }
}

std::string SideText(const ComparedSide& side) {
  std::string text =
      fmt::format("{}: {:.0f} tokens/s/GPU, MFU {:.0f}%", side.name,
                  side.one.tokens_per_s_per_gpu, 100.0 * side.one.mfu);
  if (!side.Fits()) {
    text += fmt::format(" (does not fit: {:.1f} GB, {:.1f} GB are allowed)",
                        side.one.peak_memory_bytes / kGiga,
                        side.allowed_bytes / kGiga);
  }
  return text;
}

}  // namespace

ComparedSide SideOf(const Forecaster& forecaster, const std::string& words) {
  const auto side = [&](const Prediction& one, const std::string& notes = "") {
    const trials::StepReport report = forecaster.Report(one.config);
    return ComparedSide{
        fmt::format("{} on {}, {}", forecaster.job().framework.name,
                    forecaster.job().cluster.gpu.name, LayoutName(one.config)),
        one, report, forecaster.AllowedBytes(), notes};
  };
  const Forecast forecast = forecaster.MakeForecast(words.empty() ? 1 : -1);
  if (words.empty()) {
    if (forecast.layouts.empty()) {
      throw InputError(fmt::format(
          "--compare: no configuration of {} on {} leaves {:.0f}% of the "
          "memory free: use more GPUs or a smaller --headroom",
          forecaster.job().framework.name, forecaster.job().cluster.gpu.name,
          100.0 * forecaster.options().headroom));
    }
    return side(forecast.layouts.front().best);
  }
  const auto fail = [&words](std::string_view why) {
    throw InputError(fmt::format("--compare {}: {}", words, why));
  };
  std::vector<std::string> broken;
  try {
    const Completed completed = CompleteSettings(
        forecaster, forecast, words.substr(0, words.find(": ")));
    if (!completed.is_candidate) {
      broken = Violations(forecaster.job(), completed.config,
                          JobRules(forecaster.job()));
    }
    if (broken.empty()) {
      return side(forecaster.Predict(completed.config), completed.notes);
    }
  } catch (const trials::InvalidPlan& e) {
    fail("not offered: " + e.reason());
  } catch (const std::invalid_argument& e) {
    fail(e.what());
  }
  fail("not offered: " + broken.front());
  return {};
}

std::string ComparisonText(const ComparedSide& first,
                           const ComparedSide& second, std::size_t columns) {
  const auto times = Differences(TimesOf(first), TimesOf(second));
  const auto bytes = Differences(BytesOf(first), BytesOf(second));
  const Difference step{"step, s", first.one.step_time_s,
                        second.one.step_time_s};
  const Difference memory{"memory, GB", first.one.peak_memory_bytes,
                          second.one.peak_memory_bytes};
  plots::Table table;
  AddParts(times, step, 1.0, table);
  AddParts(bytes, memory, kGiga, table);
  const double ratio =
      second.one.tokens_per_s_per_gpu / first.one.tokens_per_s_per_gpu;
  const std::string text =
      fmt::format("1: {}\n{}2: {}\n{}", SideText(first), first.notes,
                  SideText(second), second.notes);
  const auto causes = [](const char* of, const std::string& found) {
    return found.empty() ? "" : fmt::format("; {}: {}", of, found);
  };
  const std::string verdict = fmt::format(
      "2 trains {:.3g} times as many tokens per second and GPU{}{}\n", ratio,
      causes("step", Causes(times, step.change(), 1.0, "s")),
      causes("memory", Causes(bytes, memory.change(), kGiga, "GB")));
  return plots::WrapLines(text, columns) + "\n" + plots::ToText(table) + "\n" +
         plots::WrapLines(verdict, columns);
}

common::Json ComparisonJson(const ComparedSide& first,
                            const ComparedSide& second) {
  common::Json sides = common::Json::array();
  for (const ComparedSide* side : {&first, &second}) {
    common::Json json = common::ToJson(side->one);
    json["name"] = side->name;
    json["config"] = ToString(side->one.config);
    json["fits"] = side->Fits();
    json["notes"] = side->notes;
    for (const auto& [name, seconds] : TimesOf(*side)) {
      json["seconds"][name] = seconds;
    }
    for (const auto& [name, count] : BytesOf(*side)) {
      json["bytes"][name] = count;
    }
    sides.push_back(std::move(json));
  }
  return sides;
}

}  // namespace jobs
