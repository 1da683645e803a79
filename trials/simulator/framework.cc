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
    std::pair{"pipeline_outermost", &Framework::pipeline_outermost},
    std::pair{"reduce_in_backward", &Framework::reduce_in_backward},
    std::pair{"gather_again", &Framework::gather_again},
    std::pair{"flat_gather", &Framework::flat_gather},
    std::pair{"balance_stages", &Framework::balance_stages},
};

constexpr std::array kNumbers = {
    std::pair{"launch_s", &Framework::launch_s},
    std::pair{"dispatch_s", &Framework::dispatch_s},
    std::pair{"dispatch_backward_s", &Framework::dispatch_backward_s},
    std::pair{"block_dispatch_s", &Framework::block_dispatch_s},
    std::pair{"block_backward_dispatch_s",
              &Framework::block_backward_dispatch_s},
    std::pair{"message_dispatch_s", &Framework::message_dispatch_s},
    std::pair{"message_host_dispatch_s", &Framework::message_host_dispatch_s},
    std::pair{"network_contention", &Framework::network_contention},
    std::pair{"dispatch_norm", &Framework::dispatch_norm},
    std::pair{"score_forward_bytes", &Framework::score_forward_bytes},
    std::pair{"score_backward_bytes", &Framework::score_backward_bytes},
    std::pair{"optimizer_bytes", &Framework::optimizer_bytes},
    std::pair{"loss_forward_bytes", &Framework::loss_forward_bytes},
    std::pair{"loss_backward_bytes", &Framework::loss_backward_bytes},
    std::pair{"step_overhead_s", &Framework::step_overhead_s},
    std::pair{"microbatch_overhead_s", &Framework::microbatch_overhead_s},
    std::pair{"loss_overhead_s", &Framework::loss_overhead_s},
    std::pair{"p2p_overhead_s", &Framework::p2p_overhead_s},
    std::pair{"bucket_overhead_s", &Framework::bucket_overhead_s},
    std::pair{"step_kernels", &Framework::step_kernels},
    std::pair{"zero_step_kernels", &Framework::zero_step_kernels},
    std::pair{"overlap_slowdown", &Framework::overlap_slowdown},
    std::pair{"expert_imbalance", &Framework::expert_imbalance},
    std::pair{"context_bytes", &Framework::context_bytes},
    std::pair{"nccl_group_bytes", &Framework::nccl_group_bytes},
    std::pair{"fragmentation", &Framework::fragmentation},
    std::pair{"allocator_pressure", &Framework::allocator_pressure},
    std::pair{"allocator_retry_s", &Framework::allocator_retry_s},
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
