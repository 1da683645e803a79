#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <muParser.h>

#include "common/csv_table.h"
#include "common/files.h"
#include "common/text.h"
#include "plots/curve.h"
#include "plots/experiment_records.h"
#include "plots/summary.h"
#include "studies/sensitivity/sensitivity.h"
#include "studies/verbs.h"
#include "trials/knobs.h"

namespace studies {
namespace {

namespace fs = std::filesystem;
using common::CsvTable;

// Named values of a run or of a row of a table; NaN where unknown.
using NamedValues = std::map<std::string, double>;

// The criterion holds for the interval of x, for a part of it, or for none of
// it. The x of a table is exact.
enum class ClaimVerdict { kHolds, kOpen, kFails, kUntestable, kNoRecords };
constexpr std::array<std::string_view, 5> kClaimVerdicts = {
    "holds", "open", "does not hold", "cannot be tested here", "no records"};

// A row of the file.
struct PaperClaim {
  const CsvTable& file;
  const CsvTable::Row& row;

  std::string operator[](std::string_view column) const {
    return std::string(file.Cell(row, column));
  }
  // Separated by spaces; one empty word where the cell is empty.
  [[nodiscard]] std::vector<std::string> Words(std::string_view column) const {
    const auto words = common::Split(file.Cell(row, column), ' ');
    return {words.begin(), words.end()};
  }
};

// The evidence of a method for a claim.
struct Evidence {
  std::string method;
  std::string rival;  // of the worst verdict; "": none
  common::Estimate x = {};
  int n = 0;
  double rank_biserial = trials::kUnknown;
  ClaimVerdict verdict = ClaimVerdict::kNoRecords;
};

// The value of the expression in a column; NaN where it reads an unknown one.
double ValueOf(const PaperClaim& claim, std::string_view column,
               NamedValues values) {
  mu::Parser parser;
  std::vector<std::string> known;
  for (auto& [name, value] : values) {
    parser.DefineVar(name, &value);
    known.push_back(name);
  }
  const std::string expression = claim[column];
  const auto fail = [&](const std::string& message) {
    claim.file.Fail(claim.row.line,
                    fmt::format("{} \"{}\": {}", column, expression, message));
  };
  try {
    parser.SetExpr(expression);
    for (const auto& [name, _] : parser.GetUsedVar()) {
      const auto used = values.find(name);
      if (used == values.end()) {
        fail(common::UnknownName("value", name, known));
      } else if (std::isnan(used->second)) {
        return trials::kUnknown;
      }
    }
    return parser.Eval();
  } catch (const mu::ParserError& e) {
    fail(e.GetMsg());
  }
  return trials::kUnknown;
}

NamedValues ValuesOf(const plots::Run& run, const trials::ProblemInfo& info) {
  const auto curve = [&](plots::Cost cost, plots::Value value) {
    return plots::IncumbentCurve(run, info, cost, value);
  };
  // The first cost at which a share of 95% was reached; all of it without one.
  const auto to_95 = [&](plots::Cost cost, double all) {
    return std::min(all, FirstReached(curve(cost, plots::Value::kExact),
                                      0.95 * info.optimum_steps_per_s));
  };
  const auto last = [](const plots::StepCurve& of) {
    return of.y.empty() ? 0.0 : of.y.back();
  };
  double steps = 0.0;
  double end_s = 0.0;
  for (const trials::Trial& trial : run.trials) {
    steps += trial.steps;
    end_s = trial.elapsed_s;
  }
  const plots::StepCurve exact =
      curve(plots::Cost::kTrials, plots::Value::kExact);
  const double percent = info.optimum_steps_per_s > 0.0
                             ? 100.0 / info.optimum_steps_per_s
                             : trials::kUnknown;
  NamedValues values = {
      {"share", percent * last(exact)},
      {"steps_per_s", last(curve(plots::Cost::kTime, plots::Value::kMeasured))},
      {"trials", run.trials.size()},
      {"minutes_to_95", to_95(plots::Cost::kTime, end_s) / 60.0},
      {"steps_to_95", to_95(plots::Cost::kSteps, steps)}};
  for (const int n : plots::kCheckpoints) {
    values[fmt::format("share_{}", n)] = percent * plots::ValueAt(exact, n);
  }
  const std::vector<int> incumbents = plots::Incumbents(run.trials);
  const int choice = incumbents.empty() ? -1 : incumbents.back();
  for (const trials::Knob& knob : trials::BuiltInKnobs()) {
    values[knob.name] = choice < 0
                            ? trials::kUnknown
                            : knob.Number(knob.Get(run.trials[choice].config));
  }
  return values;
}

// Runs by problem and repeat, or rows by their first cell.
using Items = std::map<std::pair<std::string, int>, NamedValues>;

// The finished runs of a method.
Items RunsOf(const plots::ExperimentRecords& records,
             const std::string& method) {
  Items items;
  for (const plots::ProblemRecords& problem : records.problems) {
    for (const plots::MethodRecords& each : problem.methods) {
      for (const plots::Run& run : each.runs) {
        if (each.name == method && run.finished) {
          items[{problem.info.name, run.repeat}] = ValuesOf(run, problem.info);
        }
      }
    }
  }
  return items;
}

ClaimVerdict VerdictOf(const PaperClaim& claim, const common::Estimate& x) {
  int holds = 0;
  for (const double value : {x.value, x.low, x.high}) {
    holds += ValueOf(claim, "criterion", {{"x", value}}) > 0.0 ? 1 : 0;
  }
  return holds == 3   ? ClaimVerdict::kHolds
         : holds == 0 ? ClaimVerdict::kFails
                      : ClaimVerdict::kOpen;
}

// The evidence of these items against those of a rival.
Evidence EvidenceOf(const PaperClaim& claim, const Items& own,
                    const std::string& rival, const Items& others) {
  std::vector<double> values;
  for (const auto& [key, named] : own) {
    double value = ValueOf(claim, "quantity", named);
    if (!rival.empty()) {
      const auto other = others.find(key);
      value -= other == others.end()
                   ? trials::kUnknown
                   : ValueOf(claim, "quantity", other->second);
    }
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  Evidence evidence{.rival = rival,
                    .x = common::Bootstrap({values}, common::Statistic::kMean),
                    .n = static_cast<int>(values.size())};
  if (!rival.empty()) {
    evidence.rank_biserial = common::TestPairs(values).rank_biserial;
  }
  if (!values.empty()) {
    evidence.verdict = VerdictOf(claim, evidence.x);
  }
  return evidence;
}

// The evidence with the worst verdict over the rivals; of equals that with x
// nearest to 0.
Evidence WorstEvidence(const PaperClaim& claim,
                       const plots::ExperimentRecords& records,
                       const std::string& method) {
  const Items own = RunsOf(records, method);
  std::vector<Evidence> all;
  for (const std::string& name : claim.Words("rivals")) {
    const std::string rival =
        name.starts_with("+") ? method + name.substr(1) : name;
    Evidence& next =
        all.emplace_back(EvidenceOf(claim, own, rival, RunsOf(records, rival)));
    next.method = method;
    if (next.n > 0 && next.n < Effect::kFewestPairs) {
      next.verdict = ClaimVerdict::kOpen;
    }
  }
  return *std::ranges::max_element(all, {}, [](const Evidence& each) {
    return std::pair(each.verdict, -std::abs(each.x.value));
  });
}

// "published estimate (s)" -> "published_estimate_s".
std::string AsName(std::string_view column) {
  std::string name;
  for (const char c : common::Lower(column)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (!name.ends_with('_')) {
      name += '_';
    }
  }
  return name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

// "problem=a|b;most hops=7": whether for each column one text, or every text,
// `holds`.
template <typename Condition>
bool Matches(const std::string& filter, bool every, const Condition& holds) {
  return filter.empty() ||
         std::ranges::all_of(
             common::Split(filter, ';'), [&](std::string_view part) {
               const std::size_t equals = part.find('=');
               const auto one = [&](std::string_view text) {
                 return holds(part.substr(0, equals), text);
               };
               const auto texts = common::Split(part.substr(equals + 1), '|');
               return every ? std::ranges::all_of(texts, one)
                            : std::ranges::any_of(texts, one);
             });
}

Items RowsOf(const CsvTable& table, const std::string& filter) {
  Items items;
  std::map<std::string, int> occurrences;
  for (const CsvTable::Row& row : table.rows()) {
    if (!Matches(filter, false, [&](auto column, auto text) {
          return table.Cell(row, column) == text;
        })) {
      continue;
    }
    const std::string& key = row.cells.front();
    NamedValues& named = items[{key, ++occurrences[key]}];
    std::map<std::string, int> columns;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      std::string name = AsName(table.header()[c]);
      if (const int count = ++columns[name]; count > 1) {
        name += fmt::format("_{}", count);
      }
      named[name] = common::NumberOrNan(row.cells[c]);
    }
  }
  return items;
}

Evidence TableEvidence(const PaperClaim& claim, const fs::path& path) {
  const CsvTable table = CsvTable::Read(path);
  const bool is_complete =
      Matches(claim["rows"], true, [&](auto column, auto text) {
        return std::ranges::any_of(table.rows(), [&](const auto& row) {
          return table.Cell(row, column) == text;
        });
      });
  if (!is_complete) {
    return {};
  }
  Evidence evidence =
      EvidenceOf(claim, RowsOf(table, claim["rows"]), claim["rivals"],
                 RowsOf(table, claim["rivals"]));
  if (evidence.n > 0) {  // numbers of a table are exact
    evidence.x.low = evidence.x.high = evidence.x.value;
    evidence.verdict = VerdictOf(claim, evidence.x);
  }
  return evidence;
}

// Where the sensitivity study varies the experiment: "holds in 27 of 30 cases;
// turns at reading = microbatch".
std::string TurnsOf(const PaperClaim& claim, const CsvTable& table) {
  int holds = 0;
  int cases = 0;
  std::vector<std::string> turns;
  for (const CsvTable::Row& row : table.rows()) {
    const PaperClaim cell{table, row};
    if (cell["experiment"] == claim["evidence"] &&
        std::ranges::count(claim.Words("methods"), cell["better"]) > 0 &&
        std::ranges::count(claim.Words("rivals"), cell["worse"]) > 0) {
      ++cases;
      holds += cell["verdict"] == "holds" ? 1 : 0;
      if (cell["verdict"] == "turns") {
        turns.push_back(fmt::format("{} = {} ({} against {})", cell["constant"],
                                    cell["value"], cell["better"],
                                    cell["worse"]));
      }
    }
  }
  return cases == 0 ? ""
                    : fmt::format("holds in {} of {} cases{}{}", holds, cases,
                                  turns.empty() ? "" : "; turns at ",
                                  fmt::join(turns, ", "));
}

// People read the texts in docs/tables/claims.md, beside each other.
plots::Row RowOf(const PaperClaim& claim, const Evidence& evidence,
                 const std::string& turns) {
  plots::Row row;
  for (const std::string& column : claim.file.header()) {
    const bool is_short = column == "id" || column == "criterion";
    row.emplace_back(column, is_short ? column : "", claim[column]);
  }
  const auto verdict = static_cast<std::size_t>(evidence.verdict);
  row.insert(row.end(),
             {{"method", evidence.method},
              {"rival", evidence.rival},
              {"n", evidence.n},
              {"x", plots::Interval(evidence.x, 2)},
              {"rank_biserial", "r", plots::Fixed(evidence.rank_biserial, 2)},
              {"verdict", kClaimVerdicts.at(verdict)},
              {"turns", "", turns}});
  return row;
}

}  // namespace

std::vector<Output> JudgeClaims(const fs::path& path, const fs::path& results) {
  const CsvTable file = CsvTable::Read(path);
  std::map<std::string, plots::ExperimentRecords> experiments;
  std::optional<CsvTable> sensitivity;
  if (const fs::path varied = results / "sensitivity/sensitivity.csv";
      common::IsFile(varied)) {
    sensitivity = CsvTable::Read(varied);
  }
  Output ledger{.name = "claims"};
  std::array<int, kClaimVerdicts.size()> counts{};
  for (const CsvTable::Row& row : file.rows()) {
    const PaperClaim claim{file, row};
    const std::string name = claim["evidence"];
    std::vector<Evidence> evidence;
    if (name.empty()) {
      evidence.push_back({.verdict = ClaimVerdict::kUntestable});
    } else if (name.ends_with(".csv")) {
      evidence.push_back(common::IsFile(results / name)
                             ? TableEvidence(claim, results / name)
                             : Evidence{});
    } else {
      const bool recorded = common::IsFile(results / name / "experiment.json");
      if (recorded && !experiments.contains(name)) {
        experiments[name] = plots::LoadExperiment(results / name);
      }
      for (const std::string& method : claim.Words("methods")) {
        evidence.push_back(recorded
                               ? WorstEvidence(claim, experiments[name], method)
                               : Evidence{.method = method});
      }
    }
    const std::string turns =
        sensitivity ? TurnsOf(claim, *sensitivity) : std::string();
    for (const Evidence& each : evidence) {
      ledger.table.Add(RowOf(claim, each, turns));
      ++counts.at(static_cast<std::size_t>(each.verdict));
    }
  }
  std::vector<std::string> totals;
  for (std::size_t v = 0; v < counts.size(); ++v) {
    totals.push_back(fmt::format("{} {}", counts.at(v), kClaimVerdicts.at(v)));
  }
  ledger.conclusion = fmt::format(
      "x is a mean with its 95% bootstrap interval over runs, or an exact "
      "number of a table. A difference from a rival is paired by repeat, and r "
      "is its rank-biserial correlation; of several rivals, the one with the "
      "worst verdict is shown. A claim is open if its criterion holds for a "
      "part of the interval only, or with fewer than {} runs. Rows: {}.",
      Effect::kFewestPairs, fmt::join(totals, ", "));
  return {std::move(ledger)};
}

}  // namespace studies
