#include "jobs/plan/plan_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "jobs/plan/forecast_text.h"
#include "jobs/plan/plan_page_assets.h"
#include "plots/page/assets.h"
#include "plots/table.h"

namespace jobs {
namespace {

using common::Json;
using common::kGiga;
using plots::EscapeHtml;
using trials::ActionRecord;
using trials::SimulatedStep;

// A number that is drawn and not read.
double Drawn(double value) { return std::stod(fmt::format("{:.6g}", value)); }

std::string Base36(std::int64_t value) {
  std::string digits;
  do {
    digits.insert(digits.begin(),
                  "0123456789abcdefghijklmnopqrstuvwxyz"[value % 36]);
    value /= 36;
  } while (value > 0);
  return digits;
}

// A layout with its step and what a calibration makes of it.
struct Kind {
  Json row;  // of the plan
  Prediction one;
  SimulatedStep step;
  double time_scale = 1.0;
  double memory_scale = 1.0;
};

// The rows of the plan's layouts that are the fastest of their kinds.
std::vector<Kind> KindsOf(const PagePlan& plan, int most) {
  std::vector<Kind> kinds;
  for (const Layout& layout : FastestOfKinds(*plan.forecast)) {
    if (static_cast<int>(kinds.size()) >= most) {
      break;
    }
    Kind kind{.one = layout.best,
              .step = plan.forecaster->Record(layout.best.config)};
    for (const Json& row : plan.json["layouts"]) {
      if (row["config"] == ToString(layout.best.config)) {
        kind.row = row;
      }
    }
    const trials::StepReport& report = kind.step.report;
    kind.time_scale = layout.best.step_time_s / report.step_time_s;
    kind.memory_scale = layout.best.peak_memory_bytes / report.memory.Total();
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

// Groups with the same distances from their first ranks, as these distances and
// the first ranks. `most`: later ranks are not shown.
Json GroupsJson(const std::vector<trials::Group>& groups, int most) {
  std::map<std::vector<int>, std::vector<int>> by_distances;
  for (const trials::Group& group : groups) {
    std::vector<int> distances;
    for (const int rank : group) {
      if (rank < most) {
        distances.push_back(rank - group.front());
      }
    }
    if (distances.size() > 1) {
      by_distances[distances].push_back(group.front());
    }
  }
  Json json = Json::array();
  for (const auto& [distances, firsts] : by_distances) {
    json.push_back({distances, firsts});
  }
  return json;
}

// The ranks whose placement is shown.
constexpr int kMostRanks = 1024;

Json PlacementJson(const SimulatedStep& step) {
  const trials::PlacedGroups& groups = step.groups;
  return {{"tp", GroupsJson(groups.tp, kMostRanks)},
          {"cp", GroupsJson(groups.cp, kMostRanks)},
          {"pp", GroupsJson(groups.pp, kMostRanks)},
          {"dp", GroupsJson(groups.dp, kMostRanks)},
          {"ep", GroupsJson(groups.ep, kMostRanks)}};
}

Json StageJson(const Kind& kind, const trials::SimulatedStage& stage) {
  const trials::PipelineShape& shape = kind.step.shape;
  const auto seconds = [&](double simulated_s) {
    return Drawn(kind.time_scale * simulated_s);
  };
  // By kind and chunk: how long an action takes, its send, and the part of it
  // that is recomputation.
  Json lengths = Json::object();
  for (const ActionRecord& one : stage.actions) {
    const trials::Action& action = one.action;
    const std::string key = fmt::format("{}{}",
                                        action.weights   ? 'w'
                                        : action.forward ? 'f'
                                                         : 'b',
                                        action.chunk);
    if (!lengths.contains(key)) {
      const bool recomputes = !action.forward && !action.weights;
      lengths[key] = {
          seconds(one.end_s - one.begin_s), seconds(one.free_s - one.end_s),
          recomputes ? seconds(stage.backward[action.chunk].recompute_s) : 0.0};
    }
  }
  const int round = (shape.zero_bubble ? 3 : 2) * shape.chunks *
                    (shape.chunks > 1 ? shape.stages : 1);
  const auto& after = stage.after;
  Json memory = Json::array();
  for (const auto& [name, bytes] : ComponentsOf(stage.memory)) {
    memory.push_back(Drawn(kind.memory_scale * bytes));
  }
  return {
      {"memory", std::move(memory)},
      {"lengths", std::move(lengths)},
      {"actions", ActionsText(stage.actions, round,
                              kTimelineUnit * kind.step.report.step_time_s)},
      {"after",
       {seconds(after.wait_s), seconds(after.reduce_s),
        seconds(after.optimizer_s), seconds(after.gather_s),
        seconds(after.overhead_s)}}};
}

Json KindJson(const Kind& kind) {
  Json json = kind.row;
  json.erase("files");
  Json parts = Json::object();  // of the rank that waits least
  for (const auto& [name, seconds] : ComponentsOf(kind.step.report.busiest)) {
    parts[std::string(name)] = kind.time_scale * seconds;
  }
  json["parts"] = std::move(parts);
  json["stages"] =
      common::Map(kind.step.stages, [&](const trials::SimulatedStage& stage) {
        return StageJson(kind, stage);
      });
  json["critical_stage"] = kind.step.critical_stage;
  json["groups"] = PlacementJson(kind.step);
  return json;
}

Json GridJson(const PlanGrid& grid) {
  std::vector<std::string> layouts;
  Json points = Json::array();
  for (const PlanGrid::Point& point : grid.points) {
    Json row = {point.gpus};
    for (const std::optional<Prediction>& one : point.fastest) {
      if (!one) {
        row.push_back(nullptr);
        continue;
      }
      const std::string name = LayoutName(one->config);
      const auto found = std::ranges::find(layouts, name);
      row.push_back({found - layouts.begin(), one->step_time_s, one->mfu,
                     one->peak_memory_bytes, one->tokens_per_s_per_gpu});
      if (found == layouts.end()) {
        layouts.push_back(name);
      }
    }
    points.push_back(std::move(row));
  }
  Json axes = Json::array();
  for (const GridAxis& axis : grid.axes) {
    axes.push_back({{"option", axis.option},
                    {"name", axis.name},
                    {"unit", axis.unit},
                    {"values", axis.values},
                    {"present", axis.present}});
  }
  return {{"axes", std::move(axes)},
          {"together", grid.together},
          {"layouts", std::move(layouts)},
          {"points", std::move(points)}};
}

// The table of a framework's kinds.
std::string KindsTable(const std::vector<Kind>& kinds, double capacity_bytes) {
  plots::Table table;
  for (const Kind& kind : kinds) {
    const Prediction& one = kind.one;
    const double free = 1.0 - one.peak_memory_bytes / capacity_bytes;
    plots::Row row = {
        {"layout", "Layout", LayoutName(one.config)},
        {"tokens_per_s_per_gpu", "Tokens/s per GPU",
         plots::Rounded(one.tokens_per_s_per_gpu, 4)},
        {"mfu", "MFU (%)",
         plots::Cell(fmt::format("{:.1f}", 100.0 * one.mfu), one.mfu)},
        {"step_time_s", "Step (s)", plots::Rounded(one.step_time_s, 3)},
        {"peak_memory_bytes", "Peak (GB)",
         plots::Cell(fmt::format("{:.1f}", one.peak_memory_bytes / kGiga),
                     one.peak_memory_bytes)},
        {"free", "Free (%)", plots::Fixed(free, 0, 100.0)},
        {"fit_probability", "P(fits)", plots::Fixed(one.fit_probability, 2)},
        {"microbatches", "Microbatches", kind.row["microbatches"].get<int>()},
        {"micro_batch_size", "of sequences",
         kind.row["micro_batch_size"].get<int>()}};
    table.Add(std::move(row));
  }
  return "<div class=\"scroll\">" + plots::ToHtml(table) + "</div>";
}

std::string Paragraphs(const std::string& text) {
  std::string html;
  for (const std::string_view line : common::Split(text, '\n')) {
    if (!line.empty()) {
      html += fmt::format("<p class=\"soft\">{}</p>", EscapeHtml(line));
    }
  }
  return html;
}

// A framework's section, whose figures the script draws, and their data.
std::pair<std::string, Json> FrameworkSection(const PagePlan& plan, int most) {
  std::string html = fmt::format("<section class=\"framework\"><h2>{}</h2>",
                                 EscapeHtml(plan.label));
  if (plan.forecaster == nullptr) {
    return {html + Paragraphs(plan.problem) + "</section>\n",
            {{"label", plan.label}, {"kinds", Json::array()}}};
  }
  const std::vector<Kind> kinds = KindsOf(plan, most);
  if (kinds.empty()) {
    for (const Json& line : plan.json["advice"]) {
      html += Paragraphs(line.get<std::string>());
    }
  } else {
    html += KindsTable(kinds, plan.forecaster->CapacityBytes()) +
            Paragraphs("The fastest:" + SummaryText(*plan.forecaster,
                                                    *plan.forecast,
                                                    kinds.front().one)) +
            "<div class=\"figures\"></div>" +
            fmt::format(
                "<details><summary>Command of the fastest</summary>"
                "<pre>{}</pre></details>",
                EscapeHtml(kinds.front().row["command"].is_string()
                               ? kinds.front().row["command"].get<std::string>()
                               : ToString(kinds.front().one.config)));
  }
  Json names = Json::array();
  for (const auto& [name, bytes] : ComponentsOf(trials::MemoryBreakdown{})) {
    names.push_back(name);
  }
  return {html + "</section>\n",
          {{"label", plan.label},
           {"capacity_bytes", plan.forecaster->CapacityBytes()},
           {"allowed_bytes", plan.forecaster->AllowedBytes()},
           {"bands", plan.json.value("bands", Json::object())},
           {"memory", std::move(names)},
           {"gpus_per_node", plan.forecaster->job().cluster.gpus_per_node},
           {"gpus", plan.forecaster->job().cluster.gpus()},
           {"kinds", common::Map(kinds, KindJson)}}};
}

// "3*2 f0 b0" for words that repeat at this or a short distance.
std::vector<std::string> RepeatsOnce(const std::vector<std::string>& words,
                                     int period) {
  std::vector<std::string> shorter;
  for (std::size_t i = 0; i < words.size();) {
    std::size_t best = 1;  // of them, told once
    std::size_t times = 1;
    for (const int length : {period, 2, 1}) {
      const auto count = static_cast<std::size_t>(length);
      std::size_t end = i + count;
      while (end < words.size() && words[end] == words[end - count]) {
        ++end;
      }
      const std::size_t repeats = end <= words.size() ? (end - i) / count : 0;
      if (repeats > 1 && (repeats - 1) * count > (times - 1) * best) {
        best = count;
        times = repeats;
      }
    }
    if (times > 1) {
      shorter.push_back(fmt::format("{}*{}", times, best));
    }
    const auto begin = words.begin() + static_cast<int>(i);
    shorter.insert(shorter.end(), begin, begin + static_cast<int>(best));
    i += times * best;
  }
  return shorter;
}

}  // namespace

std::string ActionsText(const std::vector<ActionRecord>& actions, int period,
                        double unit_s) {
  std::vector<std::string> words;
  double free_s = 0.0;
  for (const ActionRecord& one : actions) {
    const double wait_s = std::max(0.0, one.begin_s - free_s);
    const trials::Action& action = one.action;
    const char letter = action.weights ? 'w' : action.forward ? 'f' : 'b';
    std::string word =
        fmt::format("{}{}{}", one.critical ? "!" : "", letter, action.chunk);
    const auto units = [&](double seconds) {
      return static_cast<std::int64_t>(std::llround(seconds / unit_s));
    };
    if (units(wait_s) > 0) {
      word += fmt::format(",{},{}", Base36(units(wait_s)),
                          Base36(units(std::min(one.received_s, wait_s))));
    }
    words.push_back(std::move(word));
    free_s = one.free_s;
  }
  return fmt::format("{}", fmt::join(RepeatsOnce(words, period), " "));
}

std::string PlanPage(const std::string& header,
                     const std::vector<PagePlan>& plans, const PlanGrid& grid,
                     double per_gpu_hour, int most) {
  std::string sections;
  Json frameworks = Json::array();
  for (const PagePlan& plan : plans) {
    auto [html, data] = FrameworkSection(plan, most);
    sections += html;
    frameworks.push_back(std::move(data));
  }
  std::string data = common::ToText({{"unit", kTimelineUnit},
                                     {"per_gpu_hour", per_gpu_hour},
                                     {"frameworks", std::move(frameworks)},
                                     {"grid", GridJson(grid)}});
  // No text ends the element of the data.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) {
    data.replace(at, 1, "\\u003c");
  }
  // Guesses come before the lines of the job and its machine.
  const std::string_view text = common::Trim(header);
  const std::size_t machine = std::min(text.size(), text.rfind('\n'));
  const std::size_t begin =
      machine == 0 ? 0 : text.rfind('\n', machine - 1) + 1;
  const std::string title = EscapeHtml(text.substr(begin, machine - begin));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>Plan: {}</title><style>{}{}</style></head><body><main>"
      "<header><div><h1>{}</h1>{}</div></header>\n<noscript><p>The figures "
      "need JavaScript; the tables do not.</p></noscript>\n{}"
      "<section id=\"steps\" hidden><h2>What if</h2></section>"
      "<footer>Everything on this page is computed by simulation.</footer>"
      "</main>"
      "<script type=\"application/json\" id=\"data\">{}</script>"
      "<script>{}</script></body></html>\n",
      title, plots::kPageStyle, kPlanStyle, title,
      Paragraphs(std::string(text.substr(machine)) + "\n" +
                 std::string(text.substr(0, begin))),
      sections, data, kPlanScript);
}

}  // namespace jobs
