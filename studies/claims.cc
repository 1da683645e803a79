#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include "common/csv_table.h"
#include "common/files.h"
#include "common/ranges.h"
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
// it; or it is true of arithmetic, of a unit test or of published numbers, and
// no measurement could have made it false.
enum class ClaimVerdict {
  kHolds,
  kOpen,
  kFails,
  kByConstruction,
  kUntestable,
  kNoRecords
};
constexpr std::array<std::string_view, 6> kClaimVerdicts = {
    "holds",
    "open",
    "does not hold",
    "by construction",
    "cannot be tested here",
    "no records"};

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
  int ties = 0;      // pairs without a difference
  int censored = 0;  // of these: neither run gets there
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
  // The first cost at which a share of 95% was reached, or all of it: censored.
  const auto reached = [&](plots::Cost cost) {
    return FirstReached(curve(cost, plots::Value::kExact),
                        0.95 * info.optimum_steps_per_s);
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
      {"minutes_to_95", std::min(end_s, reached(plots::Cost::kTime)) / 60.0},
      {"steps_to_95", std::min(steps, reached(plots::Cost::kSteps))},
      {"gets_to_95", std::isfinite(reached(plots::Cost::kTrials))}};
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

// What is said of every item, "x == 1", is false after one counterexample, and
// true of these items without one.
ClaimVerdict VerdictOf(const PaperClaim& claim, const Evidence& evidence) {
  const common::Estimate& x = evidence.x;
  const bool of_all = claim["criterion"].find("==") != std::string::npos;
  if (of_all && !(ValueOf(claim, "criterion", {{"x", x.value}}) > 0.0)) {
    return ClaimVerdict::kFails;
  }
  if (evidence.n - evidence.censored < Effect::kFewestPairs) {
    return ClaimVerdict::kOpen;
  }
  // Pairs without a difference are no evidence that there is one.
  const bool needs_difference =
      !(ValueOf(claim, "criterion", {{"x", 0.0}}) > 0.0);
  int holds = 0;
  for (const double value :
       {x.value, of_all ? x.value : x.low, of_all ? x.value : x.high}) {
    holds += ValueOf(claim, "criterion", {{"x", value}}) > 0.0 ? 1 : 0;
  }
  if (holds == 3 && needs_difference &&
      evidence.n - evidence.ties < Effect::kFewestPairs) {
    return ClaimVerdict::kOpen;
  }
  return holds == 3   ? ClaimVerdict::kHolds
         : holds == 0 ? ClaimVerdict::kFails
                      : ClaimVerdict::kOpen;
}

// The difference of a pair. A cost to 95% of a run that does not get there is
// more than all of it; so both are compared within that, and a pair of which
// neither gets there has no difference: `censored`.
struct Difference {
  double value = 0.0;
  bool censored = false;
};
Difference DifferenceOf(const PaperClaim& claim, const NamedValues& own,
                        const NamedValues& other) {
  double a = ValueOf(claim, "quantity", own);
  double b = ValueOf(claim, "quantity", other);
  if (!claim["quantity"].ends_with("_to_95")) {
    return {a - b};
  }
  const bool own_gets_there = own.at("gets_to_95") > 0.0;
  const bool other_gets_there = other.at("gets_to_95") > 0.0;
  if (!own_gets_there) {
    b = std::min(a, b);
  }
  if (!other_gets_there) {
    a = std::min(a, b);
  }
  return {a - b, !own_gets_there && !other_gets_there};
}

// The evidence of these items against those of a rival.
Evidence EvidenceOf(const PaperClaim& claim, const Items& own,
                    const std::string& rival, const Items& others) {
  Evidence evidence{.rival = rival};
  std::vector<double> values;
  for (const auto& [key, named] : own) {
    const auto other = others.find(key);
    Difference x;
    if (rival.empty()) {
      x.value = ValueOf(claim, "quantity", named);
    } else if (other != others.end()) {
      x = DifferenceOf(claim, named, other->second);
      evidence.ties += x.value == 0.0 ? 1 : 0;
      evidence.censored += x.censored ? 1 : 0;
    } else {
      continue;
    }
    if (!std::isnan(x.value)) {
      values.push_back(x.value);
    }
  }
  evidence.n = static_cast<int>(values.size());
  // What is true or false of each item has an interval even if all agree.
  const auto trues = std::ranges::count(values, 1.0);
  const bool is_share = rival.empty() && claim["kind"].empty() &&
                        trues + std::ranges::count(values, 0.0) == evidence.n;
  evidence.x = is_share ? WilsonShare(static_cast<int>(trues), evidence.n)
                        : common::Bootstrap({values}, common::Statistic::kMean);
  if (!rival.empty()) {
    evidence.rank_biserial = common::TestPairs(values).rank_biserial;
  }
  if (!values.empty()) {
    evidence.verdict = VerdictOf(claim, evidence);
  }
  return evidence;
}

// How well x serves the criterion: itself, or its negative where the criterion
// asks for small values.
double Favor(const PaperClaim& claim, double x) {
  constexpr double kLarge = 1e9;
  const bool small_is_good =
      ValueOf(claim, "criterion", {{"x", -kLarge}}) > 0.0;
  return small_is_good ? -x : x;
}

// The names of a method's rivals; one empty name if there are none.
std::vector<std::string> RivalsOf(const PaperClaim& claim,
                                  const std::string& method) {
  return common::Map(claim.Words("rivals"), [&](const std::string& name) {
    return name.starts_with("+") ? method + name.substr(1) : name;
  });
}

// The method and its rivals.
std::vector<std::string> ComparedIn(const PaperClaim& claim,
                                    const std::string& method) {
  std::vector<std::string> names = RivalsOf(claim, method);
  std::erase(names, "");
  names.insert(names.begin(), method);
  return names;
}

// The evidence with the worst verdict over the rivals; of equals that with the
// least favorable x. `runs_of` returns the runs of a method.
template <typename RunsOfMethod>
Evidence WorstEvidence(const PaperClaim& claim, const RunsOfMethod& runs_of,
                       const std::string& method) {
  const Items& own = runs_of(method);
  std::vector<Evidence> all;
  for (const std::string& rival : RivalsOf(claim, method)) {
    Evidence& next =
        all.emplace_back(EvidenceOf(claim, own, rival, runs_of(rival)));
    next.method = method;
  }
  return *std::ranges::max_element(all, {}, [&](const Evidence& each) {
    return std::pair(each.verdict, -Favor(claim, each.x.value));
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
  if (evidence.n > 0 && claim["kind"] == "by construction") {
    const bool holds =
        ValueOf(claim, "criterion", {{"x", evidence.x.value}}) > 0.0;
    evidence.verdict =
        holds ? ClaimVerdict::kByConstruction : ClaimVerdict::kFails;
  }
  return evidence;
}

// Of the variations of the constants, in which a method beats each rival, where
// the claim is on what was varied, the share at the end: "holds in 7 of 43
// cases against random, turns at failure = 5".
std::string TurnsOf(const PaperClaim& claim, const std::string& method,
                    const CsvTable& table) {
  std::vector<std::string> texts;
  for (const std::string& rival : claim.Words("rivals")) {
    int holds = 0;
    int cases = 0;
    std::vector<std::string> turns;
    for (const CsvTable::Row& row : table.rows()) {
      const PaperClaim cell{table, row};
      if (claim["quantity"] == "share" &&
          cell["experiment"] == claim["evidence"] && cell["better"] == method &&
          cell["worse"] == rival) {
        ++cases;
        holds += cell["verdict"] == "holds" ? 1 : 0;
        if (cell["verdict"] == "turns") {
          turns.push_back(
              fmt::format("{} = {}", cell["constant"], cell["value"]));
        }
      }
    }
    if (cases > 0) {
      texts.push_back(fmt::format(
          "holds in {} of {} cases against {}{}{}", holds, cases, rival,
          turns.empty() ? "" : ", turns at ", fmt::join(turns, ", ")));
    }
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// "26 tied, in 22 of them neither gets there"; "" without any.
std::string TiesText(const Evidence& evidence) {
  if (evidence.ties == 0) {
    return "";
  }
  return fmt::format(
      "{} tied{}", evidence.ties,
      evidence.censored > 0
          ? fmt::format(", in {} of them neither gets there", evidence.censored)
          : "");
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
              {"ties", "", TiesText(evidence)},
              {"x", plots::Interval(evidence.x, 2)},
              {"rank_biserial", "r", plots::Fixed(evidence.rank_biserial, 2)},
              {"verdict", kClaimVerdicts.at(verdict)},
              {"turns", "", turns}});
  return row;
}

using Experiments = std::map<std::string, plots::ExperimentRecords>;

// The evidence of each method, or the one of a table.
std::vector<Evidence> EvidenceFor(const PaperClaim& claim,
                                  const fs::path& results,
                                  Experiments& experiments) {
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
      if (const auto& settings = experiments[name].settings;
          !settings.empty()) {
        fmt::print(stderr,
                   "note: {}: its runs are of another experiment ({}) and no "
                   "evidence: run the manifest as it is\n",
                   (results / name).string(), fmt::join(settings, ", "));
      }
    }
    const bool counts = recorded && experiments[name].settings.empty();
    for (const std::string& method : claim.Words("methods")) {
      const auto runs_of = [&](const std::string& of) {
        return RunsOf(experiments[name], of);
      };
      evidence.push_back(counts ? WorstEvidence(claim, runs_of, method)
                                : Evidence{.method = method});
    }
  }
  return evidence;
}

// The rows whose evidence is runs of the experiment.
std::vector<PaperClaim> ClaimsOn(const CsvTable& file,
                                 const std::string& experiment) {
  std::vector<PaperClaim> claims;
  for (const CsvTable::Row& row : file.rows()) {
    if (file.Cell(row, "evidence") == experiment) {
      claims.push_back({file, row});
    }
  }
  return claims;
}

}  // namespace

std::vector<std::string> MethodsOfClaims(const fs::path& ledger,
                                         const std::string& experiment) {
  const CsvTable file = CsvTable::Read(ledger);
  std::vector<std::string> methods;
  for (const PaperClaim& claim : ClaimsOn(file, experiment)) {
    for (const std::string& method : claim.Words("methods")) {
      for (const std::string& name : ComparedIn(claim, method)) {
        if (!common::Contains(methods, name)) {
          methods.push_back(name);
        }
      }
    }
  }
  return methods;
}

std::vector<JudgedClaim> JudgeExperiment(
    const fs::path& ledger, const std::string& experiment,
    const std::function<const plots::ExperimentRecords&(const std::string&)>&
        records) {
  const CsvTable file = CsvTable::Read(ledger);
  std::map<std::string, Items> runs = {{"", {}}};
  const auto runs_of = [&](const std::string& method) -> const Items& {
    const auto [found, is_new] = runs.try_emplace(method);
    if (is_new) {
      found->second = RunsOf(records(method), method);
    }
    return found->second;
  };
  std::vector<JudgedClaim> judged;
  for (const PaperClaim& claim : ClaimsOn(file, experiment)) {
    for (const std::string& method : claim.Words("methods")) {
      const Evidence evidence = WorstEvidence(claim, runs_of, method);
      if (evidence.n > 0) {
        const Verdict verdict =
            evidence.verdict == ClaimVerdict::kHolds   ? Verdict::kHolds
            : evidence.verdict == ClaimVerdict::kFails ? Verdict::kTurns
                                                       : Verdict::kOpen;
        judged.push_back({claim["id"],
                          method,
                          ComparedIn(claim, method),
                          evidence.rival,
                          {evidence.n, evidence.x},
                          Favor(claim, evidence.x.value),
                          verdict});
      }
    }
  }
  return judged;
}

std::vector<Output> JudgeClaims(const fs::path& path, const fs::path& results) {
  const CsvTable file = CsvTable::Read(path);
  Experiments experiments;
  std::optional<CsvTable> sensitivity;
  if (const fs::path varied = results / "sensitivity/sensitivity.csv";
      common::IsFile(varied)) {
    sensitivity = CsvTable::Read(varied);
  }
  Output ledger{.name = "claims"};
  std::array<int, kClaimVerdicts.size()> counts{};
  for (const CsvTable::Row& row : file.rows()) {
    const PaperClaim claim{file, row};
    for (const Evidence& each : EvidenceFor(claim, results, experiments)) {
      ledger.table.Add(
          RowOf(claim, each,
                sensitivity ? TurnsOf(claim, each.method, *sensitivity) : ""));
      ++counts.at(static_cast<std::size_t>(each.verdict));
    }
  }
  std::vector<std::string> totals;
  for (std::size_t v = 0; v < counts.size(); ++v) {
    totals.push_back(fmt::format("{} {}", counts.at(v), kClaimVerdicts.at(v)));
  }
  ledger.conclusion = fmt::format(
      "x is a mean with its 95% bootstrap interval over runs, or over the rows "
      "of a table: problems or seeds. A difference from a rival is paired, and "
      "r is its rank-biserial correlation; of several rivals, the one with the "
      "worst verdict is shown, of equals the least favorable one. A claim is "
      "open if its criterion holds for a part of the interval only, or with "
      "fewer than {} runs, rows or pairs of which one gets there, or, of a "
      "difference, pairs that differ. Rows: {}.",
      Effect::kFewestPairs, fmt::join(totals, ", "));
  return {std::move(ledger)};
}

}  // namespace studies
