#include "jobs/machine.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "common/process.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "trials/adapters/command_words.h"
#include "trials/data_folder.h"
#include "trials/usual_host.h"

namespace jobs {
namespace {

using common::InputError;

constexpr int kMostGpus = 65536;

// A number of `part`, which an error names.
int ParseCount(std::string_view text, std::string_view part) {
  const std::optional<int> count = common::ParseInt(text, 1, kMostGpus);
  if (!count) {
    throw InputError(
        fmt::format("invalid size '{}': write NODESxGPUS (2x8), GPUS (16) or "
                    "GPUS..GPUS (8..1024), with numbers from 1 to {}",
                    part, kMostGpus));
  }
  return *count;
}

// The largest host for this number of GPUs that is a part of `node`: of a rack,
// as many trays.
int HostFor(int gpus, const NodeSize& node) {
  if (node.gpus_per_tray == 0 || gpus <= node.gpus) {
    return std::min(gpus, node.gpus);
  }
  const int most = node.gpus / node.gpus_per_tray * node.gpus_per_tray;
  for (int host = most; host > 0; host -= node.gpus_per_tray) {
    if (gpus % host == 0) {
      return host;
    }
  }
  return node.gpus;
}

// "20x5 has that number, 12x8 and 13x8 are the next ones".
std::string OtherSizes(int gpus, int gpus_per_node) {
  int host = gpus_per_node;
  while (gpus % host != 0) {
    --host;
  }
  const int nodes = gpus / gpus_per_node;
  return fmt::format("{}x{} has that number, {}x{} and {}x{} are the next ones",
                     gpus / host, host, nodes, gpus_per_node, nodes + 1,
                     gpus_per_node);
}

MachineSize ParseOne(std::string_view text, std::string_view part,
                     const NodeSize& node) {
  MachineSize size;
  const std::size_t cross = text.find('x');
  if (cross != std::string_view::npos) {
    size.nodes = ParseCount(text.substr(0, cross), part);
    size.gpus_per_node = ParseCount(text.substr(cross + 1), part);
  } else {
    const int gpus = ParseCount(text, part);
    size.gpus_per_node = HostFor(gpus, node);
    size.nodes = gpus / size.gpus_per_node;
    if (size.gpus() != gpus) {
      throw InputError(
          fmt::format("{} GPUs do not fill nodes of {}: write NODESxGPUS; {}",
                      gpus, node.gpus, OtherSizes(gpus, node.gpus)));
    }
  }
  if (node.gpus_per_tray > 0 && size.gpus_per_node > node.gpus_per_tray &&
      size.gpus_per_node % node.gpus_per_tray != 0) {
    throw InputError(fmt::format(
        "'{}' does not fill trays of {} GPUs: write a multiple of {}", text,
        node.gpus_per_tray, node.gpus_per_tray));
  }
  if (size.nodes > kMostGpus / size.gpus_per_node) {
    throw InputError(fmt::format("'{}' is more than {} GPUs", text, kMostGpus));
  }
  if (size.nodes > 1 && size.gpus_per_node == node.gpus_per_tray) {
    const int host = HostFor(size.gpus(), node);  // trays of one rack or more
    return {size.gpus() / host, host};
  }
  return size;
}

// "8", "2x8" or "8..1024".
void AddSizes(std::string_view part, const NodeSize& node,
              std::vector<MachineSize>& sizes) {
  const std::size_t dots = part.find("..");
  const MachineSize first = ParseOne(part.substr(0, dots), part, node);
  sizes.push_back(first);
  if (dots == std::string_view::npos) {
    return;
  }
  const MachineSize last = ParseOne(part.substr(dots + 2), part, node);
  if (first.gpus() > last.gpus()) {
    throw InputError(fmt::format(
        "'{}' ends below its start: write the smaller size first", part));
  }
  const NodeSize host{std::max(first.gpus_per_node, last.gpus_per_node),
                      node.gpus_per_tray};
  for (int gpus = 2 * first.gpus(); gpus < last.gpus(); gpus *= 2) {
    sizes.push_back(ParseOne(std::to_string(gpus), part, host));
  }
  if (last.gpus() > first.gpus()) {
    sizes.push_back(ParseOne(std::to_string(last.gpus()), part, host));
  }
}

}  // namespace

std::vector<MachineSize> ParseMachineSizes(const std::string& text,
                                           const NodeSize& node) {
  std::vector<MachineSize> sizes;
  try {
    for (const std::string_view part : common::Split(text, ',')) {
      AddSizes(part, node, sizes);
    }
  } catch (const InputError& e) {
    throw InputError(fmt::format("--gpus {}: {}", text, e.what()));
  }
  return sizes;
}

std::string ToString(const MachineSize& size) {
  return size.nodes == 1 ? fmt::format("{} GPU{} (one node)", size.gpus(),
                                       size.gpus() == 1 ? "" : "s")
                         : fmt::format("{} GPUs ({} nodes of {})", size.gpus(),
                                       size.nodes, size.gpus_per_node);
}

namespace {

trials::UsualHost FindUsual(const std::string& name) {
  std::vector<std::string> known;
  std::vector<std::string> files;
  const std::string wanted = common::Lower(name);
  for (const trials::UsualHost& usual : trials::UsualHosts()) {
    if (common::Contains(usual.names, wanted)) {
      return usual;
    }
    known.insert(known.end(), usual.names.begin(), usual.names.end());
    files.push_back(usual.gpu);
  }
  if (wanted.starts_with("tpu")) {
    throw InputError(fmt::format("--gpu {}: TPUs are not supported; known: {}",
                                 name, fmt::join(files, ", ")));
  }
  // nvidia-smi prints names with spaces.
  const auto nearest = wanted.find(' ') == std::string::npos
                           ? std::nullopt
                           : trials::NearestHostOf(wanted);
  if (nearest && nearest->differs.empty()) {
    return nearest->host;
  }
  throw InputError(fmt::format(
      "--gpu {}: unknown GPU{}; known: {}; or describe it in a cluster file "
      "(--cluster)",
      name,
      nearest
          ? fmt::format(" (it is no {}: {} makes it another product)",
                        nearest->host.gpu, fmt::join(nearest->differs, ", "))
          : common::DidYouMean(wanted, known),
      fmt::join(files, ", ")));
}

}  // namespace

trials::Cluster FindMachine(const MachineOptions& options) {
  if (options.gpu.empty() && options.cluster.empty()) {
    throw InputError("give --gpu NAME, such as h100, or --cluster FILE");
  }
  const trials::UsualHost usual =
      options.gpu.empty() ? trials::UsualHost() : FindUsual(options.gpu);
  const std::string& name =
      options.cluster.empty() ? usual.cluster : options.cluster;
  trials::Cluster node =
      trials::ReadCluster(trials::FindDataFile("clusters", name));
  if (!usual.gpu.empty()) {
    node.gpu = trials::FindGpu(usual.gpu);
  }
  if (options.intra_gb_per_s > 0.0) {
    node.intra.bandwidth_bytes_per_s = options.intra_gb_per_s * common::kGiga;
    node.intra.name = "given link";
  }
  if (options.inter_gb_per_s > 0.0) {
    node.inter.bandwidth_bytes_per_s = options.inter_gb_per_s * common::kGiga;
    node.inter.name = "given network";
    constexpr double kUsualLatency = 1e-5;  // seconds
    if (node.inter.latency_s == 0.0) {
      node.inter.latency_s = kUsualLatency;
    }
  }
  return node;
}

trials::Cluster WithSize(trials::Cluster node, const MachineSize& size,
                         int nics_per_node) {
  try {
    node = trials::WithHosts(std::move(node), size.nodes, size.gpus_per_node);
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format(
        "{}; {}", e.what(),
        size.nodes > 1 && !(node.inter.bandwidth_bytes_per_s > 0.0)
            ? "write NODESxGPUS, or give the bandwidth of a network with "
              "--inter GB/s"
            : "write NODESxGPUS with so many GPUs of a node at most, or "
              "describe the node in a file (--cluster)"));
  }
  if (nics_per_node > 0) {
    node.nics_per_node = nics_per_node;
  }
  return node;
}

namespace {

constexpr double kLimitSeconds = 10.0;  // of nvidia-smi

// 0 for other text.
int AsCount(std::string_view text) {
  return common::ParseInt(text, 1, kMostGpus).value_or(0);
}

int RanksOf(const std::vector<std::string>& command) {
  for (const char* flag : {"--nproc-per-node", "--num_processes"}) {
    if (const auto value = trials::FlagValue(command, flag, true)) {
      return AsCount(*value);
    }
  }
  return 0;
}

double MemoryGib() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / common::kGibi;
}

}  // namespace

Machine ParseNvidiaSmi(const std::string& output) {
  Machine machine;
  machine.size.gpus_per_node = 0;
  for (const std::string_view line : common::Split(output, '\n')) {
    const std::size_t comma = line.rfind(',');
    if (comma == std::string_view::npos) {
      continue;
    }
    try {
      const double gib =
          common::ParseDouble(common::Trim(line.substr(comma + 1))) *
          common::kMebi / common::kGibi;
      machine.memory_gib = machine.size.gpus_per_node == 0
                               ? gib
                               : std::min(machine.memory_gib, gib);
      ++machine.size.gpus_per_node;
      machine.product = common::Trim(line.substr(0, comma));
      machine.source = "nvidia-smi: " + machine.product;
    } catch (const std::invalid_argument&) {
      continue;  // a message
    }
  }
  return machine;
}

Machine DetectMachine(const std::vector<std::string>& command, int ranks) {
  const common::CommandResult smi =
      common::RunCommand({"nvidia-smi", "--query-gpu=name,memory.total",
                          "--format=csv,noheader,nounits"},
                         common::CurrentEnvironment(), kLimitSeconds);
  Machine machine =
      ParseNvidiaSmi(smi.exit_code == 0 ? smi.output : std::string());
  const int launched = RanksOf(command);
  if (machine.size.gpus_per_node == 0) {
    machine.size.gpus_per_node = std::max(1, launched > 0 ? launched : ranks);
    machine.memory_gib = MemoryGib() / machine.size.gpus_per_node;
    machine.source = "CPU";
  } else if (launched > 0) {
    machine.size.gpus_per_node = std::min(launched, machine.size.gpus_per_node);
  }
  if (const char* nodes = std::getenv("SLURM_JOB_NUM_NODES")) {
    machine.size.nodes = std::max(1, AsCount(nodes));
    machine.source += ", Slurm";
  }
  return machine;
}

std::optional<Likeness> LikenessOf(const Machine& machine) {
  const auto usual = trials::NearestHostOf(machine.product);
  const bool cpu = machine.product.empty();
  std::vector<Likeness> choices;
  constexpr const char* kInPlace = "; in place of this machine";
  if (usual) {
    choices.push_back(
        {usual->host.cluster, usual->differs.empty() ? "" : kInPlace});
  } else if (cpu) {
    choices.push_back({"cpu-2", ""});
  }
  if (!cpu) {
    choices.push_back({"a100-selene", kInPlace});
  }
  for (const Likeness& choice : choices) {
    try {
      (void)WithSize(FindMachine({.gpu = "", .cluster = choice.cluster}),
                     machine.size);
      return choice;
    } catch (const InputError&) {
      continue;  // it cannot have this size
    }
  }
  return std::nullopt;
}

}  // namespace jobs
