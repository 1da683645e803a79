// The text form of plans, and plans as JSON files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/plan.h"

namespace trials {
namespace {

constexpr int kMost = 1'000'000;     // of a number
constexpr int kMostStages = 10'000;  // that are alike

[[noreturn]] void Fail(std::string_view part, const std::string& rule) {
  throw std::invalid_argument(fmt::format("'{}': {}", part, rule));
}

int Number(std::string_view text, int least, int most) {
  const std::optional<int> value = common::ParseInt(text, least, most);
  if (!value) {
    Fail(text, fmt::format("must be an integer from {} to {}", least, most));
  }
  return *value;
}

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words = common::Split(text, ' ');
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  return words;
}

bool IsStage(const std::vector<std::string_view>& words) {
  return std::ranges::any_of(
      words, [](std::string_view word) { return word.starts_with("layers="); });
}

// Some stages that are alike.
struct Stages {
  int count = 1;
  std::vector<int> layers;  // by chunk
  PlanStage stage;

  friend bool operator==(const Stages&, const Stages&) = default;
};

Stages ParseStages(const std::vector<std::string_view>& words) {
  Stages stages;
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    const std::string_view value = word.substr(std::min(equals, word.size()));
    const auto read = [&](int least) {
      return Number(value.substr(1), least, kMost);
    };
    if (equals == std::string_view::npos && word.ends_with('x')) {
      stages.count = Number(word.substr(0, word.size() - 1), 1, kMostStages);
    } else if (word.starts_with("layers=")) {
      stages.layers.clear();
      for (const std::string_view chunk : common::Split(value.substr(1), '+')) {
        stages.layers.push_back(Number(chunk, 0, kMost));
      }
    } else if (word.starts_with("dp=")) {
      stages.stage.dp = read(1);
    } else if (word.starts_with("tp=")) {
      stages.stage.tp = read(1);
    } else if (word.starts_with("recomputed_layers=")) {
      stages.stage.recomputed_layers = read(0);
    } else if (word.starts_with("gpu_type=")) {
      stages.stage.gpu_type = read(0);
    } else {
      Fail(word,
           "a stage has layers, dp, tp, recomputed_layers and gpu_type, and "
           "'2x' "
           "before them for two stages alike");
    }
  }
  return stages;
}

ParallelConfig ParseShared(const std::vector<std::string_view>& words) {
  const std::string text = fmt::format("{}", fmt::join(words, ","));
  const ParallelConfig shared = ParseParallelConfig(text);
  if (shared.dp != 1 || shared.tp != 1 || shared.pp != 1 ||
      shared.model_chunks != 1) {
    Fail(text, "dp, tp, pp and model_chunks follow from the stages");
  }
  return shared;
}

Stages StagesAt(const Plan& plan, std::size_t stage) {
  Stages stages{.stage = plan.stages[stage]};
  for (std::size_t v = stage; v < plan.layers.size(); v += plan.stages.size()) {
    stages.layers.push_back(plan.layers[v]);
  }
  return stages;
}

std::string TextOf(const Stages& stages) {
  const PlanStage& stage = stages.stage;
  std::string text =
      fmt::format("{}layers={} dp={} tp={}",
                  stages.count > 1 ? fmt::format("{}x ", stages.count) : "",
                  fmt::join(stages.layers, "+"), stage.dp, stage.tp);
  if (stage.recomputed_layers > 0) {
    text += fmt::format(" recomputed_layers={}", stage.recomputed_layers);
  }
  if (stage.gpu_type > 0) {
    text += fmt::format(" gpu_type={}", stage.gpu_type);
  }
  return text;
}

}  // namespace

std::string ToString(const Plan& plan) {
  ParallelConfig shared = plan.shared;
  shared.dp = shared.tp = shared.pp = shared.model_chunks = 1;
  shared.micro_batch_size = 0;
  const std::size_t sizes = ToString(ParallelConfig{}).size();
  std::string text = ToString(shared).substr(sizes);
  std::ranges::replace(text, ',', ' ');
  std::vector<std::string> parts;
  if (!text.empty()) {
    parts.push_back(text.substr(1));
  }
  for (std::size_t s = 0; s < plan.stages.size();) {
    Stages stages = StagesAt(plan, s);
    for (++s; s < plan.stages.size(); ++s, ++stages.count) {
      Stages next = StagesAt(plan, s);
      next.count = stages.count;
      if (next != stages) {
        break;
      }
    }
    parts.push_back(TextOf(stages));
  }
  return fmt::format("{}", fmt::join(parts, " / "));
}

void FromText(std::string_view text, Plan& plan) {
  plan = {};
  std::vector<std::vector<int>> layers;  // by stage and chunk
  for (const std::string_view part : common::Split(text, '/')) {
    const std::vector<std::string_view> words = WordsOf(part);
    if (words.empty()) {
      Fail(part, "a part of a plan is empty");
    }
    if (!IsStage(words)) {
      if (!plan.stages.empty() || plan.shared != ParallelConfig{}) {
        Fail(part, "a stage must have layers");
      }
      plan.shared = ParseShared(words);
      continue;
    }
    const Stages stages = ParseStages(words);
    plan.stages.insert(plan.stages.end(), stages.count, stages.stage);
    layers.resize(plan.stages.size(), stages.layers);
    if (layers.front().size() != stages.layers.size()) {
      Fail(part, "all stages must have as many model chunks");
    }
  }
  if (plan.stages.empty()) {
    Fail(text, "a plan must have a stage, such as 'layers=24 dp=4'");
  }
  SetLayers(layers, plan);
}

namespace {

using common::InputError;
using common::Json;

// An object of the file and its name in errors.
struct Part {
  const Json& json;
  std::string where;

  [[noreturn]] void Fail(const std::string& key,
                         const std::string& reason) const {
    throw InputError(fmt::format("{}: '{}' {}", where, key, reason));
  }

  void RequireKeys(const std::vector<std::string>& known) const {
    if (!json.is_object()) {
      throw InputError(where + ": must be an object with keys");
    }
    for (const auto& [key, value] : json.items()) {
      if (!common::Contains(known, key)) {
        Fail(key, fmt::format("is unknown{}; known: {}",
                              common::DidYouMean(key, known),
                              fmt::join(known, ", ")));
      }
    }
  }

  [[nodiscard]] int Int(const Json& value, const std::string& key,
                        int least) const {
    if (!value.is_number_integer() || value.get<std::int64_t>() < least ||
        value.get<std::int64_t>() > kMost) {
      Fail(key, fmt::format("must be an integer from {}", least));
    }
    return value.get<int>();
  }

  [[nodiscard]] int Int(const char* key, int least, int fallback) const {
    return json.contains(key) ? Int(json.at(key), key, least) : fallback;
  }
};

std::vector<int> LayersOf(const Part& part) {
  if (!part.json.contains("layers")) {
    part.Fail("layers", "is missing: the layers of the stage");
  }
  const Json& layers = part.json.at("layers");
  if (!layers.is_array()) {
    return {part.Int(layers, "layers", 0)};
  }
  return common::Map(layers, [&part](const Json& chunk) {
    return part.Int(chunk, "layers", 0);
  });
}

ParallelConfig SharedOf(const Part& part) {
  if (!part.json.contains("shared")) {
    return {};
  }
  const Json& shared = part.json.at("shared");
  if (!shared.is_string()) {
    part.Fail("shared", "must be text such as \"zero_stage=1\"");
  }
  try {
    ParallelConfig config = ParseParallelConfig(shared.get<std::string>());
    if (config.dp != 1 || config.tp != 1 || config.pp != 1) {
      part.Fail("shared", "sets dp, tp or pp, which belong to the stages");
    }
    return config;
  } catch (const std::invalid_argument& e) {
    part.Fail("shared", fmt::format("is wrong: {}", e.what()));
  }
}

}  // namespace

Plan ParsePlanText(std::string_view text, const std::string& source) {
  const Json json = common::ParseJson(text, source);
  const Part whole{json, source};
  whole.RequireKeys({"shared", "stages"});
  if (!json.contains("stages") || !json.at("stages").is_array() ||
      json.at("stages").empty()) {
    whole.Fail("stages", "must be a list with an object for each stage");
  }
  Plan plan;
  plan.shared = SharedOf(whole);
  std::vector<std::vector<int>> layers;  // by stage and chunk
  for (const Json& one : json.at("stages")) {
    const Part part{one,
                    fmt::format("{}: stage {}", source, layers.size() + 1)};
    part.RequireKeys({"layers", "dp", "tp", "recomputed_layers", "gpu_type"});
    layers.push_back(LayersOf(part));
    if (layers.back().size() != layers.front().size()) {
      part.Fail("layers", "must have as many numbers as in the first stage");
    }
    plan.stages.push_back(
        {.dp = part.Int("dp", 1, 1),
         .tp = part.Int("tp", 1, 1),
         .recomputed_layers = part.Int("recomputed_layers", 0, 0),
         .gpu_type = part.Int("gpu_type", 0, 0)});
  }
  SetLayers(layers, plan);
  return plan;
}

Plan ReadPlanFile(const std::filesystem::path& path) {
  return ParsePlanText(common::ReadFile(path), path.string());
}

}  // namespace trials
