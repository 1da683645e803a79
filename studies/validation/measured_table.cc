#include "studies/validation/measured_table.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/text.h"
#include "studies/validation/facts.h"
#include "studies/validation/model_shape.h"
#include "studies/validation/table_kind.h"
#include "studies/validation/table_settings.h"
#include "trials/data_folder.h"
#include "trials/table_path.h"

namespace studies {
namespace {

namespace fs = std::filesystem;

using common::CsvTable;
using common::InputError;

constexpr double kBytesPerGb = 1e9;
constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;
constexpr std::string_view kMeasured = "measured";
// The fraction of a network card's signaling rate that large messages reach.
constexpr double kNetworkShare = 0.85;

// A file with a row of facts per scenario, or nothing.
class Scenarios {
 public:
  Scenarios() = default;
  explicit Scenarios(const fs::path& path) : csv_(CsvTable::Read(path)) {
    if (!csv_->Find("scenario")) {
      csv_->Fail(csv_->header_line(),
                 fmt::format("the column 'scenario' is missing: it names the "
                             "scenario that a row describes; the header has {}",
                             fmt::join(csv_->header(), ", ")));
    }
    for (std::size_t i = 0; i < csv_->rows().size(); ++i) {
      rows_.emplace(csv_->Cell(csv_->rows()[i], "scenario"), i);
    }
  }

  void AddTo(Facts& facts) const {
    const auto found = rows_.find(facts.Text("scenario"));
    if (found != rows_.end()) {
      facts.Add(TableRow{*csv_, csv_->rows()[found->second]});
    }
  }

 private:
  std::optional<CsvTable> csv_;
  std::map<std::string, std::size_t, std::less<>> rows_;  // by scenario
};

// Clusters and frameworks by name, each read once.
class Library {
 public:
  explicit Library(const TableOverrides& overrides) : overrides_(overrides) {}

  // The row's cluster with as many hosts as its GPUs need.
  const trials::Cluster& ClusterOf(const Facts& facts) {
    const std::string& given = overrides_.cluster;
    const std::string name =
        given.empty() ? RequireName(facts, "cluster", "--cluster C.toml")
                      : given;
    const int gpus = facts.RequireInt("gpus");
    const auto [at, is_new] = clusters_.try_emplace({name, gpus});
    if (is_new) {
      trials::Cluster& cluster = at->second;
      cluster = trials::ReadCluster(trials::FindDataFile("clusters", name));
      while (cluster.gpus_per_node > 1 && (gpus % cluster.gpus_per_node != 0)) {
        --cluster.gpus_per_node;
      }
      cluster.nodes = gpus / cluster.gpus_per_node;
      if (cluster.nodes > 1 && !(cluster.inter.bandwidth_bytes_per_s > 0.0)) {
        facts.Fail(
            fmt::format("{} GPUs are more than one host of the cluster "
                        "'{}', which has no [inter]; give another "
                        "(--cluster C.toml)",
                        gpus,
                        name));
      }
    }
    return at->second;
  }

  std::pair<std::string, const trials::Framework&> FrameworkOf(
      const Facts& facts) {
    const std::string& given = overrides_.framework;
    const std::string name =
        given.empty() ? RequireName(facts, "framework", "--framework NAME")
                      : given;
    const auto [at, is_new] = frameworks_.try_emplace(name);
    if (is_new) {
      at->second = trials::FindFramework(name);
    }
    return {name, at->second};
  }

 private:
  static std::string RequireName(const Facts& facts,
                                 std::string_view what,
                                 std::string_view remedy) {
    if (!facts.Has(what)) {
      facts.Fail(fmt::format(
          "the {} of this table is not known; name it ({})", what, remedy));
    }
    return facts.Text(what);
  }

  const TableOverrides& overrides_;
  std::map<std::pair<std::string, int>, trials::Cluster> clusters_;
  std::map<std::string, trials::Framework> frameworks_;
};

// The value that a fact names; the first one if the fact is missing.
template <typename T>
T Choice(const Facts& facts,
         std::string_view key,
         std::initializer_list<std::pair<std::string_view, T>> choices) {
  const std::string name = facts.Text(key, std::string(choices.begin()->first));
  std::vector<std::string_view> known;
  for (const auto& [choice, value] : choices) {
    if (choice == name) {
      return value;
    }
    known.push_back(choice);
  }
  facts.Fail(fmt::format("{} '{}' is not known here; known: {}",
                         key,
                         name,
                         fmt::join(known, ", ")));
}

PeakMemory PeakMemoryOf(const Facts& facts) {
  return Choice<PeakMemory>(facts,
                            "peak_memory",
                            {{"allocated", PeakMemory::kAllocated},
                             {"reserved", PeakMemory::kReserved},
                             {"device", PeakMemory::kDevice},
                             {"computed", PeakMemory::kComputed}});
}

PeakRank PeakRankOf(const Facts& facts) {
  return Choice<PeakRank>(facts,
                          "peak_rank",
                          {{"fullest", PeakRank::kFullest},
                           {"first", PeakRank::kFirst},
                           {"last", PeakRank::kLast}});
}

double PeakMemoryUnitOf(const Facts& facts) {
  return Choice<double>(
      facts, "peak_memory_unit", {{"GB", kBytesPerGb}, {"GiB", kBytesPerGib}});
}

trials::ParallelConfig ConfigOf(const Facts& facts) {
  trials::ParallelConfig config;
  for (const trials::Knob& knob : trials::BuiltInKnobs()) {
    try {
      if (facts.Has(knob.name)) {
        knob.SetChecked(config, facts.Text(knob.name));
      } else if (facts.Has(knob.flag.name)) {
        knob.SetFlag(config, facts.Text(knob.flag.name));
      }
    } catch (const std::invalid_argument& e) {
      facts.Fail(e.what());
    }
  }
  return config;
}

// Sizes that follow from others.
void Complete(Facts& facts) {
  const int ranks =
      facts.Int("tp", 1) * facts.Int("pp", 1) * facts.Int("cp", 1);
  if (!facts.Has("dp")) {
    facts.Add("dp", fmt::format("{}", facts.RequireInt("gpus") / ranks));
  }
  const int dp = facts.RequireInt("dp");
  if (facts.Has("micro_batch_size") && !facts.Has("microbatches")) {
    const int microbatches = facts.RequireInt("global_batch_size") /
                             (dp * facts.RequireInt("micro_batch_size"));
    facts.Add("microbatches", fmt::format("{}", std::max(1, microbatches)));
  }
}

void Describe(Facts& facts, Library& library, MeasuredRow& row) {
  if (row.part.bytes > 0.0) {  // a collective has no model
    row.cluster = library.ClusterOf(facts);
    return;
  }
  Complete(facts);
  row.cluster = library.ClusterOf(facts);
  if (facts.Has("host_gbps")) {
    row.cluster.inter.bandwidth_bytes_per_s = kNetworkShare *
                                              facts.Number("host_gbps") * 1e9 /
                                              8 / row.cluster.nics_per_node;
  }
  const auto [name, framework] = library.FrameworkOf(facts);
  row.framework_name = name;
  row.framework = framework;
  for (const auto& [flag, field] : trials::FrameworkFlags()) {
    if (facts.Has(flag)) {
      row.framework.*field = facts.Flag(flag, row.framework.*field);
      row.framework_name +=
          fmt::format(" {}={}", flag, row.framework.*field ? 1 : 0);
    }
  }
  row.workload = WorkloadOf(facts);
  row.config = ConfigOf(facts);
  row.peak_memory = PeakMemoryOf(facts);
  row.peak_rank = PeakRankOf(facts);
}

MeasuredTable Load(const fs::path& path,
                   const TableSettings& settings,
                   const Scenarios& scenarios,
                   const TableOverrides& overrides) {
  MeasuredTable table{settings.name,
                      settings.title,
                      CsvTable::Read(path, FindTableKind(settings.kind).rows),
                      {}};
  const TableKind& kind = KindOf(table.csv);
  Library library(overrides);
  for (const CsvTable::Row& csv_row : table.csv.rows()) {
    RowFacts read = kind.read({table.csv, csv_row});
    scenarios.AddTo(read.facts);
    for (const std::string& token : read.tokens) {
      if (settings.facts_of.Has(token)) {
        read.facts.Add(settings.facts_of.RequireTable(token));
      }
    }
    read.facts.Add(settings.facts);
    MeasuredRow& row = table.rows.emplace_back();
    row.scenario = read.facts.Text("scenario");
    row.left_out = read.left_out;
    row.part = read.part;
    row.out_of_memory = read.facts.Text("status") == "oom";
    row.peak_memory_unit_bytes = PeakMemoryUnitOf(read.facts);
    if (!row.out_of_memory) {
      row.step_time_s = read.facts.Number("step_time_s");
      row.peak_memory_bytes =
          read.facts.Number("peak_memory_gb") * row.peak_memory_unit_bytes;
    }
    if (row.left_out.empty()) {
      try {
        Describe(read.facts, library, row);
      } catch (const InputError& e) {
        if (kind.name == kMeasured) {
          throw;
        }
        row.left_out = e.what();  // a table with other models in it
      }
    }
  }
  return table;
}

// The settings for a table that was given by its path.
TableSettings SettingsFor(const fs::path& path) {
  const CsvTable csv = CsvTable::Read(path, CsvTable::Rows::kMayBeShort);
  const TableKind& kind = KindOf(csv);
  const std::string stem = path.stem().string();
  std::vector<TableSettings> alike;
  for (TableSettings& settings : AllTableSettings()) {
    if (settings.kind == kind.name) {
      alike.push_back(std::move(settings));
    }
  }
  const std::string scenario =
      csv.rows().empty() ? ""
                         : std::string(csv.Cell(csv.rows()[0], "scenario"));
  const auto fits = [&](const TableSettings& settings) {
    return stem.find(settings.name) != std::string::npos ||
           scenario.starts_with(settings.name + "-");
  };
  const auto found = std::find_if(alike.begin(), alike.end(), fits);
  if (found != alike.end()) {
    return *found;
  }
  if (kind.name != kMeasured && alike.size() == 1) {
    return alike.front();
  }
  TableSettings settings =
      ReadTableSettings(trials::ExperimentsFolder() / "validation" / "any" /
                        fmt::format("{}.toml", kind.name));
  settings.title = fmt::format("{}, {}", stem, settings.title);
  return settings;
}

Scenarios ScenariosFor(const fs::path& path,
                       const TableSettings& settings,
                       const TableOverrides& overrides) {
  if (!overrides.scenarios.empty()) {
    return Scenarios(overrides.scenarios);
  }
  const fs::path beside =
      path.parent_path() / (path.stem().string() + "_scenarios.csv");
  std::error_code error;
  if (fs::is_regular_file(beside, error)) {
    return Scenarios(beside);
  }
  if (settings.scenarios.empty()) {
    return {};
  }
  return Scenarios(trials::ResolveTablePath(settings.scenarios, "."));
}

TableSettings FindSettings(const std::string& name) {
  std::vector<std::string> known;
  for (TableSettings& settings : AllTableSettings()) {
    if (settings.name == name) {
      return std::move(settings);
    }
    known.push_back(settings.name);
  }
  throw InputError(fmt::format(
      "unknown table '{}'{}; known: {} (another one: --table T.csv)",
      name,
      common::DidYouMean(name, known),
      fmt::join(known, ", ")));
}

}  // namespace

std::vector<std::string> KnownTables() {
  std::vector<std::string> names;
  for (const TableSettings& settings : AllTableSettings()) {
    names.push_back(settings.name);
  }
  return names;
}

std::optional<fs::path> KnownTablePath(const std::string& name) {
  try {
    return trials::ResolveTablePath(FindSettings(name).table, ".");
  } catch (const InputError&) {
    return std::nullopt;
  }
}

MeasuredTable ReadKnownTable(const std::string& name,
                             const TableOverrides& overrides) {
  const TableSettings settings = FindSettings(name);
  const fs::path path = trials::ResolveTablePath(settings.table, ".");
  return Load(
      path, settings, ScenariosFor(path, settings, overrides), overrides);
}

MeasuredTable ReadAnyTable(const fs::path& path,
                           const TableOverrides& overrides) {
  TableSettings settings = SettingsFor(path);
  settings.name = path.stem().string();  // of the figures' folder
  return Load(
      path, settings, ScenariosFor(path, settings, overrides), overrides);
}

}  // namespace studies
