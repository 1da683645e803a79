#include "trials/plan_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/json.h"
#include "common/text.h"

namespace trials {
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
      if (std::find(known.begin(), known.end(), key) == known.end()) {
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

  static constexpr int kMost = 1'000'000;
};

std::vector<int> LayersOf(const Part& part) {
  if (!part.json.contains("layers")) {
    part.Fail("layers", "is missing: the layers of the stage");
  }
  const Json& layers = part.json.at("layers");
  if (!layers.is_array()) {
    return {part.Int(layers, "layers", 0)};
  }
  std::vector<int> chunks;
  for (const Json& chunk : layers) {
    chunks.push_back(part.Int(chunk, "layers", 0));
  }
  return chunks;
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
