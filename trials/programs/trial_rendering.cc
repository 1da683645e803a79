#include "trials/programs/trial_rendering.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"
#include "common/process.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/adapters/placeholders.h"
#include "trials/knobs.h"
#include "trials/programs/rank_launch.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

// The values of {master_port}, below the ports that systems give to clients.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 10000;

// Whether the job is told the address of its first node, for which Slurm has to
// be asked.
bool NamesMaster(const CommandOptions& options) {
  const auto names = [](std::string_view text) {
    return text.find("{master_addr}") != std::string_view::npos;
  };
  return std::ranges::any_of(options.program, names) ||
         (options.adapter != nullptr &&
          std::ranges::any_of(options.adapter->settings(), names,
                              &AdapterSetting::text));
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

bool Names(const CommandOptions& options, const std::string& placeholder) {
  return std::ranges::any_of(options.program, [&](const std::string& word) {
    return word.find("{" + placeholder + "}") != std::string::npos;
  });
}

// Whether the arguments of the program depend on the configuration.
bool NamesParameter(const CommandOptions& options) {
  return Names(options, "config") ||
         std::ranges::any_of(options.knobs, [&](const Knob& knob) {
           return Names(options, knob.name);
         });
}

}  // namespace

int ValueOf(const Knob& knob, const ParallelConfig& config, int batch_size) {
  const int value = knob.Get(config);
  return value == 0 && knob.derived
             ? static_cast<int>(knob.derived(config, batch_size))
             : value;
}

std::vector<std::string> UnnamedParameters(const CommandOptions& options,
                                           const SearchSpace& space) {
  if (!NamesParameter(options) || Names(options, "config")) {
    return {};
  }
  const int batch_size = options.workload.batch_size;
  std::vector<const Knob*> named;
  for (const Knob& knob : options.knobs) {
    if (Names(options, knob.name)) {
      named.push_back(&knob);
    }
  }
  std::map<std::vector<int>, const ParallelConfig*> first;  // of these words
  std::set<std::string> unnamed;
  for (const ParallelConfig& config : space.configs()) {
    const auto value_of = [&](const Knob* knob) {
      return ValueOf(*knob, config, batch_size);
    };
    const ParallelConfig& other =
        *first.emplace(common::Map(named, value_of), &config).first->second;
    for (const Knob& knob : options.knobs) {
      if (value_of(&knob) != ValueOf(knob, other, batch_size)) {
        unnamed.insert(knob.name);
      }
    }
  }
  return {unnamed.begin(), unnamed.end()};
}

std::map<std::string, std::string> Placeholders(const CommandOptions& options,
                                                const Cluster& cluster,
                                                const TrialRequest& request) {
  const ParallelConfig& config = request.candidate.config();
  std::map<std::string, std::string> values = {
      {"config", ToString(config, options.knobs)},
      {"max_steps", std::to_string(request.max_steps)},
      {"seed", std::to_string(request.seed)},
      {"gpus", std::to_string(cluster.gpus())},
      {"nodes", std::to_string(cluster.nodes)},
      {"gpus_per_node", std::to_string(cluster.gpus_per_node)},
      // Each node replaces it (RunRanks).
      {"node_rank",
       options.ranks == CommandOptions::Ranks::kOne ? "0" : "{node_rank}"},
      {"master_addr", NamesMaster(options) ? MasterAddress(options) : ""},
      // Another one than the last trial's, which may still be in use.
      {"master_port",
       std::to_string(kFirstPort +
                      common::DeriveSeed(ToString(config, options.knobs),
                                         request.seed + request.max_steps) %
                          kPorts)}};
  for (const Knob& knob : options.knobs) {
    values[knob.name] =
        knob.Text(ValueOf(knob, config, options.workload.batch_size));
  }
  return values;
}

std::vector<std::string> TrialWords(const CommandOptions& options,
                                    const Cluster& cluster,
                                    const TrialRequest& request) {
  std::vector<std::string> words = LaunchWords(options, cluster);
  const auto values = Placeholders(options, cluster, request);
  for (const std::string& word : options.program) {
    words.push_back(Expand(word, values));
  }
  return words;
}

AdapterJob JobOf(const CommandOptions& options, const Cluster& cluster) {
  return {options.program, options.folder, options.workload, cluster};
}

RenderedJob RenderJob(const CommandOptions& options, const Cluster& cluster,
                      const TrialRequest& request, const fs::path& files) {
  const ParallelConfig& config = request.candidate.config();
  auto values = Placeholders(options, cluster, request);
  for (const char* name : {"node_rank", "master_addr"}) {
    values[name] = fmt::format("{{{}}}", name);
  }
  values["master_port"] = "29500";
  const auto expand = [&values](std::string_view text) {
    return Expand(text, values);
  };
  RenderedJob job{options.program, {}, {}};
  if (options.adapter != nullptr) {
    job = options.adapter->Render(JobOf(options, cluster), config,
                                  Adapter::Purpose::kUse, files, expand);
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

RenderedJob RenderTrial(const CommandOptions& options, const Cluster& cluster,
                        const TrialRequest& request, const fs::path& files,
                        bool as_given) {
  if (options.adapter == nullptr) {
    return {TrialWords(options, cluster, request), {}, {}};
  }
  const auto values = Placeholders(options, cluster, request);
  RenderedJob job = options.adapter->Render(
      JobOf(options, cluster),
      as_given ? std::nullopt : std::optional(request.candidate.config()),
      Adapter::Purpose::kTrial, files,
      [&values](std::string_view text) { return Expand(text, values); });
  CommandOptions rendered = options;
  rendered.program = std::move(job.words);
  rendered.environment.insert(rendered.environment.end(),
                              job.environment.begin(), job.environment.end());
  job.words = TrialWords(rendered, cluster, request);
  return job;
}

common::Json ParametersAsJson(const KnobSet& knobs,
                              const ParallelConfig& config, int batch_size) {
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
  json["config"] = ParametersAsJson(options.knobs, request.candidate.config(),
                                    options.workload.batch_size);
  for (const Knob& knob : options.knobs) {
    variables["OPPA_" + VariableName(knob.name)] = knob.Text(
        ValueOf(knob, request.candidate.config(), options.workload.batch_size));
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
  return common::Map(variables, [](const auto& variable) {
    return variable.first + "=" + variable.second;
  });
}

}  // namespace trials
