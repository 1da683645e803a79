#include "jobs/machine_size.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"

namespace jobs {
namespace {

constexpr int kMostGpus = 65536;

int ParseCount(std::string_view text) {
  const std::optional<int> count = common::ParseInt(text, 1, kMostGpus);
  if (!count) {
    throw common::InputError(
        fmt::format("invalid number '{}': write NODESxGPUS (2x8), GPUS (16) or "
                    "GPUS..GPUS (8..1024), with numbers from 1 to {}",
                    text, kMostGpus));
  }
  return *count;
}

MachineSize ParseOne(std::string_view text, int gpus_per_node) {
  MachineSize size;
  const std::size_t cross = text.find('x');
  if (cross != std::string_view::npos) {
    size.nodes = ParseCount(text.substr(0, cross));
    size.gpus_per_node = ParseCount(text.substr(cross + 1));
  } else {
    const int gpus = ParseCount(text);
    size.gpus_per_node = gpus < gpus_per_node ? gpus : gpus_per_node;
    size.nodes = gpus / size.gpus_per_node;
    if (size.gpus() != gpus) {
      throw common::InputError(fmt::format(
          "{} GPUs do not fill nodes of {}: write NODESxGPUS, as in {}x{}",
          gpus, gpus_per_node, size.nodes + 1, gpus_per_node));
    }
  }
  if (size.nodes > kMostGpus / size.gpus_per_node) {
    throw common::InputError(
        fmt::format("'{}' is more than {} GPUs", text, kMostGpus));
  }
  return size;
}

}  // namespace

std::vector<MachineSize> ParseMachineSizes(const std::string& text,
                                           int gpus_per_node) {
  std::vector<MachineSize> sizes;
  for (const std::string_view part : common::Split(text, ',')) {
    const std::size_t dots = part.find("..");
    if (dots == std::string_view::npos) {
      sizes.push_back(ParseOne(part, gpus_per_node));
      continue;
    }
    const MachineSize last = ParseOne(part.substr(dots + 2), gpus_per_node);
    MachineSize size = ParseOne(part.substr(0, dots), gpus_per_node);
    if (size.gpus() > last.gpus()) {
      throw common::InputError(fmt::format(
          "'{}' ends below its start: write the smaller size first", part));
    }
    for (int gpus = size.gpus(); gpus <= last.gpus(); gpus *= 2) {
      sizes.push_back(
          gpus == size.gpus()
              ? size
              : ParseOne(std::to_string(gpus),
                         std::max(size.gpus_per_node, last.gpus_per_node)));
    }
  }
  return sizes;
}

std::string ToString(const MachineSize& size) {
  return size.nodes == 1 ? fmt::format("{} GPU{} (one node)", size.gpus(),
                                       size.gpus() == 1 ? "" : "s")
                         : fmt::format("{} GPUs ({} nodes of {})", size.gpus(),
                                       size.nodes, size.gpus_per_node);
}

}  // namespace jobs
