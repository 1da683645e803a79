#include "trials/simulator/framework.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr const char* kFolder = "frameworks";
constexpr const char* kLike = "like";

// Reads constants from a table. One that the table does not have keeps its
// value.
struct Reader {
  const common::TomlTable& table;

  void operator()(std::string_view key, bool& value) const {
    value = table.GetBool(key, value);
  }
  void operator()(std::string_view key, int& value) const {
    value = table.GetIntIn(key, value, 0, kMostRanks);
  }
  void operator()(std::string_view key, double& value,
                  bool above_0 = false) const {
    if (above_0) {
      value = table.GetPositive(key, value);
      return;
    }
    value = table.GetDouble(key, value);
    if (!(value >= 0.0)) {
      table.Fail(key, fmt::format("{} is {}: must be 0 or more; remove it for "
                                  "the default",
                                  key, value));
    }
  }
};

}  // namespace

const std::vector<std::string>& CodeKinds() {
  static const std::vector<std::string> kinds = {"tuned", "ordinary",
                                                 "CPU-bound"};
  return kinds;
}

bool HasSameSteps(Framework a, const Framework& b) {
  a.launch = b.launch;
  a.kind = b.kind;
  a.release = b.release;
  a.rule_sets = b.rule_sets;
  a.compared_with = b.compared_with;
  return a == b;
}

std::string ChangeAttention(Framework& framework) {
  bool& fused = framework.kernels.flash_attention;
  fused = !fused;
  return fused ? "fused attention" : "attention that stores its scores";
}

Framework ReadFramework(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  Framework framework;
  if (table.Has(kLike)) {
    framework = ReadFramework(FindDataFile(kFolder, table, kLike));
  }
  for (const auto& [key, list] :
       {std::pair{"rules", &framework.rule_sets},
        std::pair{"compared_with", &framework.compared_with}}) {
    if (table.Has(key)) {
      *list = table.GetStrings(key);
    }
  }
  ChangeFramework(table, framework);
  return framework;
}

std::vector<std::filesystem::path> FrameworkFiles(
    const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = {path};
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  if (table.Has(kLike)) {
    for (std::filesystem::path& file :
         FrameworkFiles(FindDataFile(kFolder, table, kLike))) {
      files.push_back(std::move(file));
    }
  }
  return files;
}

std::string WithoutRelease(const std::string& name) {
  return name.substr(0, name.find('@'));
}

std::vector<std::string> OtherReleases(const std::string& name) {
  std::vector<std::string> others = DataFileNames(kFolder);
  std::erase_if(others, [&](const std::string& other) {
    return other == name || WithoutRelease(other) != WithoutRelease(name);
  });
  return others;
}

void ChangeFramework(const common::TomlTable& table, Framework& framework) {
  VisitFields(framework, Reader{table});
  framework.kind = table.GetString("kind", framework.kind);
  framework.release = table.GetString("release", framework.release);
  try {
    common::RequireKnown(framework.kind, CodeKinds(), "kind of code");
  } catch (const common::InputError& e) {
    table.Fail("kind", e.what());
  }
  if (framework.experts.expert_imbalance < 1.0) {
    table.Fail(
        "expert_imbalance",
        "expert_imbalance is below 1: it is the load of the busiest rank "
        "over the mean; 1 is forced balance");
  }
  for (const auto& [key, on] :
       {std::pair{"shard_within_host", framework.sharding.shard_within_host},
        std::pair{"no_sync", framework.sharding.no_sync}}) {
    if (on && !framework.sharding.fsdp) {
      table.Fail(key,
                 fmt::format("{} is a way of FSDP: it needs fsdp = true", key));
    }
  }
  table.RejectUnknownKeys();
}

bool StoresScores(const Framework& framework, Precision precision,
                  const Gpu& gpu) {
  const Framework::Kernels& kernels = framework.kernels;
  return !kernels.flash_attention ||
         (kernels.cudnn_attention &&
          (precision == Precision::kFp32 || gpu.no_bf16));
}

Framework ForWorkload(Framework framework, const Workload& workload,
                      const Gpu& gpu) {
  const Precision precision = workload.precision;
  if (StoresScores(framework, precision, gpu)) {
    framework.kernels.flash_attention = false;
    framework.kernels.cudnn_attention = false;
  }
  const bool sums = framework.gradients.bf16_sums &&
                    precision != Precision::kFp16 &&
                    precision != Precision::kFp32;
  const bool asked =
      workload.training.fp32_gradients && !framework.gradients.fp32_gradients;
  if (sums || asked) {
    framework.gradients.fp32_gradients = true;
    framework.gradients.gradients_apart = true;
  }
  return framework;
}

Framework ForConfig(Framework framework, const ParallelConfig& config) {
  if (config.dp_replicate > 1) {
    framework.sharding.shard_within_host = false;
    framework.sharding.zero_group_ranks =
        config.dp * config.cp / config.dp_replicate;
  }
  if (config.etp > 0) {
    framework.experts.whole_experts = config.etp == 1;
  }
  if (config.torch_compile != kCompileAsUsual) {
    const bool compiled = config.torch_compile == kCompiled;
    framework.kernels.fused_operators = compiled;
    framework.kernels.fused_gate = compiled;
  }
  return framework;
}

ParallelConfig FrameworkKnobs(const ParallelConfig& config) {
  ParallelConfig knobs;
  if (config.dp_replicate > 1) {
    knobs.dp_replicate = 2;  // the ranks of a copy are what counts
    knobs.dp = 2 * (config.dp * config.cp / config.dp_replicate);
  }
  knobs.etp = config.etp;
  knobs.torch_compile = config.torch_compile;
  return knobs;
}

Framework FindFramework(const std::string& name) {
  return ReadFramework(FindDataFile(kFolder, name));
}

}  // namespace trials
