#include "jobs/plan/train_job.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "jobs/plan/forecast.h"
#include "jobs/plan/forecast_text.h"
#include "jobs/plan/k8s_launch.h"
#include "trials/adapters/command_words.h"
#include "trials/adapters/yaml_json.h"
#include "trials/usual_host.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using common::Json;
using trials::Adapter;
using WordList = std::vector<std::string>;

std::string Key(const std::string& name) { return kAnnotationPrefix + name; }

std::string Annotation(const Json& train_job, const std::string& name) {
  const Json::json_pointer annotations("/metadata/annotations");
  return train_job.contains(annotations)
             ? train_job[annotations].value(Key(name), "")
             : "";
}

// The value of the first such key anywhere.
std::string FindAnywhere(const Json& json, const std::string& key) {
  for (const auto& [name, value] : json.items()) {
    const std::string found = name == key && value.is_string()
                                  ? value.get<std::string>()
                              : value.is_structured() ? FindAnywhere(value, key)
                                                      : "";
    if (!found.empty()) {
      return found;
    }
  }
  return "";
}

WordList WordsOf(const Json& trainer, const char* key) {
  WordList words;
  for (const Json& word : trainer.value(key, Json::array())) {
    words.push_back(word.is_string() ? word.get<std::string>()
                                     : common::ToText(word));
  }
  return words;
}

// The adapter whose usual command starts the same program.
std::string FrameworkOf(const WordList& words) {
  for (const std::string& name : Adapter::Names()) {
    const Adapter adapter = Adapter::Find(name);
    for (const std::string& program : adapter.command()) {
      for (const std::string& word : words) {
        if ((program.ends_with(".py") || program.ends_with(".train")) &&
            fs::path(word).filename() == program) {
          return name;
        }
      }
    }
  }
  throw InputError(fmt::format(
      "{}: the words start no program of a known framework: give --framework "
      "or this annotation, one of {}",
      Key("framework"), fmt::join(Adapter::Names(), ", ")));
}

// The parts of a model that flags of Megatron-LM name besides its sizes: it has
// the embeddings, norms, biases and positions of GPT-2 unless they say
// otherwise.
std::string PartsOf(const trials::AdapterJob& job, double head_size) {
  const auto has = [&job](const char* flag) {
    return trials::FlagValue(job.words, flag, false).has_value();
  };
  const auto value = [&job](const char* flag, const char* otherwise) {
    return trials::FlagValue(job.words, flag, true).value_or(otherwise);
  };
  const bool biases = !has("--disable-bias-linear");
  const bool learned = value("--position-embedding-type", "learned_absolute") ==
                           "learned_absolute" &&
                       !has("--use-rotary-position-embeddings");
  std::string text = fmt::format(
      ",gated={},tied={},norm_bias={},attention_bias={},output_bias={},"
      "ffn_bias={},qk_norm={},dropout={}",
      has("--swiglu"), !has("--untie-embeddings-and-output-weights"),
      value("--normalization", "LayerNorm") == "LayerNorm",
      biases || has("--add-qkv-bias"), biases, biases, has("--qk-layernorm"),
      trials::AsNumber(value("--attention-dropout", "0.1")) != 0.0 ||
          trials::AsNumber(value("--hidden-dropout", "0.1")) != 0.0);
  if (learned) {
    text += fmt::format(
        ",rotary_share=0,max_positions={}",
        value("--max-position-embeddings", value("--seq-length", "1").c_str()));
  }
  return head_size >= 1.0 ? fmt::format("{},head_size={:.0f}", text, head_size)
                          : text;
}

// The sizes of a model as flags have them; "" if they do not say.
std::string SizesOf(const Adapter& adapter, const trials::AdapterJob& job) {
  const auto number = [&](const char* expression) {
    return adapter.PresentNumber(job, expression).value_or(0.0);
  };
  if (number("$experts") > 0.0) {
    return "";  // kinds of blocks and routers, which no number says
  }
  std::string text;
  for (const auto& [name, expression] : {std::pair("layers", "$layers"),
                                         {"hidden", "$hidden_size"},
                                         {"heads", "$heads"},
                                         {"ffn", "$ffn_size"},
                                         {"vocab", "$vocab_size"}}) {
    const double value = number(expression);
    if (value < 1.0) {
      return "";
    }
    text += fmt::format("{}{}={:.0f}", text.empty() ? "" : ",", name, value);
  }
  if (trials::FlagValue(job.words, "--group-query-attention", false)) {
    text += fmt::format(",kv_heads={:.0f}", number("$kv_heads"));
  }
  return text + PartsOf(job, number("$head_size"));
}

std::optional<int> CountOf(const Json& json) {
  return json.is_number_integer() ? std::optional(json.get<int>())
         : json.is_string()
             ? common::ParseInt(json.get<std::string>(), 1, 1 << 16)
             : std::nullopt;
}

// Where the containers ask for GPUs.
struct GpuLimit {
  std::string resource;
  std::optional<int> gpus;
};

// The GPUs of a container, which "limits" or "requests" has.
GpuLimit GpuLimitOf(const Json& trainer, const std::string& kind) {
  const Json::json_pointer at("/resourcesPerNode/" + kind);
  const Json amounts = trainer.contains(at) ? trainer[at] : Json::object();
  for (const auto& [name, value] : amounts.items()) {
    const std::string resource = name.substr(name.find('/') + 1);
    if (resource == "gpu") {
      return {name, CountOf(value)};
    }
    if (resource.starts_with("gpu") || resource.starts_with("mig-")) {
      throw InputError(fmt::format(
          "spec.trainer.resourcesPerNode: {}: parts of GPUs are not forecast: "
          "ask for whole ones, as in nvidia.com/gpu",
          name));
    }
  }
  return {};
}

class Recommender {
 public:
  Recommender(const ForecastRequest& request, const Json& train_job)
      : request_(request), train_job_(train_job) {
    if (!train_job_.contains("/spec/trainer"_json_pointer) ||
        !train_job_["spec"]["trainer"].is_object()) {
      throw InputError("spec.trainer: it is missing, with the command line");
    }
    const Json& trainer = train_job_["spec"]["trainer"];
    command_ = WordsOf(trainer, "command");
    job_.words = command_;
    for (std::string& word : WordsOf(trainer, "args")) {
      job_.words.push_back(std::move(word));
    }
    job_.folder = fs::current_path();
    limit_ = GpuLimitOf(trainer, "limits");
    const GpuLimit requested = GpuLimitOf(trainer, "requests");
    limit_ = limit_.resource.empty() ? requested : limit_;
    if (job_.words.empty() || common::Contains(command_, "-c")) {
      throw InputError(
          "spec.trainer.command and args: they have to be the words of the "
          "command line, and no text for a shell: [torchrun, train.py, ...]");
    }
    ReadRequest(trainer);
  }

  Json Run() {
    std::vector<std::string> compared;
    std::optional<Prediction> best;
    std::unique_ptr<Forecaster> chosen;
    for (const Job& job : JobsOf(request_)) {
      const MachineSize size{job.cluster.nodes, job.cluster.gpus_per_node};
      std::unique_ptr<Forecaster> forecaster;
      std::string text;
      try {
        forecaster =
            std::make_unique<Forecaster>(job, ForecastOptionsOf(request_, job));
        const Forecast forecast = forecaster->MakeForecast(1);
        const auto found = forecast.layouts.empty()
                               ? std::nullopt
                               : std::optional(forecast.layouts.front().best);
        text = found ? TextOf(*found) : "nothing fits";
        if (size == size_) {
          compared.push_back("before: " + BeforeText(*forecaster));
        }
        if (found && (!best || found->tokens_per_s_per_gpu >
                                   best->tokens_per_s_per_gpu)) {
          best = found;
          chosen = std::move(forecaster);
        }
      } catch (const InputError& e) {
        text = e.what();
      }
      compared.push_back(fmt::format("{}: {}", ToString(size), text));
    }
    if (!best) {
      throw InputError(fmt::format("{}: no layout fits: {}", Key("gpus"),
                                   fmt::join(compared, "; ")));
    }
    Set(*chosen, *best, compared);
    return train_job_;
  }

 private:
  static std::string TextOf(const Prediction& one) {
    return fmt::format("{:.3g} s, {:.0f} tokens/s per GPU, {:.1f} GB ({})",
                       one.step_time_s, one.tokens_per_s_per_gpu,
                       one.peak_memory_bytes / common::kGiga,
                       LayoutName(one.config));
  }

  void ReadRequest(const Json& trainer) {
    const auto read = [this](const char* name, std::string& value) {
      value = value.empty() ? Annotation(train_job_, name) : value;
    };
    std::string framework = request_.frameworks.size() == 1
                                ? request_.frameworks.front()
                                : std::string();
    read("framework", framework);
    framework = framework.empty() ? FrameworkOf(job_.words) : framework;
    request_.frameworks = {framework};
    adapter_ = FindFramework(framework).adapter;
    if (!adapter_) {
      throw InputError(fmt::format("{}: no adapter sets the words of {}",
                                   Key("framework"), framework));
    }
    read("gpu", request_.machine.gpu);
    const char* product = "nvidia.com/gpu.product";
    const std::string label = FindAnywhere(train_job_["spec"], product);
    const std::string labelled =
        trials::UsualHostOf(label).value_or(trials::UsualHost()).cluster;
    if (request_.machine.gpu.empty() && request_.machine.cluster.empty()) {
      request_.machine.cluster = labelled;
      if (request_.machine.cluster.empty()) {
        throw InputError(fmt::format(
            "{}: the GPU is unknown{}: give --gpu, this annotation, or a "
            "nodeSelector {} in spec.runtimePatches",
            Key("gpu"), label.empty() ? "" : fmt::format(" ('{}')", label),
            product));
      }
    }
    const trials::Gpu gpu = FindMachine(request_.machine).gpu;
    if (!labelled.empty() &&
        FindMachine({.gpu = "", .cluster = labelled}).gpu.name != gpu.name) {
      throw InputError(
          fmt::format("{}: {}, but the nodeSelector {} is {}: make them agree",
                      Key("gpu"), gpu.name, product, label));
    }
    if (!limit_.resource.empty() && limit_.resource != GpuResource(gpu)) {
      throw InputError(fmt::format(
          "{}: {}, but spec.trainer.resourcesPerNode asks for {}: make them "
          "agree",
          Key("gpu"), gpu.name, limit_.resource));
    }
    ReadSizes(trainer);
    read("model", request_.model);
    const bool has_model = !request_.model.empty();
    for (const char* flag : {"--config_json", "--model_name_or_path"}) {
      if (const auto path = trials::FlagValue(job_.words, flag, true);
          request_.model.empty() && path && fs::exists(*path)) {
        request_.model = *path;
      }
    }
    request_.model =
        request_.model.empty() ? SizesOf(*adapter_, job_) : request_.model;
    ReadNumber("batch", PresentBatch(*adapter_, job_, size_.gpus()),
               request_.batch_size);
    ReadNumber("seq", adapter_->PresentNumber(job_, "$sequence_length"),
               request_.sequence_length);
    if (request_.model.empty()) {
      throw InputError(fmt::format(
          "{}: the words do not say the sizes of the model, or name a file "
          "that "
          "is here: give --model or this annotation, a config.json or "
          "layers=32,hidden=4096,...",
          Key("model")));
    }
    ReadTraining(has_model);
  }

  // Reads what the words say of the precision, the optimizer and what else is
  // forecast. They stay as they are: nothing may contradict them.
  void ReadTraining(bool has_model) {
    const std::string args = "spec.trainer.args";
    trials::FileSettings said = adapter_->ReadCommand(job_);
    said.path = args;
    if (!said.unread.empty()) {
      throw InputError(fmt::format(
          "{}: {}: what it changes is not read from a command line: leave it "
          "out, or ask `oppa plan` without --trainjob, with --training and "
          "--model",
          args, fmt::join(said.unread, ", ")));
    }
    job_.workload =
        MakeWorkload(FindModel(request_.model, request_.model_options),
                     request_.batch_size, request_.sequence_length);
    job_.workload.training = adapter_->training();
    trials::Workload asked = job_.workload;
    SetTraining(said, {}, job_.workload);
    WordList options = request_.training;
    if (!request_.precision.empty()) {
      options.push_back("precision=" + common::Lower(request_.precision));
    }
    SetTraining(said, options, asked);
    // What is in the data, no command says.
    job_.workload.training.packed_tokens = asked.training.packed_tokens;
    if (asked != job_.workload) {
      throw InputError(fmt::format(
          "{}: it does not say {}, and would train without: set it there, or "
          "leave the option out",
          args, fmt::join(options, ", ")));
    }
    if (const WordList wrong = adapter_->Contradictions(job_); !wrong.empty()) {
      throw InputError(fmt::format(
          "{}: {}: {}", args, fmt::join(wrong, "; "),
          has_model ? fmt::format("correct it, or the model of --model or {}",
                                  Key("model"))
                    : fmt::format("the sizes in the words do not say that: "
                                  "give the config.json by --model or {}",
                                  Key("model"))));
    }
    request_.training.insert(request_.training.begin(), said.training.begin(),
                             said.training.end());
    notes_ = said.notes;
    if (!said.unknown.empty()) {
      notes_.push_back(fmt::format("of {} nothing is known: not counted",
                                   fmt::join(said.unknown, ", ")));
    }
  }

  // What says how many nodes, or GPUs of one, there are.
  using Counts = std::vector<std::pair<std::string, std::optional<int>>>;

  // The number on which all agree that say one; 0 if none does.
  static int AgreedOf(const Counts& counts) {
    std::optional<std::pair<std::string, int>> first;
    for (const auto& [place, count] : counts) {
      if (count && first && *count != first->second) {
        throw InputError(fmt::format("{} is {}, but {} is {}: make them agree",
                                     first->first, first->second, place,
                                     *count));
      }
      first = count && !first ? std::pair(place, *count) : first;
    }
    return first ? first->second : 0;
  }

  void ReadSizes(const Json& trainer) {
    const auto word = [this](const char* flag) {
      return std::pair(
          fmt::format("{} of the command", flag),
          CountOf(trials::FlagValue(job_.words, flag, true).value_or("")));
    };
    const auto limit = [&trainer](const std::string& kind) {
      const GpuLimit found = GpuLimitOf(trainer, kind);
      return std::pair(fmt::format("spec.trainer.resourcesPerNode.{}: {}", kind,
                                   found.resource),
                       found.gpus);
    };
    size_.nodes =
        std::max(1, AgreedOf({{"spec.trainer.numNodes",
                               CountOf(trainer.value("numNodes", Json()))},
                              word("--nnodes")}));
    size_.gpus_per_node =
        AgreedOf({{"spec.trainer.numProcPerNode",
                   CountOf(trainer.value("numProcPerNode", Json()))},
                  word("--nproc-per-node"),
                  limit("limits"),
                  limit("requests")});
    job_.cluster.nodes = size_.nodes;
    job_.cluster.gpus_per_node = size_.gpus_per_node;
    if (request_.gpus.empty()) {
      request_.gpus = Annotation(train_job_, "gpus");
    }
    if (request_.gpus.empty() && size_.gpus_per_node > 0) {
      request_.gpus = fmt::format("{}x{}", size_.nodes, size_.gpus_per_node);
    }
    if (request_.gpus.empty()) {
      throw InputError(fmt::format(
          "spec.trainer.numProcPerNode: the GPUs of a node are unknown: give "
          "it, resourcesPerNode, --gpus or the annotation {} (8..64)",
          Key("gpus")));
    }
  }

  void ReadNumber(const std::string& name, std::optional<double> present,
                  int& value) {
    const std::string text = Annotation(train_job_, name);
    value = value > 0      ? value
            : text.empty() ? static_cast<int>(present.value_or(0.0))
                           : common::ParseInt(text, 1, 1 << 24).value_or(0);
    if (value < 1) {
      throw InputError(
          fmt::format("{}: {}: give --{} N or this annotation", Key(name),
                      text.empty() ? "spec.trainer.args does not say it"
                                   : fmt::format("'{}' is no number", text),
                      name));
    }
  }

  // What the words of the TrainJob would have cost.
  [[nodiscard]] std::string BeforeText(const Forecaster& forecaster) const {
    try {
      trials::AdapterJob job = job_;
      job.workload = forecaster.job().workload;
      job.cluster = forecaster.job().cluster;
      const trials::PresentConfig present = adapter_->Present(job);
      const Prediction one = forecaster.Predict(present.config);
      return fmt::format(
          "{}{}{}{}", TextOf(one),
          forecaster.Fits(one) ? "" : ", more than the memory allows",
          present.notes.empty() ? "" : "; not counted: ",
          fmt::join(present.notes, ", "));
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  // Refuses words that leave out a part of the layout, which a file of the
  // framework's would have.
  void RequireSaid(const Forecaster& forecaster, const Prediction& best,
                   trials::AdapterJob job, const WordList& words) const {
    if (!adapter_->keys_only_in_file()) {
      return;
    }
    job.words = words;
    const Prediction said = forecaster.Predict(adapter_->Present(job).config);
    const auto is_near = [](double a, double b) {
      constexpr double kNear = 0.01;
      return std::abs(a / b - 1.0) < kNear;
    };
    if (!is_near(said.step_time_s, best.step_time_s) ||
        !is_near(said.peak_memory_bytes, best.peak_memory_bytes)) {
      throw InputError(fmt::format(
          "spec.trainer.args: they cannot say {}, and would be {}: a file of "
          "the framework's has the rest; `oppa plan --write DIR --k8s` writes "
          "a TrainJob with its files",
          LayoutName(best.config), TextOf(said)));
    }
  }

  void Set(const Forecaster& forecaster, const Prediction& best,
           const std::vector<std::string>& compared) {
    const Job& job = forecaster.job();
    trials::AdapterJob adapted = job_;
    adapted.workload = job.workload;
    adapted.cluster = job.cluster;
    adapted.config_json = job.config_json;
    trials::RenderedJob rendered = adapter_->Render(
        adapted, best.config, Adapter::Purpose::kUse, "files", nullptr);
    if (!rendered.refusal.empty() || !rendered.files.empty()) {
      throw InputError(fmt::format(
          "spec.trainer.args: {}",
          rendered.files.empty()
              ? rendered.refusal
              : fmt::format("the layout is set in {}, a file of the container, "
                            "which stays as it is: `oppa plan --write DIR "
                            "--k8s` writes one with its files",
                            rendered.files.front().path.filename().string())));
    }
    RequireSaid(forecaster, best, adapted, rendered.words);
    const int nodes = job.cluster.launchers();
    const int gpus = job.cluster.launched_gpus();
    for (const auto& [flag, count] :
         {std::pair("--nnodes", nodes), {"--nproc-per-node", gpus}}) {
      if (trials::FlagValue(rendered.words, flag, true)) {
        trials::SetFlagWord(rendered.words, flag, true, std::to_string(count));
      }
    }
    Json& trainer = train_job_["spec"]["trainer"];
    trainer["numNodes"] = nodes;
    trainer["numProcPerNode"] = gpus;
    SetWords(rendered.words, trainer);
    SetGpus(GpuResource(job.cluster.gpu), gpus, trainer);
    for (const std::string& variable : rendered.environment) {
      SetVariable(variable, trainer);
    }
    Json& annotations = train_job_["metadata"]["annotations"];
    annotations[Key("config")] = ToString(best.config);
    annotations[Key("prediction")] =
        TextOf(best) + "\n" + BandText(forecaster, best);
    annotations[Key("compared")] =
        fmt::format("{}\n", fmt::join(compared, "\n"));
    const auto guesses = common::Map(GuessesOf(job), &trials::Guess::what);
    if (!guesses.empty()) {
      annotations[Key("guess")] = fmt::format("{}", fmt::join(guesses, "; "));
    }
    rendered.notes.insert(rendered.notes.end(), notes_.begin(), notes_.end());
    if (!rendered.notes.empty()) {
      annotations[Key("notes")] =
          fmt::format("{}", fmt::join(rendered.notes, "; "));
    }
  }

  // WordList that stay in the command are those that it begins with.
  void SetWords(const WordList& words, Json& trainer) const {
    const std::size_t kept =
        words.size() >= command_.size() &&
                std::equal(command_.begin(), command_.end(), words.begin())
            ? command_.size()
            : words.size();
    const auto split = words.begin() + static_cast<std::ptrdiff_t>(kept);
    if (kept > 0) {
      trainer["command"] = WordList(words.begin(), split);
    }
    trainer.erase("args");
    if (split != words.end()) {
      trainer["args"] = WordList(split, words.end());
    }
  }

  void SetGpus(const std::string& resource, int gpus, Json& trainer) const {
    Json& resources = trainer["resourcesPerNode"];
    const std::string name =
        limit_.resource.empty() ? resource : limit_.resource;
    resources["limits"][name] = gpus;
    if (resources.contains("requests") &&
        resources["requests"].contains(name)) {
      resources["requests"][name] = gpus;
    }
  }

  static void SetVariable(const std::string& variable, Json& trainer) {
    const std::size_t equals = variable.find('=');
    const Json entry = {{"name", variable.substr(0, equals)},
                        {"value", variable.substr(equals + 1)}};
    Json& env = trainer["env"];
    for (Json& each : env) {
      if (each.value("name", "") == entry["name"]) {
        each = entry;
        return;
      }
    }
    env.push_back(entry);
  }

  ForecastRequest request_;
  Json train_job_;
  WordList command_;
  trials::AdapterJob job_;
  GpuLimit limit_;
  MachineSize size_;  // before
  std::optional<Adapter> adapter_;
  WordList notes_;  // on the words
};

}  // namespace

std::string RecommendTrainJob(const ForecastRequest& request,
                              const std::string& text) {
  std::string result;
  int train_jobs = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::string line = "\n---\n";
    const std::size_t end = std::min(text.find(line, at), text.size());
    const std::string document = text.substr(at, end - at);
    at = end + line.size();
    Json json;
    try {
      json = trials::JsonOfYaml(document);
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("--trainjob: {}", e.what()));
    }
    const bool ours =
        json.is_object() && json.value("kind", "") == "TrainJob" &&
        json.value("apiVersion", "").starts_with("trainer.kubeflow.org/");
    std::string answer = document + (end < text.size() ? "\n" : "");
    if (ours) {
      ++train_jobs;
      Json made;
      try {
        made = Recommender(request, json).Run();
      } catch (const Json::exception& e) {  // a value of another type
        throw InputError(fmt::format("--trainjob: {}", e.what()));
      }
      answer = document.starts_with("{") ? common::ToText(made, 2) + "\n"
                                         : trials::YamlOf(made);
    }
    result += (result.empty() ? "" : "---\n") + answer;
  }
  if (train_jobs == 0) {
    throw InputError(
        fmt::format("--trainjob: kind: there is no TrainJob of {} in it",
                    kTrainJobVersion));
  }
  return result;
}

}  // namespace jobs
