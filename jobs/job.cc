#include "jobs/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/data_folder.h"
#include "trials/knobs.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/gpu_model.h"

namespace jobs {
namespace {

using common::InputError;

// What sizes on the command line are called besides the fields of a model.
constexpr std::array<std::array<std::string_view, 2>, 6> kShortNames = {{
    {"hidden", "hidden_size"},
    {"heads", "attention_heads"},
    {"ffn", "ffn_size"},
    {"vocab", "vocab_size"},
    {"gated", "gated_ffn"},
    {"tied", "tied_embeddings"},
}};

[[noreturn]] void FailSizes(const std::string& reason) {
  std::vector<std::string> names;
  const trials::Model plain;
  VisitFields(plain, [&](const char* name, const auto& /*value*/) {
    const auto* const other = std::ranges::find_if(
        kShortNames, [&](const auto& pair) { return pair[1] == name; });
    names.emplace_back(other == kShortNames.end() ? name : (*other)[0]);
  });
  throw InputError(fmt::format(
      "--model: {}; give a config.json, its folder, or sizes such as "
      "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256; they "
      "are {}",
      reason, fmt::join(names, ", ")));
}

template <typename T>
void ReadSize(std::string_view name, std::string_view text, T& value) {
  constexpr int kMost = 1 << 24;
  constexpr bool kFlag = std::is_same_v<T, bool>;
  const double least = std::is_integral_v<T> && !kFlag ? 1.0 : 0.0;
  const double number = kFlag && text == "true"    ? 1.0
                        : kFlag && text == "false" ? 0.0
                                                   : common::NumberOrNan(text);
  const bool whole =
      std::is_floating_point_v<T> || number == std::floor(number);
  if (!whole || !(number >= least && number <= (kFlag ? 1 : kMost))) {
    FailSizes(fmt::format("invalid value '{}' for {}: {}", text, name,
                          kFlag ? std::string("true or false")
                          : std::is_floating_point_v<T>
                              ? fmt::format("a number from 0 to {}", kMost)
                              : fmt::format("an integer from 1 to {}", kMost)));
  }
  value = static_cast<T>(number);
}

// Sets the size of "NAME=VALUE"; returns the name of its field.
std::string_view SetSize(std::string_view item, trials::Model& model) {
  const std::size_t equals = item.find('=');
  const std::string_view name = common::Trim(item.substr(0, equals));
  const auto* const other = std::ranges::find_if(
      kShortNames, [&](const auto& pair) { return pair[0] == name; });
  const std::string_view field =
      other == kShortNames.end() ? name : (*other)[1];
  bool known = false;
  VisitFields(model, [&](const std::string_view each, auto& value) {
    if (each == field) {
      known = true;
      ReadSize(name, equals == item.npos ? "" : item.substr(equals + 1), value);
    }
  });
  if (!known) {
    FailSizes(fmt::format("unknown size '{}'", name));
  }
  return field;
}

trials::Model ModelOfSizes(const std::string& text) {
  trials::Model model;
  model.name = "model";
  model.type = "llama";
  model.gated_ffn = true;
  model.dropout = false;
  std::set<std::string_view> given;
  for (const std::string_view item : common::Split(text, ',')) {
    const std::string_view field = SetSize(item, model);
    if (!given.insert(field).second) {
      FailSizes(fmt::format("{} is given twice", field));
    }
  }
  if (model.kv_heads == 0) {
    model.kv_heads = model.attention_heads;
  }
  for (const auto& [size, name] : {std::pair(model.layers, "layers"),
                                   {model.hidden_size, "hidden"},
                                   {model.attention_heads, "heads"},
                                   {model.ffn_size, "ffn"},
                                   {model.vocab_size, "vocab"}}) {
    if (size == 0) {
      FailSizes(fmt::format("{} is missing", name));
    }
  }
  for (const auto& [size, needed] :
       {std::pair("kv_rank", "head_size"), {"window", "windowed_share"}}) {
    if (given.contains(size) && !given.contains(needed)) {
      FailSizes(fmt::format("{} needs {}", size, needed));
    }
  }
  if (model.head_size == 0 && model.hidden_size % model.attention_heads != 0) {
    FailSizes("hidden must be a multiple of heads, or give head_size");
  }
  if (model.head_size == 0) {
    model.head_size = model.hidden_size / model.attention_heads;
  }
  if (const std::string problem = SizeProblem(model); !problem.empty()) {
    FailSizes(problem);
  }
  return model;
}

// Powers of two, and what divides the layers.
std::vector<int> ChunkCounts(int layers) {
  constexpr int kMostChunks = 12;
  std::vector<int> counts = DivisorsUpTo(layers, kMostChunks);
  counts.insert(counts.end(), {1, 2, 4, 8});
  return counts;  // a grid sorts them and drops what it has twice
}

using Values = decltype(trials::SearchSpaceOptions::values);

// Leaves parameters that decide the layout at 1 if the framework's command line
// cannot set them: training programs on DeepSpeed have no tensor parallelism.
void KeepWhatIsSet(const Job& job, Values& values) {
  const std::vector<std::string> set = job.framework.adapter->Parameters(
      {job.framework.adapter->command(), "", job.workload, job.cluster});
  for (const char* name :
       {"tp", "pp", "cp", "ep", "model_chunks", "dp_replicate"}) {
    if (!common::Contains(set, name)) {
      values[name] = {1};
    }
  }
}

// The values of a parameter that an adapter lists, of those that a plan has.
std::vector<int> Narrowed(const Values& values, const common::TomlTable& space,
                          const std::string& name) {
  const std::vector<std::int64_t> listed = space.GetInts(name);
  const auto mine = values.find(name);
  if (mine == values.end()) {
    return {listed.begin(), listed.end()};
  }
  std::vector<int> narrowed = mine->second;
  std::erase_if(narrowed,
                [&](int value) { return !common::Contains(listed, value); });
  return narrowed.empty() ? mine->second : narrowed;
}

// The adapter of this name or alias, or the last by name of those whose
// framework has it; nothing if there is none.
std::optional<trials::Adapter> FindAdapter(const std::string& name) {
  std::optional<trials::Adapter> last;
  for (const std::string& candidate : trials::Adapter::Names()) {
    trials::Adapter adapter = trials::Adapter::Find(candidate);
    if (adapter.IsCalled(name)) {
      return adapter;
    }
    if (adapter.framework() == name) {
      last = std::move(adapter);
    }
  }
  return last;
}

// Sets what "KEY=VALUE" says of the precision and the training.
void ApplyTraining(std::vector<std::string> settings,
                   trials::Workload& workload) {
  constexpr std::string_view kPrecision = "precision=";
  std::string precision;
  std::erase_if(settings, [&](const std::string& setting) {
    const bool is_precision = setting.starts_with(kPrecision);
    if (is_precision) {
      const std::string said = setting.substr(kPrecision.size());
      if (!precision.empty() && precision != said) {
        throw InputError(
            fmt::format("--precision, --training: the precision is {} or {}, "
                        "leave one of them out",
                        precision, said));
      }
      precision = said;
      workload.precision = trials::ParsePrecision(said);
    }
    return is_precision;
  });
  trials::ReadTraining(trials::TrainingTable(settings), workload);
}

}  // namespace

std::vector<int> DivisorsUpTo(int number, int most) {
  std::vector<int> values;
  for (int value = 1; value <= std::min(number, most); ++value) {
    if (number % value == 0) {
      values.push_back(value);
    }
  }
  return values;
}

std::vector<int> ContextSizes(const trials::Workload& workload, int gpus) {
  constexpr int kUsual = 16;
  constexpr int kTokens = 4096;  // of a rank, where there are more ranks
  constexpr int kFewestTokens = 128;
  const int tokens = workload.sequence_length;
  return DivisorsUpTo(gpus, std::min(std::max(kUsual, tokens / kTokens),
                                     std::max(1, tokens / kFewestTokens)));
}

FrameworkChoice FindFramework(const std::string& name) {
  FrameworkChoice choice;
  choice.adapter = FindAdapter(trials::WithoutRelease(name));
  const std::string framework = choice.adapter &&
                                        choice.adapter->IsCalled(name) &&
                                        !choice.adapter->framework().empty()
                                    ? choice.adapter->framework()
                                    : name;
  try {
    choice.file = trials::FindDataFile("frameworks", framework);
  } catch (const InputError& e) {
    throw InputError(fmt::format("--framework {}: {}; and the adapters {}",
                                 name, e.what(),
                                 fmt::join(trials::Adapter::Names(), ", ")));
  }
  choice.name = choice.file.stem().string();
  choice.framework = trials::ReadFramework(choice.file);
  return choice;
}

void SetFramework(const std::string& name, Job& job) {
  job.framework = FindFramework(name);
  const auto& adapter = job.framework.adapter;
  job.workload.training = adapter ? adapter->training() : trials::Training();
  trials::FileSettings file;
  if (!job.config_file.empty()) {
    if (!adapter || !adapter->ReadsSettings()) {
      throw InputError(fmt::format(
          "--config-file: no file of {} is read for a forecast, those of "
          "DeepSpeed, Accelerate, FSDP, torchtitan and nanotron are; say what "
          "it sets by --training, --precision, --batch and --rule",
          name));
    }
    if (!std::filesystem::is_regular_file(job.config_file)) {
      throw InputError(fmt::format("--config-file {}: there is no such file",
                                   job.config_file.string()));
    }
    file = adapter->ReadSettings(
        {{adapter->FileOption(), job.config_file.string()},
         {},
         job.workload,
         job.cluster});
  }
  job.notes = file.notes;
  SetTraining(file, job.training, job.workload);
  if (job.workload.precision != trials::Precision::kFp16 &&
      job.framework.framework.gradients.fp32_gradients) {
    job.workload.training.fp32_gradients = false;  // it sums so anyway
  }
  // Whatever the framework, the GPU must have this precision.
  (void)trials::GpuModel(job.cluster.gpu, job.workload.precision, 0.0);
  trials::Framework& framework = job.framework.framework;
  ChangeConstants(job.constants, framework);
  if (framework.kernels.flash_attention &&
      StoresScores(framework, job.workload.precision, job.cluster.gpu)) {
    framework = ForWorkload(framework, job.workload, job.cluster.gpu);
    job.notes.emplace_back(
        "attention stores its scores: Transformer Engine has fused kernels "
        "only for 16 and 8 bits, on Ampere and later GPUs");
  }
}

void ChangeConstants(const std::vector<std::string>& constants,
                     trials::Framework& framework) {
  // One table: it has no key twice.
  trials::ChangeFramework(
      common::TomlTable::ParseString(
          fmt::format("{}", fmt::join(constants, "\n")), "--constant"),
      framework);
}

std::vector<trials::Guess> GuessesOf(const Job& job) {
  return trials::GuessesOf(job.workload, job.cluster.gpu,
                           job.framework.framework);
}

std::string FrameworkLabel(const FrameworkChoice& choice) {
  return choice.adapter
             ? fmt::format("{} ({})", choice.adapter->name(), choice.name)
             : choice.name;
}

std::filesystem::path FindConfigJson(const std::string& text) {
  const std::filesystem::path path = text;
  std::error_code error;
  return !std::filesystem::exists(path, error)        ? ""
         : std::filesystem::is_directory(path, error) ? path / "config.json"
                                                      : path;
}

trials::Model FindModel(const std::string& text,
                        const trials::ModelOptions& options) {
  const std::filesystem::path path = FindConfigJson(text);
  if (path.empty() && text.find('=') != text.npos) {
    const trials::Model model = ModelOfSizes(text);
    trials::CheckParameters(model, options.parameters);
    return model;
  }
  if (path.empty()) {
    FailSizes(fmt::format("there is no file '{}'", text));
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw InputError(
        fmt::format("--model {}: the folder contains no config.json", text));
  }
  trials::Model model = trials::ReadModel(path, options);
  if (path.filename() == "config.json" && model.name == "config") {
    model.name = std::filesystem::absolute(path).parent_path().filename();
  }
  return model;
}

std::optional<double> PresentBatch(const trials::Adapter& adapter,
                                   const trials::AdapterJob& job, int gpus) {
  const auto number = [&](std::string_view expression, double otherwise) {
    return adapter.PresentNumber(job, expression).value_or(otherwise);
  };
  if (const double batch = number("$batch_size", 0.0); batch >= 1.0) {
    return batch;
  }
  const double micro = number("$micro_batch_size", 0.0);
  const double ranks =
      gpus / (number("$tp", 1.0) * number("$pp", 1.0) * number("$cp", 1.0));
  return micro < 1.0
             ? std::nullopt
             : std::optional(micro *
                             number("$dp * $microbatches",
                                    ranks * number("$microbatches", 1.0)));
}

trials::Workload MakeWorkload(const trials::Model& model, int batch_size,
                              int sequence_length) {
  const int positions = model.max_positions;
  const bool images = model.patch_size > 0;
  trials::Workload workload;
  workload.name = model.name;
  workload.model = model;
  workload.batch_size = batch_size;
  workload.sequence_length =
      sequence_length == 0 && images ? positions : sequence_length;
  if (workload.sequence_length == 0) {
    throw InputError("--seq N is missing: the tokens of a sequence");
  }
  if (images && workload.sequence_length != positions) {
    throw InputError(
        fmt::format("--seq {}: an image is {} tokens for {}; use {}",
                    sequence_length, positions, model.name, positions));
  }
  if (positions > 0 && sequence_length > positions) {
    throw InputError(fmt::format(
        "--seq {}: the model has learned {} positions; use at most {}",
        sequence_length, positions, positions));
  }
  return workload;
}

void SetTraining(const trials::FileSettings& file,
                 const std::vector<std::string>& settings,
                 trials::Workload& workload) {
  ApplyTraining(file.training, workload);
  for (const std::string& said : file.training) {
    const std::string key = said.substr(0, said.find('=') + 1);
    for (const std::string& setting : settings) {
      trials::Workload changed = workload;
      if (setting.starts_with(key)) {
        ApplyTraining({setting}, changed);
      }
      if (changed != workload) {
        throw InputError(fmt::format(
            "{}: it trains with {}, and the options say {}: change it there, "
            "or leave the option out",
            file.path.string(), said, setting));
      }
    }
  }
  ApplyTraining(settings, workload);
}

std::string JobRuleOrigin() { return "sequence parallelism comes with tp"; }

std::vector<trials::Rule> JobRules(const Job& job) {
  std::vector<trials::Rule> all;
  const std::filesystem::path rules = trials::ExperimentsFolder() / "rules";
  for (const std::string& name : job.framework.framework.rule_sets) {
    for (trials::Rule& rule : trials::ReadRuleSet(rules / (name + ".rules"))) {
      all.push_back(std::move(rule));
    }
  }
  for (const std::string knob : {"dp_replicate", "etp", "torch_compile", "tp",
                                 "pp", "cp", "ep", "model_chunks"}) {
    if (job.framework.adapter && !job.framework.adapter->Sets(knob)) {
      all.push_back(trials::Rule::Parse(
          fmt::format("${} != {}", knob,
                      trials::BuiltInKnobs().Require(knob).Default()),
          fmt::format("{} has no setting for {}", job.framework.adapter->name(),
                      knob),
          "plan"));
    }
  }
  // Every framework turns it on together with tensor parallelism.
  all.push_back(
      trials::Rule::Parse("$tp > 1 && $sp != $tp", JobRuleOrigin(), "plan"));
  if (!job.framework.framework.kernels.flash_attention) {
    all.push_back(trials::Rule::Parse(
        "$cp > 1", "context parallelism needs fused attention", "plan"));
  }
  const trials::Training& training = job.workload.training;
  if (training.Offloads(trials::Offloaded::kOptimizer)) {
    const bool all_of_it = training.Offloads(trials::Offloaded::kParameters);
    all.push_back(trials::Rule::Parse(
        fmt::format("$zero_stage < {} && $dp * $cp > 1", all_of_it ? 3 : 1),
        all_of_it ? "offload of parameters needs ZeRO 3"
                  : "offload of the optimizer needs ZeRO",
        "plan"));
  }
  for (const std::string& rule : job.rules) {
    all.push_back(trials::Rule::Parse(rule, "--rule", "--rule"));
  }
  return all;
}

namespace {

// Selective recomputation saves memory: it repeats more than an attention that
// stores no scores anyway.
bool SelectiveSaves(const trials::Framework& framework) {
  const auto& parts = framework.recomputation;
  return !framework.kernels.flash_attention || parts.selective_by_operator ||
         parts.recompute_activation || parts.recompute_norms ||
         parts.recompute_latent;
}

}  // namespace

trials::SearchSpace JobSpace(const Job& job) {
  const trials::Workload& workload = job.workload;
  const int gpus = job.cluster.gpus();
  const int node = job.cluster.gpus_per_node;
  constexpr int kBucketMb = 100;
  trials::SearchSpaceOptions options;
  options.counts_other_gpus = false;
  options.ends_as_layers = job.framework.framework.pipeline.ends_as_layers;
  options.shares_kv_heads = job.framework.framework.kernels.shares_kv_heads;
  options.whole_experts = job.framework.framework.experts.whole_experts;
  options.values = {{"tp", DivisorsUpTo(gpus, node)},
                    {"cp", ContextSizes(workload, gpus)},
                    {"sp", DivisorsUpTo(gpus, node)},
                    {"micro_batch_size",
                     DivisorsUpTo(workload.batch_size, workload.batch_size)},
                    {"model_chunks", ChunkCounts(workload.model.layers)},
                    {"grad_checkpoint", SelectiveSaves(job.framework.framework)
                                            ? std::vector<int>{0, 1, 2}
                                            : std::vector<int>{0, 1}},
                    {"dp_replicate",  // a copy in each node
                     job.framework.framework.sharding.fsdp
                         ? std::vector<int>{1, job.cluster.nodes}
                         : std::vector<int>{1}},
                    {"dp_bucket_mb", {kBucketMb}},
                    {"zero_bucket_mb", {kBucketMb}},
                    {"overlap_zero_comm", {1}},
                    {"overlap_zero_allgather", {1}}};
  if (job.framework.adapter) {
    KeepWhatIsSet(job, options.values);
    const common::TomlTable& space = job.framework.adapter->space();
    for (const std::string& name : space.Keys()) {
      if (trials::BuiltInKnobs().Find(name) != nullptr) {
        options.values[name] = Narrowed(options.values, space, name);
      }
    }
  }
  options.rules = JobRules(job);
  return trials::SearchSpace::Enumerate(workload, gpus, options);
}

}  // namespace jobs
