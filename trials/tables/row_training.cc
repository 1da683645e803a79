#include "trials/tables/row_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/process.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/adapters/adapter.h"
#include "trials/data_folder.h"
#include "trials/knobs.h"
#include "trials/tables/measured_rows.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

using common::CsvTable;

// The fraction of a network card's signaling rate that large messages reach.
constexpr double kNetworkShare = 0.85;
constexpr const char* kGeneric = "generic";  // of an unknown framework

std::string RequireName(const Facts& facts, std::string_view what,
                        std::string_view remedy) {
  if (!facts.Has(what)) {
    facts.Fail(fmt::format("the {} of this table is not known; name it ({})",
                           what, remedy));
  }
  return facts.Text(what);
}

// Sizes that follow from others.
void Complete(Facts& facts) {
  const int ranks =
      facts.Int("tp", 1) * facts.Int("pp", 1) * facts.Int("cp", 1);
  if (!facts.Has("dp")) {
    facts.Add("dp", fmt::format("{}", facts.RequireInt("gpus") / ranks));
  }
  const std::int64_t dp = facts.RequireInt("dp");
  for (const auto& [given, other] :
       {std::pair("microbatches", "micro_batch_size"),
        std::pair("micro_batch_size", "microbatches")}) {
    if (!facts.Has(given)) {
      continue;
    }
    const std::int64_t part = dp * facts.RequireInt(given);
    if (!facts.Has(other)) {
      const int batch = facts.RequireInt("global_batch_size");
      if (part == 0 || batch % part != 0) {
        facts.Fail(fmt::format(
            "global_batch_size {} is no multiple of dp {} * {} {}: correct "
            "one of them",
            batch, dp, given, facts.Text(given)));
      }
      facts.Add(other, fmt::format("{}", batch / part));
    } else if (facts.Has("global_batch_size") &&
               part * facts.RequireInt(other) !=
                   facts.RequireInt("global_batch_size")) {
      facts.Fail(fmt::format(
          "global_batch_size {} is not dp {} * {} {} * {} {}: correct one of "
          "them",
          facts.Text("global_batch_size"), dp, given, facts.Text(given), other,
          facts.Text(other)));
    }
  }
}

// Constants of the framework that the facts set.
void ChangeConstants(const Facts& facts, RowTraining& training) {
  VisitFields(training.framework,
              [&]<typename Type>(std::string_view key, Type& value, auto...) {
                if (!facts.Has(key)) {
                  return;
                }
                if constexpr (std::is_same_v<Type, bool>) {
                  value = facts.Flag(key, false);
                } else {
                  value = static_cast<Type>(facts.NonNegative(key));
                }
                training.framework_name +=
                    fmt::format(" {}={}", key, static_cast<double>(value));
              });
}

void DescribeFamily(const Facts& facts, Model& model) {
  model.type = facts.RequireText("family");
  if (model.type == "llama") {
    model.gated_ffn = true;
    return;
  }
  if (model.type != "gpt" && model.type != "bert") {
    facts.Fail(
        fmt::format("family '{}' is not known here; known: gpt, llama, "
                    "bert",
                    model.type));
  }
  model.attention_bias = model.output_bias = model.ffn_bias = true;
  model.norm_bias = true;
  model.tied_embeddings = true;
  model.max_positions = facts.RequireInt("sequence_length");
  if (model.type == "bert") {
    model.causal = false;
    model.token_types = 2;
  }
}

// Sizes that a row may give in addition to a model's config.
struct ModelSize {
  std::string_view name;
  int Model::*value;
};
constexpr std::array kModelSizes = {
    ModelSize{"layers", &Model::layers},
    ModelSize{"hidden_size", &Model::hidden_size},
    ModelSize{"attention_heads", &Model::attention_heads},
    ModelSize{"kv_heads", &Model::kv_heads},
    ModelSize{"head_size", &Model::head_size},
    ModelSize{"ffn_size", &Model::ffn_size},
    ModelSize{"vocab_size", &Model::vocab_size},
    ModelSize{"experts", &Model::experts},
    ModelSize{"experts_per_token", &Model::experts_per_token},
    ModelSize{"expert_groups", &Model::expert_groups},
    ModelSize{"groups_per_token", &Model::groups_per_token},
    ModelSize{"shared_ffn_size", &Model::shared_ffn_size},
    ModelSize{"dense_layers", &Model::dense_layers},
    ModelSize{"dense_ffn_size", &Model::dense_ffn_size}};

Model FromConfig(const Facts& facts) {
  const std::string name = facts.Text("config");
  Model model =
      ReadModel(name.ends_with(".json")
                    ? fs::path(name)
                    : ExperimentsFolder() / "workloads" / (name + ".json"));
  for (const ModelSize& size : kModelSizes) {
    if (facts.Has(size.name)) {
      model.*(size.value) = static_cast<int>(facts.NonNegative(size.name));
    }
  }
  if (model.dense_layers > model.layers && facts.Has("dense_layers")) {
    facts.Fail(fmt::format("dense_layers {} of {} layers: give at most those",
                           model.dense_layers, model.layers));
  }
  model.dense_layers = std::min(model.dense_layers, model.layers);
  model.tied_embeddings = facts.Flag("tied_embeddings", model.tied_embeddings);
  model.dropout = facts.Flag("dropout", model.dropout);
  model.name = facts.Text("model", name);
  return model;
}

}  // namespace

ScenarioFacts::ScenarioFacts(const fs::path& path)
    : csv_(CsvTable::Read(path)) {
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

void ScenarioFacts::AddTo(Facts& facts) const {
  const auto found = rows_.find(facts.Text("scenario"));
  if (found != rows_.end()) {
    facts.Add(TableRow{*csv_, csv_->rows()[found->second]});
  }
}

fs::path ScenariosPath(const fs::path& table, const TableSettings& settings,
                       const TableOverrides& overrides) {
  if (!overrides.scenarios.empty()) {
    return overrides.scenarios;
  }
  const fs::path beside =
      table.parent_path() / (table.stem().string() + "_scenarios.csv");
  if (common::IsFile(beside)) {
    return beside;
  }
  if (settings.scenarios.empty()) {
    return {};
  }
  return ResolveTablePath(settings.scenarios, ".");
}

fs::path MachineLibrary::Find(const std::string& kind,
                              const std::string& name) const {
  const fs::path file = fs::path(kind) / (name + ".toml");
  const std::string data = common::EnvironmentValue(kDataVariable);
  std::vector<fs::path> folders = {ExperimentsFolder(), data_folder_};
  if (!data.empty()) {
    folders.emplace_back(data);
  }
  for (const fs::path& folder : folders) {
    if (!name.ends_with(".toml") && common::IsFile(folder / file)) {
      return folder / file;
    }
  }
  return FindDataFile(kind, name);
}

const Cluster& MachineLibrary::ClusterOf(const Facts& facts) {
  const std::string& given = overrides_.cluster;
  const std::string name =
      given.empty() ? RequireName(facts, "cluster", "--cluster C.toml") : given;
  const int gpus = facts.RequireInt("gpus");
  const auto [at, is_new] = clusters_.try_emplace({name, gpus});
  if (is_new) {
    try {
      const fs::path file = Find("clusters", name);
      at->second = WithGpus(ReadCluster(file), gpus);
      if (overrides_.constant_rates) {
        at->second.intra.rates = nullptr;
      }
      inputs_.push_back(file);
      for (fs::path& input : PartFiles(at->second)) {
        inputs_.push_back(std::move(input));
      }
    } catch (const common::InputError&) {
      throw;
    } catch (const std::invalid_argument& e) {
      facts.Fail(fmt::format("{}; give another (--cluster C.toml)", e.what()));
    }
  }
  return at->second;
}

fs::path MachineLibrary::FindFramework(const std::string& name) {
  constexpr const char* kFolder = "frameworks";
  try {
    return Find(kFolder, name);
  } catch (const common::InputError&) {
    std::string usual = common::Lower(name);
    std::ranges::replace_if(
        usual, [](char c) { return c == '_' || c == ' '; }, '-');
    std::string file =
        common::Contains(DataFileNames(kFolder), usual) ? usual : kGeneric;
    for (const std::string& known : Adapter::Names()) {
      const Adapter adapter = Adapter::Find(known);
      if (adapter.IsCalled(usual) && !adapter.framework().empty()) {
        file = adapter.framework();
      }
    }
    if (file == kGeneric &&
        (name.ends_with(".toml") || !overrides_.framework.empty())) {
      throw;
    }
    return Find(kFolder, assumed_[name] = file);
  }
}

std::pair<std::string, const Framework&> MachineLibrary::FrameworkOf(
    const Facts& facts) {
  const std::string& given = overrides_.framework;
  const std::string name =
      given.empty() ? RequireName(facts, "framework", "--framework NAME")
                    : given;
  const auto [at, is_new] = frameworks_.try_emplace(name);
  if (is_new) {
    const fs::path file = FindFramework(name);
    at->second = ReadFramework(file);
    for (fs::path& input : FrameworkFiles(file)) {
      inputs_.push_back(std::move(input));
    }
  }
  const auto found = assumed_.find(name);
  return {found == assumed_.end() ? name : found->second, at->second};
}

Model ModelOf(const Facts& facts) {
  if (facts.Has("config")) {
    return FromConfig(facts);
  }
  Model model;
  DescribeFamily(facts, model);
  model.layers = facts.RequireInt("layers");
  model.hidden_size = facts.RequireInt("hidden_size");
  model.attention_heads = facts.RequireInt("attention_heads");
  model.kv_heads = facts.Int("kv_heads", model.attention_heads);
  model.head_size =
      facts.Int("head_size", model.hidden_size / model.attention_heads);
  if (model.head_size < 1 || model.attention_heads % model.kv_heads != 0 ||
      (!facts.Has("head_size") &&
       model.hidden_size % model.attention_heads != 0)) {
    facts.Fail(
        fmt::format("{} attention heads do not go with hidden size {} "
                    "and {} key-value heads",
                    model.attention_heads, model.hidden_size, model.kv_heads));
  }
  constexpr int kUsualFfn = 4;
  model.ffn_size = facts.Int("ffn_size", kUsualFfn * model.hidden_size);
  model.vocab_size =
      facts.Has("usual_vocab_size")
          ? facts.Int("vocab_size", facts.RequireInt("usual_vocab_size"))
          : facts.RequireInt("vocab_size");
  model.experts = facts.Int("experts", 0);
  if (model.experts > 0) {
    constexpr int kUsualChoices = 2;
    model.experts_per_token = facts.Int("experts_per_token", kUsualChoices);
  }
  model.gated_ffn = facts.Flag("gated_ffn", model.gated_ffn);
  model.tied_embeddings = facts.Flag("tied_embeddings", model.tied_embeddings);
  model.dropout = facts.Flag("dropout", model.dropout);
  model.name = facts.Text("model", model.type);
  return model;
}

Workload WorkloadOf(const Facts& facts) {
  Workload workload;
  workload.model = ModelOf(facts);
  workload.name = workload.model.name;
  workload.sequence_length = facts.RequireInt("sequence_length");
  try {
    workload.precision = ParsePrecision(facts.Text("precision", "bf16"));
  } catch (const common::InputError& e) {
    facts.Fail(e.what());
  }
  std::vector<std::string> settings;
  for (const char* key :
       {"lora_rank", "lora_targets", "frozen_bits", "freeze", "optimizer",
        "loss_chunks", "packed_tokens", "upcast", "offload"}) {
    if (facts.Has(key)) {
      settings.push_back(fmt::format("{}={}", key, facts.Text(key)));
    }
  }
  try {
    ReadTraining(TrainingTable(settings), workload);
  } catch (const common::InputError& e) {
    facts.Fail(e.what());
  }
  const bool cut = facts.Has("dp") && facts.Has("micro_batch_size") &&
                   facts.Has("microbatches");
  workload.batch_size = cut ? facts.RequireInt("dp") *
                                  facts.RequireInt("micro_batch_size") *
                                  facts.RequireInt("microbatches")
                            : facts.RequireInt("global_batch_size");
  return workload;
}

RowTraining TrainingOf(Facts facts, MachineLibrary& library) {
  Complete(facts);
  RowTraining training;
  training.cluster = library.ClusterOf(facts);
  if (facts.Has("host_gbps")) {
    training.cluster.inter.bandwidth_bytes_per_s =
        kNetworkShare * facts.Number("host_gbps") * 1e9 / 8 /
        training.cluster.nics_per_node;
  }
  const auto [name, framework] = library.FrameworkOf(facts);
  training.framework_name = name;
  training.framework = framework;
  ChangeConstants(facts, training);
  training.workload = WorkloadOf(facts);
  training.config = ConfigOf(facts);
  return training;
}

Facts MeasuredFacts(const TableRow& table_row) {
  MeasuredRow row = ReadMeasuredRow(table_row);
  Facts& facts = row.facts;
  (void)facts.RequireText("scenario");
  (void)facts.RequireText("status");
  const bool failed = row.outcome == Outcome::kFailed ||
                      row.outcome == Outcome::kTimedOut ||
                      row.outcome == Outcome::kDiverged;
  const bool ran = !failed && row.Ran();
  facts.Replace("status", ran ? "ok" : failed ? "failed" : "oom");
  facts.Add("step_time_s", common::ExactText(row.step_time_s));
  if (!facts.Has("peak_memory_gb")) {
    facts.Add("peak_memory_bytes", common::ExactText(row.peak_memory_bytes));
  }
  if (ran && std::isnan(row.peak_memory_bytes)) {
    (void)facts.RequireText("step_time_s");  // a row may have memory alone
  }
  return facts;
}

bool AssumesFast(const TableSettings& settings, const fs::path& table) {
  const std::string stem = table.stem().string();
  return settings.fast_intra_gbs > 0.0 && stem != settings.name &&
         stem != fs::path(settings.table).stem();
}

void AddState(const TableSettings& settings, const fs::path& table,
              Facts& facts) {
  if (AssumesFast(settings, table)) {
    facts.Add("allreduce_intra_gbs",
              common::ExactText(settings.fast_intra_gbs));
  }
}

std::vector<std::string> TokensOf(const std::string& scenario) {
  const auto tokens = common::Split(scenario, '-');
  return {tokens.begin(), tokens.end()};
}

void AddSettings(const ScenarioFacts& scenarios, const TableSettings& settings,
                 const std::vector<std::string>& tokens, Facts& facts) {
  scenarios.AddTo(facts);
  for (const std::string& token : tokens) {
    if (settings.facts_of.Has(token)) {
      facts.Add(settings.facts_of.RequireTable(token));
    }
  }
  if (facts.Number("allreduce_intra_gbs") >= settings.fast_intra_gbs) {
    facts.Add(settings.facts_of.GetTable("fast"));
  }
  facts.Add(settings.facts);
  const auto correct = [&facts](const common::TomlTable& corrections) {
    for (const std::string& name : corrections.Keys()) {
      facts.Replace(name, corrections.RequireText(name));
    }
  };
  correct(settings.corrections);
  for (const std::string& token : tokens) {
    if (settings.corrections_of.Has(token)) {
      correct(settings.corrections_of.RequireTable(token));
    }
  }
}

ScenarioTraining ReadScenarioTraining(const fs::path& table,
                                      const std::string& scenario,
                                      const TableSettings& settings,
                                      const TableOverrides& overrides) {
  const CsvTable csv = CsvTable::Read(table);
  const fs::path file = ScenariosPath(table, settings, overrides);
  const ScenarioFacts scenarios =
      file.empty() ? ScenarioFacts() : ScenarioFacts(file);
  MachineLibrary library(table, overrides);
  ScenarioTraining training;
  for (const CsvTable::Row& row : csv.rows()) {
    if (csv.Cell(row, "scenario") != scenario) {
      continue;
    }
    Facts facts = MeasuredFacts({csv, row});
    AddState(settings, table, facts);
    AddSettings(scenarios, settings, TokensOf(scenario), facts);
    training.rows.emplace(row.line, TrainingOf(std::move(facts), library));
  }
  for (const auto& [name, framework] : library.assumed()) {
    if (framework == kGeneric) {
      throw common::InputError(
          fmt::format("{}: the framework '{}' is not known; name a file: "
                      "predictions.framework = \"generic\"",
                      table.string(), name));
    }
  }
  training.inputs = library.inputs();
  training.inputs.push_back(settings.file);
  if (!file.empty()) {
    training.inputs.push_back(file);
  }
  return training;
}

}  // namespace trials
