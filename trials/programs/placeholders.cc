#include "trials/programs/placeholders.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"

namespace trials {
namespace {

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
  });
}

}  // namespace

int ValueOf(const Knob& knob, const ParallelConfig& config, int batch_size) {
  const int value = knob.Get(config);
  return value == 0 && knob.derived
             ? static_cast<int>(knob.derived(config, batch_size))
             : value;
}

std::map<std::string, std::string> Placeholders(const KnobSet& knobs,
                                                const Cluster& cluster,
                                                const TrialRequest& request,
                                                int batch_size) {
  std::map<std::string, std::string> values = {
      {"config", ToString(request.candidate.config(), knobs)},
      {"max_steps", std::to_string(request.max_steps)},
      {"seed", std::to_string(request.seed)},
      {"gpus", std::to_string(cluster.gpus())},
      {"nodes", std::to_string(cluster.nodes)},
      {"gpus_per_node", std::to_string(cluster.gpus_per_node)}};
  for (const Knob& knob : knobs) {
    values[knob.name] =
        knob.Text(ValueOf(knob, request.candidate.config(), batch_size));
  }
  return values;
}

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
      throw std::invalid_argument(fmt::format(
          "unknown placeholder '{{{}}}'{}; known: {}; write "
          "{{{{{}}}}} for the text itself",
          name, common::DidYouMean(name, known), fmt::join(known, ", "), name));
    }
    text += found->second;
    word.remove_prefix(close + 1);
  }
  return text;
}

}  // namespace trials
