// Combinations of values of knobs.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trials/knobs.h"

namespace fakes {

// All combinations; the values of the last knob vary fastest. With a number of
// GPUs, dp is what tp and pp leave of them, and those that do not divide it are
// left out.
inline std::vector<trials::ParallelConfig> Grid(
    const std::vector<std::pair<std::string, std::vector<int>>>& values,
    const trials::ParallelConfig& others = {}, int gpus = 0) {
  std::vector<trials::ParallelConfig> configs = {others};
  for (const auto& [name, choices] : values) {
    const trials::Knob& knob = trials::BuiltInKnobs().Require(name);
    std::vector<trials::ParallelConfig> longer;
    for (const trials::ParallelConfig& config : configs) {
      for (const int value : choices) {
        knob.Set(longer.emplace_back(config), value);
      }
    }
    configs = std::move(longer);
  }
  if (gpus > 0) {
    std::erase_if(configs, [gpus](const trials::ParallelConfig& config) {
      return gpus % (config.tp * config.pp) != 0;
    });
    for (trials::ParallelConfig& config : configs) {
      config.dp = gpus / config.tp / config.pp;
    }
  }
  return configs;
}

}  // namespace fakes
