#include "trials/simulator/framework.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trials/data_folder.h"
#include "trials/toml_table.h"

namespace trials {
namespace {

constexpr std::array kFlags = {
    std::pair{"flash_attention", &Framework::flash_attention},
    std::pair{"fused_operators", &Framework::fused_operators},
    std::pair{"fp32_gradients", &Framework::fp32_gradients},
    std::pair{"fsdp", &Framework::fsdp},
};

constexpr std::array kNumbers = {
    std::pair{"launch_s", &Framework::launch_s},
    std::pair{"dispatch_s", &Framework::dispatch_s},
    std::pair{"dispatch_backward_s", &Framework::dispatch_backward_s},
    std::pair{"step_overhead_s", &Framework::step_overhead_s},
    std::pair{"microbatch_overhead_s", &Framework::microbatch_overhead_s},
    std::pair{"p2p_overhead_s", &Framework::p2p_overhead_s},
    std::pair{"bucket_overhead_s", &Framework::bucket_overhead_s},
    std::pair{"step_kernels", &Framework::step_kernels},
    std::pair{"zero_step_kernels", &Framework::zero_step_kernels},
    std::pair{"overlap_slowdown", &Framework::overlap_slowdown},
    std::pair{"expert_imbalance", &Framework::expert_imbalance},
    std::pair{"context_bytes", &Framework::context_bytes},
    std::pair{"nccl_group_bytes", &Framework::nccl_group_bytes},
    std::pair{"fragmentation", &Framework::fragmentation},
    std::pair{"loss_bytes_per_logit", &Framework::loss_bytes_per_logit},
    std::pair{"launch_process_s", &Framework::launch_process_s},
    std::pair{"launch_per_local_rank_s", &Framework::launch_per_local_rank_s},
    std::pair{"group_init_s", &Framework::group_init_s},
    std::pair{"group_init_per_rank_s", &Framework::group_init_per_rank_s},
    std::pair{"weights_bytes_per_s", &Framework::weights_bytes_per_s},
    std::pair{"teardown_s", &Framework::teardown_s},
    std::pair{"failure_s", &Framework::failure_s},
};

}  // namespace

Framework ReadFramework(const std::filesystem::path& path) {
  const TomlTable table = TomlTable::ParseFile(path);
  Framework framework;
  for (const auto& [key, field] : kFlags) {
    framework.*field = table.GetBool(key, framework.*field);
  }
  for (const auto& [key, field] : kNumbers) {
    framework.*field = table.GetDouble(key, framework.*field);
    if (!(framework.*field >= 0.0)) {
      table.Fail(key,
                 fmt::format("{} is {}: must be 0 or more; take it away for "
                             "the default",
                             key,
                             framework.*field));
    }
  }
  table.RejectUnknownKeys();
  return framework;
}

Framework FindFramework(const std::string& name) {
  return ReadFramework(FindDataFile("frameworks", name));
}

}  // namespace trials
