#include "studies/validation/measured_table.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "trials/data_folder.h"
#include "trials/flop.h"
#include "trials/tables/measured_rows.h"
#include "trials/tables/table_settings.h"
#include "trials/usual_host.h"

namespace studies {
namespace {

namespace fs = std::filesystem;

using common::CsvTable;
using common::InputError;
using trials::TableSettings;

constexpr std::string_view kMeasured = "measured";

// The value that a fact names; the first one if the fact is missing.
template <typename T>
T Choice(const Facts& facts, std::string_view key,
         std::initializer_list<std::pair<std::string_view, T>> choices) {
  const std::string name = facts.Text(key, std::string(choices.begin()->first));
  std::vector<std::string_view> known;
  for (const auto& [choice, value] : choices) {
    if (choice == name) {
      return value;
    }
    known.push_back(choice);
  }
  facts.Fail(fmt::format("{} '{}' is not known here; known: {}", key, name,
                         fmt::join(known, ", ")));
}

// "7;9;9;9" counts the embedding and the head as layers.
std::vector<int> StageBlocks(const Facts& facts, int stages) {
  const std::string layers = facts.Text("layers_per_stage");
  std::vector<int> blocks;
  for (const std::string_view one : common::Split(layers, ';')) {
    blocks.push_back(common::ParseInt(one).value_or(-1));
  }
  --blocks.front();
  --blocks.back();
  if (static_cast<int>(blocks.size()) != stages ||
      std::ranges::any_of(blocks, [](int count) { return count < 0; })) {
    facts.Fail(fmt::format(
        "layers_per_stage is '{}': give the layers of each of {} stages, with "
        "embedding and head, separated by semicolons",
        layers, stages));
  }
  return blocks;
}

// The columns of a table whose names no row was asked for.
std::vector<std::string> UnreadColumns(
    const CsvTable& csv, const std::set<std::string, std::less<>>& asked) {
  std::vector<std::string> unread;
  for (const std::string& column : csv.header()) {
    const std::string name = trials::ColumnName(column);
    if (!asked.contains(name) && !asked.contains(column) &&
        name != "peak_memory_gb") {
      unread.push_back(column);
    }
  }
  return unread;
}

// The architectures of GPUs by the names that rows give them.
class Architectures {
 public:
  // Errors: throws InputError where the row names a GPU of another architecture
  // than its cluster has.
  void Check(const Facts& facts, const MeasuredRow& row) {
    const std::string name = common::Lower(facts.Text("gpu"));
    const std::string& architecture = Of(name);
    if (!architecture.empty() && architecture != row.cluster.gpu.architecture) {
      facts.Fail(
          fmt::format("gpu is '{}', and the cluster has {}: give its "
                      "own (--cluster C.toml)",
                      name, row.cluster.gpu.name));
    }
  }

 private:
  // "" of a name that no file has.
  const std::string& Of(const std::string& name) {
    const auto [at, is_new] = by_name_.try_emplace(name);
    if (is_new && !name.empty()) {
      const std::vector<std::string> known = trials::DataFileNames("gpus");
      const auto file =
          std::ranges::find_if(known, [&](const std::string& each) {
            return each == name || each.starts_with(name + "-");
          });
      if (file != known.end()) {
        at->second = trials::FindGpu(*file).architecture;
      }
    }
    return at->second;
  }

  std::map<std::string, std::string> by_name_;
};

void Describe(const Facts& facts, trials::MachineLibrary& library,
              Architectures& architectures, MeasuredRow& row) {
  if (row.part.IsCall()) {
    row.cluster.gpu =
        trials::FindGpu(facts.Text("gpu_preset", facts.Text("gpu")));
    return;
  }
  if (row.part.bytes > 0.0) {  // a collective has no model
    row.cluster = library.ClusterOf(facts);
    return;
  }
  static_cast<trials::RowTraining&>(row) = TrainingOf(facts, library);
  architectures.Check(facts, row);
  row.peak_memory = Choice<PeakMemory>(facts, "peak_memory",
                                       {{"allocated", PeakMemory::kAllocated},
                                        {"reserved", PeakMemory::kReserved},
                                        {"device", PeakMemory::kDevice},
                                        {"computed", PeakMemory::kComputed}});
  row.peak_rank = Choice<PeakRank>(facts, "peak_rank",
                                   {{"fullest", PeakRank::kFullest},
                                    {"first", PeakRank::kFirst},
                                    {"last", PeakRank::kLast}});
  if (facts.Has("layers_per_stage")) {
    row.stage_blocks = StageBlocks(facts, row.config.pp);
  }
}

// Whether the job ran after the mend of its pipeline, if it has one, and not in
// the slow state.
bool IsClean(const Facts& facts, const MeasuredRow& row,
             const TableSettings& settings) {
  const bool mended =
      row.config.pp == 1 || facts.Flag("after_pp_fix", /*otherwise=*/true);
  const bool slow =
      facts.Number("allreduce_intra_gbs") < settings.fast_intra_gbs;
  return mended && !slow;
}

// A reason of the adapter or of the settings; or that the settings name no
// cluster for the environment of the row, which is then not simulated as
// another one.
std::string WhyLeftOut(const RowFacts& read, const TableOverrides& overrides) {
  if (!read.left_out.empty()) {
    return read.left_out;
  }
  if (read.facts.Has("left_out")) {
    return read.facts.Text("left_out");
  }
  if (!read.environment.empty() && !read.facts.Has("cluster") &&
      overrides.cluster.empty()) {
    return fmt::format("the cluster of environment '{}' is not known",
                       read.environment);
  }
  return "";
}

// Why no such step can have been measured; "" if it can.
std::string WhyImpossible(const MeasuredRow& row) {
  const trials::MeasurementLimits limits =
      trials::LimitsOf(row.workload, row.cluster);
  if (row.step_time_s > 0.0 && row.step_time_s < limits.least_step_s) {
    return fmt::format(
        "shorter than {} takes, {:.3g} s: another unit, a part of a step, or "
        "other GPUs",
        limits.work, limits.least_step_s);
  }
  if (row.peak_memory == PeakMemory::kComputed) {
    return "";
  }
  return row.peak_memory_bytes > limits.most_memory_bytes
             ? fmt::format(
                   "more memory than {} has: another unit, or another "
                   "GPU",
                   row.cluster.gpu.name)
         : row.peak_memory_bytes < limits.least_memory_bytes
             ? fmt::format(
                   "less memory than a share of the weights needs, {:.3g} "
                   "bytes: another unit",
                   limits.least_memory_bytes)
             : "";
}

// The half of each row: by the tokens in the settings, otherwise every other
// model in the order of their first row, beginning with a fitted one.
class Halves {
 public:
  explicit Halves(const TableSettings& settings) : fitted_(settings.fitted) {}

  Half Of(const MeasuredRow& row, const std::vector<std::string>& tokens) {
    if (!row.left_out.empty()) {
      return Half::kOther;
    }
    if (fitted_) {
      const bool fitted =
          std::ranges::any_of(tokens, [this](const std::string& token) {
            return std::find(fitted_->begin(), fitted_->end(), token) !=
                   fitted_->end();
          });
      return fitted ? Half::kFitted : Half::kOther;
    }
    const trials::Model& model = row.workload.model;
    const std::string name =
        model.layers == 0
            ? row.scenario  // a collective
            : fmt::format("{} {} {} {} {}", model.layers, model.hidden_size,
                          model.attention_heads, model.ffn_size, model.experts);
    const std::size_t place =
        models_.try_emplace(name, models_.size()).first->second;
    return place % 2 == 0 ? Half::kFitted : Half::kOther;
  }

 private:
  const std::optional<std::vector<std::string>>& fitted_;
  std::map<std::string, std::size_t> models_;
};

// Adds what a row of a table without settings leaves open: the model that is
// called so, and the usual host of its GPU. Returns what was assumed.
std::string AddUsual(const TableOverrides& overrides, RowFacts& read) {
  Facts& facts = read.facts;
  const std::string model = common::Lower(facts.Text("model"));
  if (!facts.Has("config") && !facts.Has("layers") && !model.empty() &&
      common::IsFile(trials::ExperimentsFolder() / "workloads" /
                     (model + ".json"))) {
    facts.Replace("config", model);
  }
  const std::string gpu =
      read.environment.empty() ? facts.Text("gpu") : read.environment;
  const auto host = facts.Has("cluster") || !overrides.cluster.empty()
                        ? std::nullopt
                        : trials::UsualHostOf(gpu);
  if (!host) {
    return "";
  }
  facts.Replace("cluster", host->cluster);
  return fmt::format("hosts of {} are taken for {} (--cluster C.toml)", gpu,
                     host->cluster);
}

// Sets what a row measured.
void AddMeasured(const Facts& facts, MeasuredRow& row) {
  using enum trials::Outcome;
  const trials::Outcome outcome = trials::OutcomeOf(facts).value_or(kCompleted);
  row.out_of_memory = outcome == kOutOfMemory;
  row.failed = !row.out_of_memory && outcome != kCompleted &&
               outcome != kTerminatedEarly;
  row.peak_memory_unit_bytes =
      Choice<double>(facts, "peak_memory_unit",
                     {{"GB", common::kGiga}, {"GiB", common::kGibi}});
  if (!row.out_of_memory && !row.failed) {
    row.step_time_s = facts.Number("step_time_s");
    row.peak_memory_bytes =
        facts.Has("peak_memory_bytes")
            ? facts.Number("peak_memory_bytes")
            : facts.Number("peak_memory_gb") * row.peak_memory_unit_bytes;
  }
}

// Lines on what was taken for what.
std::string Substitutes(const fs::path& path,
                        const trials::MachineLibrary& library,
                        std::set<std::string> hosts) {
  for (const auto& [name, framework] : library.assumed()) {
    hosts.insert(
        fmt::format("the framework '{}' is taken for {} (--framework NAME)",
                    name, framework));
  }
  hosts.erase("");
  std::string text;
  for (const std::string& each : hosts) {
    text += fmt::format("{}: {}\n", path.string(), each);
  }
  return text;
}

MeasuredTable Load(const fs::path& path, const TableSettings& settings,
                   const trials::ScenarioFacts& scenarios,
                   const TableOverrides& overrides) {
  MeasuredTable table{settings.name,
                      settings.title,
                      settings.source,
                      CsvTable::Read(path, FindTableKind(settings.kind).rows),
                      {},
                      {}};
  const TableKind& kind = KindOf(table.csv);
  trials::MachineLibrary library(path, overrides);
  Architectures architectures;
  Halves halves(settings);
  std::set<std::string, std::less<>> asked;
  const bool known = !settings.table.empty();
  std::set<std::string> hosts;
  for (const CsvTable::Row& csv_row : table.csv.rows()) {
    RowFacts read = kind.read({table.csv, csv_row});
    AddState(settings, path, read.facts);
    if (!known) {
      read.facts.Add(TableRow{table.csv, csv_row});  // and what the kind omits
    }
    AddSettings(scenarios, settings, read.tokens, read.facts);
    if (!known) {
      hosts.insert(AddUsual(overrides, read));
    }
    MeasuredRow& row = table.rows.emplace_back();
    row.scenario = read.facts.Text("scenario");
    row.left_out = WhyLeftOut(read, overrides);
    row.part = read.part;
    AddMeasured(read.facts, row);
    if (row.left_out.empty()) {
      try {
        Describe(read.facts, library, architectures, row);
      } catch (const InputError& e) {
        if (kind.name == kMeasured) {
          throw;
        }
        row.left_out = e.what();  // a table with other models in it
      }
    }
    if (row.left_out.empty() && row.part.name.empty()) {
      row.left_out = WhyImpossible(row);
    }
    row.half = halves.Of(row, read.tokens);
    row.clean = row.out_of_memory ||
                (!row.failed && IsClean(read.facts, row, settings));
    asked.insert(read.facts.asked().begin(), read.facts.asked().end());
  }
  if (kind.name == kMeasured || !known) {
    table.unread = UnreadColumns(table.csv, asked);
  }
  table.assumed = Substitutes(path, library, std::move(hosts));
  return table;
}

// The settings for a table that was given by its path.
TableSettings SettingsFor(const fs::path& path) {
  const CsvTable csv = CsvTable::Read(path, CsvTable::Rows::kMayBeShort);
  const TableKind& kind = KindOf(csv);
  const std::string stem = path.stem().string();
  std::vector<TableSettings> alike;
  for (TableSettings& settings : trials::AllTableSettings()) {
    if (settings.kind == kind.name) {
      alike.push_back(std::move(settings));
    }
  }
  const std::string scenario =
      csv.rows().empty() ? ""
                         : std::string(csv.Cell(csv.rows()[0], "scenario"));
  const auto found =
      std::ranges::find_if(alike, [&](const TableSettings& settings) {
        return Describes(settings, stem, scenario);
      });
  if (found != alike.end()) {
    return *found;
  }
  if (kind.name != kMeasured && alike.size() == 1) {
    return alike.front();
  }
  TableSettings settings =
      trials::ReadTableSettings(trials::ExperimentsFolder() / "validation" /
                                "any" / fmt::format("{}.toml", kind.name));
  settings.title = fmt::format("{}, {}", stem, settings.title);
  return settings;
}

trials::ScenarioFacts ScenariosFor(const fs::path& path,
                                   const TableSettings& settings,
                                   const TableOverrides& overrides) {
  const fs::path file = ScenariosPath(path, settings, overrides);
  return file.empty() ? trials::ScenarioFacts() : trials::ScenarioFacts(file);
}

// What a table without settings of its own is taken to be.
std::string AssumedOf(const MeasuredTable& table, const TableSettings& settings,
                      const trials::ScenarioFacts& scenarios,
                      const TableOverrides& overrides, const fs::path& path) {
  Facts facts("");
  if (!table.rows.empty()) {
    facts.Add(TableRow{table.csv, table.csv.rows().front()});
    scenarios.AddTo(facts);
  }
  std::string text;
  if (overrides.framework.empty() && !facts.Has("framework") &&
      settings.facts.Has("framework")) {
    text = fmt::format(
        "{}: no framework is named; assumed: {}, of {} (--framework NAME)\n",
        path.string(), settings.facts.RequireText("framework"),
        settings.file.filename().string());
  }
  if (AssumesFast(settings, path) && !facts.Has("allreduce_intra_gbs")) {
    text += path.string() +
            ": the state of its jobs (allreduce_intra_gbs) is not known; "
            "assumed: jobs that nothing slowed down\n";
  }
  if (!table.unread.empty()) {
    text += fmt::format("{}: columns without effect: {}\n", path.string(),
                        fmt::join(table.unread, ", "));
  }
  return text;
}

}  // namespace

std::vector<std::string> KnownTables() {
  return common::NamesIn(trials::AllTableSettings(), &TableSettings::name);
}

std::optional<fs::path> KnownTablePath(const std::string& name) {
  try {
    return trials::ResolveTablePath(trials::FindTableSettings(name).table, ".");
  } catch (const InputError&) {
    return std::nullopt;
  }
}

MeasuredTable ReadKnownTable(const std::string& name,
                             const TableOverrides& overrides) {
  const TableSettings settings = [&name] {
    try {
      return trials::FindTableSettings(name);
    } catch (const InputError& e) {
      throw InputError(
          fmt::format("{} (another one: --table T.csv)", e.what()));
    }
  }();
  const fs::path path = trials::ResolveTablePath(settings.table, ".");
  return Load(path, settings, ScenariosFor(path, settings, overrides),
              overrides);
}

MeasuredTable ReadAnyTable(const fs::path& path,
                           const TableOverrides& overrides) {
  const TableSettings settings = SettingsFor(path);
  const trials::ScenarioFacts scenarios =
      ScenariosFor(path, settings, overrides);
  MeasuredTable table = Load(path, settings, scenarios, overrides);
  table.name = table.source = path.stem().string();  // of the figures' folder
  table.assumed += AssumedOf(table, settings, scenarios, overrides, path);
  return table;
}

}  // namespace studies
