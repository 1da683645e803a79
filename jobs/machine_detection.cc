#include "jobs/machine_detection.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "common/process.h"
#include "common/text.h"
#include "trials/programs/command_words.h"

namespace jobs {
namespace {

constexpr double kKibi = 1024.0;
constexpr double kLimitSeconds = 10.0;  // of nvidia-smi

int AsCount(const std::string& text) {
  try {
    const double value = common::ParseDouble(text);
    return value >= 1.0 && value <= 65536.0 ? static_cast<int>(value) : 0;
  } catch (const std::invalid_argument&) {
    return 0;
  }
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
  const auto bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  return bytes / (kKibi * kKibi * kKibi);
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
          common::ParseDouble(common::Trim(line.substr(comma + 1))) / kKibi;
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
                         common::CurrentEnvironment(), {}, kLimitSeconds);
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

}  // namespace jobs
