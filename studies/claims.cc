#include "studies/claims.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <muParser.h>

#include "common/csv_table.h"
#include "common/files.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "plots/curve.h"
#include "plots/experiment_records.h"
#include "plots/summary.h"
#include "trials/knobs.h"

namespace studies {
namespace {

using common::CsvTable;
using common::InputError;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Named values of a run or of a row of a table; NaN where unknown.
using NamedValues = std::map<std::string, double>;

// The criterion holds for the interval of x, for a part of it, or for none of
// it. The x of a table is exact.
enum class ClaimVerdict { kHolds, kOpen, kFails, kUntestable, kNoRecords };
constexpr std::array<std::string_view, 5> kClaimVerdicts = {
    "holds", "open", "does not hold", "cannot be tested here", "no records"};

// [[claim]] of the file.
struct PaperClaim {
  std::string id, source, place, text, paper, command, note, untestable;
  std::string experiment;
  std::vector<std::string> methods, rivals;
  std::string table;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  std::string quantity = "share";
  std::string criterion = "x > 0";
  std::string where;  // for messages
};

// The evidence of a method for a claim.
struct Evidence {
  // With fewer runs, the verdict is open: with 5 pairs, a sign test cannot
  // reject at 5% even if all differences have the same sign.
  static constexpr int kFewestRuns = 6;

  std::string method;
  std::string rival;  // of the worst verdict; "": none
  common::Estimate x = {};
  int n = 0;
  double rank_biserial = kNone;
  ClaimVerdict verdict = ClaimVerdict::kNoRecords;
};

// NaN where a value that the expression reads is unknown.
double ValueOf(const std::string& expression, NamedValues values,
               const std::string& where) {
  mu::Parser parser;
  std::vector<std::string> known;
  for (auto& [name, value] : values) {
    parser.DefineVar(name, &value);
    known.push_back(name);
  }
  try {
    parser.SetExpr(expression);
    for (const auto& [name, _] : parser.GetUsedVar()) {
      if (const auto used = values.find(name); used == values.end()) {
        throw InputError(fmt::format(
            "{}: \"{}\": unknown value '{}'{}; known: {}", where, expression,
            name, common::DidYouMean(name, known), fmt::join(known, ", ")));
      } else if (std::isnan(used->second)) {
        return kNone;
      }
    }
    return parser.Eval();
  } catch (const mu::ParserError& e) {
    throw InputError(
        fmt::format("{}: \"{}\": {}", where, expression, e.GetMsg()));
  }
}

// --- evidence of records -----------------------------------------------------

NamedValues ValuesOf(const plots::Run& run, const trials::ProblemInfo& info) {
  const auto curve = [&](plots::Cost cost, plots::Value value) {
    return plots::IncumbentCurve(run, info, cost, value);
  };
  // The first cost at which a share of 95% was reached; all of it without one.
  const auto to_95 = [&](plots::Cost cost, double all) {
    const plots::StepCurve shares = curve(cost, plots::Value::kExact);
    const auto found = std::ranges::find_if(shares.y, [&](double y) {
      return y >= 0.95 * info.optimum_steps_per_s;
    });
    return found == shares.y.end() ? all : shares.x[found - shares.y.begin()];
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
  const double percent =
      info.optimum_steps_per_s > 0.0 ? 100.0 / info.optimum_steps_per_s : kNone;
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
    values[knob.name] =
        choice < 0 ? kNone : knob.Number(knob.Get(run.trials[choice].config));
  }
  return values;
}

// The quantity of each finished run, by its problem and repeat.
using Quantities = std::map<std::pair<std::string, int>, double>;

Quantities QuantitiesOf(const PaperClaim& claim,
                        const plots::ExperimentRecords& records,
                        const std::string& method) {
  Quantities quantities;
  for (const plots::ProblemRecords& problem : records.problems) {
    for (const plots::MethodRecords& each : problem.methods) {
      for (const plots::Run& run : each.runs) {
        if (each.name == method && run.finished) {
          quantities[{problem.info.name, run.repeat}] =
              ValueOf(claim.quantity, ValuesOf(run, problem.info), claim.where);
        }
      }
    }
  }
  std::erase_if(quantities,
                [](const auto& each) { return std::isnan(each.second); });
  return quantities;
}

ClaimVerdict VerdictOf(const PaperClaim& claim, const common::Estimate& x) {
  int holds = 0;
  for (const double value : {x.value, x.low, x.high}) {
    holds +=
        ValueOf(claim.criterion, {{"x", value}}, claim.where) > 0.0 ? 1 : 0;
  }
  return holds == 3   ? ClaimVerdict::kHolds
         : holds == 0 ? ClaimVerdict::kFails
                      : ClaimVerdict::kOpen;
}

// The evidence against a rival; against none if there is no name.
Evidence EvidenceAgainst(const std::string& rival, const PaperClaim& claim,
                         const plots::ExperimentRecords& records,
                         const std::string& method) {
  std::vector<double> values;
  const Quantities others = QuantitiesOf(claim, records, rival);
  for (const auto& [run, value] : QuantitiesOf(claim, records, method)) {
    if (rival.empty()) {
      values.push_back(value);
    } else if (others.contains(run)) {
      values.push_back(value - others.at(run));
    }
  }
  Evidence evidence{.method = method,
                    .rival = rival,
                    .x = common::Bootstrap({values}, common::Statistic::kMean),
                    .n = static_cast<int>(values.size())};
  if (!rival.empty()) {
    evidence.rank_biserial = common::TestPairs(values).rank_biserial;
  }
  if (!values.empty()) {
    evidence.verdict = evidence.n < Evidence::kFewestRuns
                           ? ClaimVerdict::kOpen
                           : VerdictOf(claim, evidence.x);
  }
  return evidence;
}

// The evidence with the worst verdict over the rivals; of equals that with x
// nearest to 0.
Evidence WorstEvidence(const PaperClaim& claim,
                       const plots::ExperimentRecords& records,
                       const std::string& method) {
  std::vector<Evidence> all;
  for (const std::string& name : claim.rivals) {
    all.push_back(
        EvidenceAgainst(name.starts_with("+") ? method + name.substr(1) : name,
                        claim, records, method));
  }
  return all.empty()
             ? EvidenceAgainst("", claim, records, method)
             : *std::ranges::max_element(all, {}, [](const Evidence& each) {
                 return std::pair(each.verdict, -std::abs(each.x.value));
               });
}

// --- evidence of tables ------------------------------------------------------

// "published estimate (s)" -> "published_estimate_s".
std::string AsName(std::string_view column) {
  std::string name;
  for (const char c : common::Lower(column)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

Evidence TableEvidence(const PaperClaim& claim,
                       const std::filesystem::path& path) {
  Evidence evidence;
  const CsvTable table = CsvTable::Read(path);
  std::vector<double> values;
  for (const CsvTable::Row& row : table.rows()) {
    const bool selected =
        std::ranges::all_of(claim.rows, [&](const auto& filter) {
          return std::ranges::count(filter.second,
                                    table.Cell(row, filter.first)) > 0;
        });
    NamedValues named;
    for (std::size_t c = 0; selected && c < row.cells.size(); ++c) {
      try {
        named[AsName(table.header()[c])] = common::ParseDouble(row.cells[c]);
      } catch (const std::invalid_argument&) {
        named[AsName(table.header()[c])] = kNone;
      }
    }
    const double value =
        selected ? ValueOf(claim.quantity, named, claim.where) : kNone;
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  if (!values.empty()) {
    const double mean = common::Mean(values);
    evidence.x = {mean, mean, mean};
    evidence.n = static_cast<int>(values.size());
    evidence.verdict = VerdictOf(claim, evidence.x);
  }
  return evidence;
}

// Where the sensitivity study varies the experiment: "holds in 27 of 30 cases;
// turns at reading = microbatch".
std::string TurnsOf(const PaperClaim& claim,
                    const std::filesystem::path& path) {
  if (claim.experiment.empty() || !common::IsFile(path)) {
    return "";
  }
  const CsvTable table = CsvTable::Read(path);
  int holds = 0;
  int cases = 0;
  std::vector<std::string> turns;
  for (const CsvTable::Row& row : table.rows()) {
    const auto cell = [&](std::string_view name) {
      return std::string(table.Cell(row, name));
    };
    if (cell("experiment") == claim.experiment &&
        std::ranges::count(claim.methods, cell("better")) > 0 &&
        std::ranges::count(claim.rivals, cell("worse")) > 0) {
      ++cases;
      holds += cell("verdict") == "holds" ? 1 : 0;
      if (cell("verdict") == "turns") {
        turns.push_back(fmt::format("{} = {} ({} against {})", cell("constant"),
                                    cell("value"), cell("better"),
                                    cell("worse")));
      }
    }
  }
  return cases == 0 ? ""
                    : fmt::format("holds in {} of {} cases{}{}", holds, cases,
                                  turns.empty() ? "" : "; turns at ",
                                  fmt::join(turns, ", "));
}

PaperClaim ReadPaperClaim(const common::TomlTable& table) {
  PaperClaim claim{.id = table.RequireString("id"),
                   .source = table.RequireString("source"),
                   .place = table.RequireString("place"),
                   .text = table.RequireString("text"),
                   .paper = table.GetString("paper", ""),
                   .command = table.GetString("command", ""),
                   .note = table.GetString("note", ""),
                   .untestable = table.GetString("untestable", ""),
                   .experiment = table.GetString("experiment", ""),
                   .methods = table.GetStrings("methods"),
                   .rivals = table.GetStrings("rivals"),
                   .table = table.GetString("table", ""),
                   .where = table.Where()};
  const common::TomlTable rows = table.GetTable("rows");
  for (const std::string& column : rows.Keys()) {
    claim.rows.emplace_back(column, rows.GetStrings(column));
  }
  if (const auto tests = table.GetStrings("tests"); !tests.empty()) {
    claim.table = "claims/tests.csv";
    claim.rows = {{"test", tests}};
    claim.quantity = "passed";
    claim.criterion = "x == 1";
    claim.command = "make claims";
  }
  claim.quantity = table.GetString("quantity", claim.quantity);
  claim.criterion = table.GetString("criterion", claim.criterion);
  if (!claim.experiment.empty() && claim.command.empty()) {
    claim.command = "make exp-" + claim.experiment;
  }
  if (!claim.experiment.empty() && claim.methods.empty()) {
    claim.methods = {"oppa-paper", "oppa"};
  }
  if (claim.experiment.empty() + claim.table.empty() +
          claim.untestable.empty() !=
      2) {
    throw InputError(fmt::format(
        "{}: claim '{}' needs one of experiment, table, tests and untestable",
        claim.where, claim.id));
  }
  return claim;
}

plots::Row RowOf(const PaperClaim& claim, const Evidence& evidence,
                 const std::string& turns) {
  const auto verdict =
      kClaimVerdicts.at(static_cast<std::size_t>(evidence.verdict));
  const bool explain = evidence.verdict == ClaimVerdict::kFails ||
                       evidence.verdict == ClaimVerdict::kOpen;
  const std::string remark = !claim.untestable.empty() ? claim.untestable
                             : explain                 ? claim.note
                                                       : "";
  // People read the texts in docs/claims.md, beside each other.
  return {{"id", claim.id},
          {"source", "", claim.source},
          {"place", "", claim.place},
          {"claim", "", claim.text},
          {"paper", "", claim.paper},
          {"method", evidence.method},
          {"quantity", "", claim.quantity},
          {"criterion", claim.criterion},
          {"rival", evidence.rival},
          {"n", evidence.n},
          {"x", plots::Interval(evidence.x, 2)},
          {"rank_biserial", "r", plots::Fixed(evidence.rank_biserial, 2)},
          {"verdict", verdict},
          {"remark", "", remark},
          {"turns", "", turns},
          {"command", "", claim.command}};
}

}  // namespace

std::vector<Output> JudgeClaims(const std::filesystem::path& file,
                                const std::filesystem::path& results) {
  const common::TomlTable root = common::TomlTable::ParseFile(file);
  std::vector<PaperClaim> claims;
  for (const common::TomlTable& table : root.GetTables("claim")) {
    claims.push_back(ReadPaperClaim(table));
  }
  root.RejectUnknownKeys();

  std::map<std::string, plots::ExperimentRecords> experiments;
  std::map<std::string, std::array<int, 5>> counts;
  Output ledger{.name = "claims"};
  for (const PaperClaim& claim : claims) {
    const std::filesystem::path table = results / claim.table;
    const std::filesystem::path folder = results / claim.experiment;
    std::vector<Evidence> evidence;
    if (!claim.untestable.empty()) {
      evidence.push_back({.verdict = ClaimVerdict::kUntestable});
    } else if (claim.experiment.empty()) {
      evidence.push_back(common::IsFile(table) ? TableEvidence(claim, table)
                                               : Evidence{});
    } else if (common::IsFile(folder / "experiment.json")) {
      const auto [found, is_new] = experiments.try_emplace(claim.experiment);
      if (is_new) {
        found->second = plots::LoadExperiment(folder);
      }
      for (const std::string& method : claim.methods) {
        evidence.push_back(WorstEvidence(claim, found->second, method));
      }
    } else {
      for (const std::string& method : claim.methods) {
        evidence.push_back({.method = method});
      }
    }
    const std::string turns =
        TurnsOf(claim, results / "sensitivity/sensitivity.csv");
    for (const Evidence& each : evidence) {
      ledger.table.Add(RowOf(claim, each, turns));
      const std::string separator = each.method.empty() ? "" : ", ";
      ++counts[claim.source + separator + each.method].at(
          static_cast<std::size_t>(each.verdict));
    }
  }
  ledger.table.HideEmpty();
  ledger.conclusion =
      "x is a mean with its 95% bootstrap interval over runs, or an exact "
      "number of a table. A difference from a rival is paired by repeat, and r "
      "is its rank-biserial correlation; of several rivals, the one with the "
      "worst verdict is shown. A claim is open if its criterion holds for a "
      "part of the interval only, or with fewer than 6 runs.";
  Output summary{.name = "claims-by-source",
                 .conclusion = "Numbers of claims by verdict."};
  for (const auto& [group, numbers] : counts) {
    plots::Row row = {{"source, method", group}};
    for (std::size_t v = 0; v < numbers.size(); ++v) {
      row.emplace_back(std::string(kClaimVerdicts.at(v)), numbers.at(v));
    }
    summary.table.Add(std::move(row));
  }
  return {std::move(ledger), std::move(summary)};
}

}  // namespace studies
