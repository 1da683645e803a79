#include "trials/command/command_options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "common/json.h"
#include "common/process.h"
#include "common/text.h"
#include "trials/knobs.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostLogBytes = std::int64_t{1} << 30;

// The value of a parameter; of one that follows from the others and the batch
// size, the value that it has.
int ValueOf(const Knob& knob, const ParallelConfig& config, int batch_size) {
  const int value = knob.Get(config);
  return value == 0 && knob.derived && batch_size > 0
             ? static_cast<int>(knob.derived(config, batch_size))
             : value;
}

// Numbers and booleans as such, other texts as strings.
common::Json JsonValue(const Knob& knob, int value) {
  const std::string text = knob.Text(value);
  if (knob.texts.empty()) {
    return value;
  }
  if (text == "true" || text == "false") {
    return text == "true";
  }
  return knob.numbers.empty() ? common::Json(text)
                              : common::ParseJson(text, knob.name);
}

// The names that are allowed in braces.
std::map<std::string, std::string> Placeholders(const KnobSet& knobs,
                                                const Cluster& cluster,
                                                const TrialRequest& request,
                                                int batch_size = 0) {
  std::map<std::string, std::string> values = {
      {"config", ToString(request.config, knobs)},
      {"max_steps", std::to_string(request.max_steps)},
      {"seed", std::to_string(request.seed)},
      {"gpus", std::to_string(cluster.gpus())},
      {"nodes", std::to_string(cluster.nodes)},
      {"gpus_per_node", std::to_string(cluster.gpus_per_node)}};
  for (const Knob& knob : knobs) {
    values[knob.name] = knob.Text(ValueOf(knob, request.config, batch_size));
  }
  return values;
}

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
  });
}

// "--tp={tp}" -> "--tp=4"; braces around anything but a name are
// kept, and "{{name}}" becomes "{name}".
// Errors: throws std::invalid_argument for an unknown name.
std::string Expand(std::string_view word,
                   const std::map<std::string, std::string>& values) {
  std::string text;
  while (!word.empty()) {
    const std::size_t open = word.find('{');
    text += word.substr(0, open);
    if (open == std::string_view::npos) {
      break;
    }
    word.remove_prefix(open);
    const bool twice = word.starts_with("{{");
    const std::size_t begin = twice ? 2 : 1;
    const std::size_t close = word.find('}');
    const std::string name(close == std::string_view::npos
                               ? ""
                               : word.substr(begin, close - begin));
    if (!IsName(name) && !values.contains(name)) {
      text += '{';
      word.remove_prefix(1);
      continue;
    }
    if (twice && word.substr(close).starts_with("}}")) {
      text += fmt::format("{{{}}}", name);
      word.remove_prefix(close + 2);
      continue;
    }
    const auto found = values.find(name);
    if (found == values.end()) {
      std::vector<std::string> known;
      for (const auto& [key, value] : values) {
        known.push_back(key);
      }
      throw std::invalid_argument(
          fmt::format("unknown placeholder '{{{}}}'{}; known: {}; write "
                      "{{{{{}}}}} for the text itself",
                      name,
                      common::DidYouMean(name, known),
                      fmt::join(known, ", "),
                      name));
    }
    text += found->second;
    word.remove_prefix(close + 1);
  }
  return text;
}

CommandOptions::Ranks ReadRanks(const common::TomlTable& table) {
  const std::string value = table.GetString("ranks", "one");
  if (value == "one") {
    return CommandOptions::Ranks::kOne;
  }
  if (value == "per-node") {
    return CommandOptions::Ranks::kPerNode;
  }
  if (value == "per-gpu") {
    return CommandOptions::Ranks::kPerGpu;
  }
  table.Fail(
      "ranks",
      fmt::format("ranks = '{}': must be one, per-node or per-gpu", value));
}

// The words that start the ranks, ahead of the program.
std::vector<std::string> ReadLauncher(const common::TomlTable& table) {
  static const std::map<std::string, std::vector<std::string>> launchers = {
      {"as-is", {}},
      {"torchrun",
       {"torchrun", "--standalone", "--nproc_per_node={gpus_per_node}"}},
      {"srun",
       {"srun",
        "--nodes={nodes}",
        "--ntasks={gpus}",
        "--ntasks-per-node={gpus_per_node}",
        "--kill-on-bad-exit=1"}},
      {"mpirun", {"mpirun", "-np", "{gpus}"}},
  };
  const std::string name = table.GetString("launcher", "as-is");
  const auto found = launchers.find(name);
  if (found == launchers.end()) {
    std::vector<std::string> known;
    for (const auto& [key, words] : launchers) {
      known.push_back(key);
    }
    table.Fail("launcher",
               fmt::format("unknown launcher '{}'{}; known: {}",
                           name,
                           common::DidYouMean(name, known),
                           fmt::join(known, ", ")));
  }
  return found->second;
}

void ReadAdapter(const common::TomlTable& table, CommandOptions& options) {
  if (table.Has("framework")) {
    try {
      options.adapter = std::make_shared<const Adapter>(
          Adapter::Find(table.RequireString("framework"), table.Folder()));
    } catch (const common::InputError& e) {
      table.Fail("framework", e.what());
    }
    const std::vector<std::string>& texts =
        options.adapter->log().out_of_memory;
    options.out_of_memory.insert(
        options.out_of_memory.end(), texts.begin(), texts.end());
    options.log = std::shared_ptr<const LogPatterns>(options.adapter,
                                                     &options.adapter->log());
  }
  if (table.Has("log")) {
    options.log = std::make_shared<const LogPatterns>(
        ReadLogPatterns(table.RequireTable("log")));
  }
}

// A program with a '/' is a file, relative to the manifest.
void ReadProgram(const common::TomlTable& table, CommandOptions& options) {
  options.program = table.GetStrings("program");
  if (options.program.empty() || options.program.front().empty()) {
    throw common::InputError(fmt::format(
        "{}: [backend] of type command needs program = [\"./train.sh\", ...]",
        table.Where()));
  }
  for (const std::string& word : options.program) {
    if (word.find('\0') != std::string::npos) {
      table.Fail("program", "a word cannot hold a NUL byte");
    }
    try {
      (void)Expand(word, Placeholders(options.knobs, {}, {}));
    } catch (const std::invalid_argument& e) {
      table.Fail("program", e.what());
    }
  }
  std::string& program = options.program.front();
  if (program.find('/') == std::string::npos) {
    return;  // found in PATH where the trial runs
  }
  program = (options.folder / program).lexically_normal().string();
  if (::access(program.c_str(), X_OK) != 0) {
    table.Fail("program",
               fmt::format("'{}' is not an executable file (paths are "
                           "relative to the manifest; chmod +x?)",
                           program));
  }
}

}  // namespace

CommandOptions ReadCommandOptions(const common::TomlTable& table,
                                  const KnobSet& knobs) {
  CommandOptions options = ReadTrialOptions(table, knobs);
  ReadProgram(table, options);
  const std::vector<std::string> launcher = ReadLauncher(table);
  options.program.insert(
      options.program.begin(), launcher.begin(), launcher.end());
  ReadAdapter(table, options);
  options.ranks = ReadRanks(table);
  return options;
}

CommandOptions ReadTrialOptions(const common::TomlTable& table,
                                const KnobSet& knobs) {
  CommandOptions options;
  options.knobs = knobs;
  // The folder of "m.toml" is "", which fs::absolute does not take.
  options.folder = table.Folder().empty() ? fs::current_path()
                                          : fs::absolute(table.Folder());
  if (table.Has("folder")) {
    options.folder =
        (options.folder / table.RequireString("folder")).lexically_normal();
    if (!fs::is_directory(options.folder)) {
      table.Fail("folder",
                 fmt::format("{} is not a folder (paths are relative to the "
                             "manifest)",
                             options.folder.string()));
    }
  }
  options.timeout_s = table.GetPositive("timeout_s", options.timeout_s);
  options.silence_s = table.GetPositive("silence_s", options.silence_s);
  options.patience_s = table.GetPositive("patience_s", options.patience_s);
  options.log_bytes = table.GetInt("log_bytes", options.log_bytes);
  if (options.log_bytes < 1 || options.log_bytes > kMostLogBytes) {
    table.Fail("log_bytes",
               fmt::format("log_bytes = {}: must be in [1, {}]",
                           options.log_bytes,
                           kMostLogBytes));
  }
  options.environment = table.GetStrings("environment");
  for (const std::string& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos ||
        variable.find('\0') != std::string::npos) {
      table.Fail("environment",
                 fmt::format("'{}': write NAME=value", variable));
    }
  }
  if (table.Has("out_of_memory")) {
    options.out_of_memory = table.GetStrings("out_of_memory");
  }
  return options;
}

std::vector<std::string> TrialWords(const CommandOptions& options,
                                    const Cluster& cluster,
                                    const TrialRequest& request) {
  std::vector<std::string> words;
  if (options.ranks != CommandOptions::Ranks::kOne) {
    const int per_node = options.ranks == CommandOptions::Ranks::kPerGpu
                             ? cluster.gpus_per_node
                             : 1;
    // The job has one task a node, with all its cores: --overcommit shares
    // them among the ranks.
    words = {"srun",
             fmt::format("--nodes={}", cluster.nodes),
             fmt::format("--ntasks={}", cluster.nodes * per_node),
             fmt::format("--ntasks-per-node={}", per_node),
             "--overcommit",
             "--kill-on-bad-exit=1",
             "--input=none",
             "--export=ALL",
             "--chdir=" + options.folder.string()};
    words.insert(
        words.end(), options.rank_wrapper.begin(), options.rank_wrapper.end());
  }
  const auto values = Placeholders(
      options.knobs, cluster, request, options.workload.batch_size);
  for (const std::string& word : options.program) {
    words.push_back(Expand(word, values));
  }
  return words;
}

namespace {

// Whether the arguments of the program depend on the configuration.
bool NamesParameter(const CommandOptions& options) {
  std::vector<std::string> names = {"config"};
  for (const Knob& knob : options.knobs) {
    names.push_back(knob.name);
  }
  return std::any_of(names.begin(), names.end(), [&](const auto& name) {
    return std::any_of(options.program.begin(),
                       options.program.end(),
                       [&](const std::string& word) {
                         return word.find("{" + name + "}") !=
                                std::string::npos;
                       });
  });
}

}  // namespace

AdapterJob JobOf(const CommandOptions& options, const Cluster& cluster) {
  return {options.program, options.folder, options.workload, cluster};
}

RenderedJob RenderJob(const CommandOptions& options,
                      const Cluster& cluster,
                      const ParallelConfig& config,
                      const fs::path& files) {
  TrialRequest request;
  request.config = config;
  auto values = Placeholders(
      options.knobs, cluster, request, options.workload.batch_size);
  values["max_steps"] = "{max_steps}";
  values["seed"] = "{seed}";
  const auto expand = [&values](std::string_view text) {
    return Expand(text, values);
  };
  RenderedJob job{options.program, {}, {}};
  if (options.adapter != nullptr) {
    job = options.adapter->Render(
        JobOf(options, cluster), config, Adapter::Purpose::kUse, files, expand);
  }
  for (std::string& word : job.words) {
    word = expand(word);
  }
  if (options.adapter == nullptr && !NamesParameter(options)) {
    const common::Json json = {
        {"nodes", cluster.nodes},
        {"gpus_per_node", cluster.gpus_per_node},
        {"config",
         ParametersAsJson(options.knobs, config, options.workload.batch_size)}};
    job.environment.push_back("OPPA_TRIAL=" + common::ToText(json));
  }
  return job;
}

RenderedJob RenderTrial(const CommandOptions& options,
                        const Cluster& cluster,
                        const TrialRequest& request,
                        const fs::path& files,
                        bool as_given) {
  if (options.adapter == nullptr) {
    return {TrialWords(options, cluster, request), {}, {}};
  }
  const auto values = Placeholders(
      options.knobs, cluster, request, options.workload.batch_size);
  RenderedJob job = options.adapter->Render(
      JobOf(options, cluster),
      as_given ? std::nullopt : std::optional(request.config),
      Adapter::Purpose::kTrial,
      files,
      [&values](std::string_view text) { return Expand(text, values); });
  CommandOptions rendered = options;
  rendered.program = std::move(job.words);
  job.words = TrialWords(rendered, cluster, request);
  return job;
}

common::Json ParametersAsJson(const KnobSet& knobs,
                              const ParallelConfig& config,
                              int batch_size) {
  common::Json json = common::Json::object();
  for (const Knob& knob : knobs) {
    json[knob.name] = JsonValue(knob, ValueOf(knob, config, batch_size));
  }
  return json;
}

std::vector<std::string> TrialEnvironment(const CommandOptions& options,
                                          const Cluster& cluster,
                                          const TrialRequest& request) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : common::CurrentEnvironment()) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  variables.erase("OMP_NUM_THREADS");  // set for the numerics of oppa
  variables.erase("OPPA_REPORT");      // of another trial
  common::Json json = {
      {"max_steps", request.max_steps},
      {"seed", request.seed},
      {"time_limit_s", std::min(request.time_limit_s, options.timeout_s)},
      {"nodes", cluster.nodes},
      {"gpus_per_node", cluster.gpus_per_node}};
  json["config"] = ParametersAsJson(
      options.knobs, request.config, options.workload.batch_size);
  for (const Knob& knob : options.knobs) {
    variables["OPPA_" + VariableName(knob.name)] =
        knob.Text(ValueOf(knob, request.config, options.workload.batch_size));
  }
  variables["OPPA_TRIAL"] = common::ToText(json);
  variables["OPPA_MAX_STEPS"] = std::to_string(request.max_steps);
  variables["OPPA_SEED"] = std::to_string(request.seed);
  if (options.log != nullptr) {
    variables.emplace("PYTHONUNBUFFERED", "1");  // a line when it is printed
  }
  for (const std::string& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (const auto& [name, value] : variables) {
    environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

}  // namespace trials
