#include "trials/simulator/framework.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr auto kFlags = std::to_array<FrameworkFlag>({
    {"flash_attention", &Framework::flash_attention},
    {"fused_operators", &Framework::fused_operators},
    {"fused_gate", &Framework::fused_gate},
    {"fp32_gradients", &Framework::fp32_gradients},
    {"gradients_apart", &Framework::gradients_apart},
    {"fsdp", &Framework::fsdp},
    {"shard_within_host", &Framework::shard_within_host},
    {"pipeline_outermost", &Framework::pipeline_outermost},
    {"reduce_in_backward", &Framework::reduce_in_backward},
    {"gather_again", &Framework::gather_again},
    {"keep_outputs", &Framework::keep_outputs},
    {"full_pipeline", &Framework::full_pipeline},
    {"balance_stages", &Framework::balance_stages},
});

constexpr auto kNumbers = std::to_array<FrameworkNumber>({
    {"launch_s", &Framework::launch_s},
    {"dispatch_s", &Framework::dispatch_s},
    {"dispatch_backward_s", &Framework::dispatch_backward_s},
    {"block_dispatch_s", &Framework::block_dispatch_s},
    {"block_backward_dispatch_s", &Framework::block_backward_dispatch_s},
    {"message_dispatch_s", &Framework::message_dispatch_s},
    {"message_host_dispatch_s", &Framework::message_host_dispatch_s},
    {"network_contention", &Framework::network_contention},
    {"dispatch_norm", &Framework::dispatch_norm},
    {"score_forward_bytes", &Framework::score_forward_bytes},
    {"score_backward_bytes", &Framework::score_backward_bytes},
    {"optimizer_bytes", &Framework::optimizer_bytes},
    {"loss_forward_bytes", &Framework::loss_forward_bytes},
    {"loss_backward_bytes", &Framework::loss_backward_bytes},
    {"step_overhead_s", &Framework::step_overhead_s},
    {"microbatch_overhead_s", &Framework::microbatch_overhead_s},
    {"loss_overhead_s", &Framework::loss_overhead_s},
    {"p2p_overhead_s", &Framework::p2p_overhead_s},
    {"bucket_overhead_s", &Framework::bucket_overhead_s},
    {"step_kernels", &Framework::step_kernels},
    {"zero_step_kernels", &Framework::zero_step_kernels},
    {"overlap_slowdown", &Framework::overlap_slowdown},
    {"expert_imbalance", &Framework::expert_imbalance},
    {"context_bytes", &Framework::context_bytes},
    {"nccl_group_bytes", &Framework::nccl_group_bytes},
    {"workspace_bytes", &Framework::workspace_bytes},
    {"pending_messages", &Framework::pending_messages},
    {"pending_messages_unpiped", &Framework::pending_messages_unpiped},
    {"fragmentation", &Framework::fragmentation},
    {"usable_memory", &Framework::usable_memory},
    {"allocator_pressure", &Framework::allocator_pressure},
    {"allocator_retry_s", &Framework::allocator_retry_s},
    {"loss_bytes_per_logit", &Framework::loss_bytes_per_logit},
    {"launch_process_s", &Framework::launch_process_s},
    {"launch_per_local_rank_s", &Framework::launch_per_local_rank_s},
    {"group_init_s", &Framework::group_init_s},
    {"group_init_per_rank_s", &Framework::group_init_per_rank_s},
    {"weights_bytes_per_s", &Framework::weights_bytes_per_s},
    {"setup_factor", &Framework::setup_factor},
    {"teardown_s", &Framework::teardown_s},
    {"failure_s", &Framework::failure_s},
});

}  // namespace

bool HasSameSteps(const Framework& a, const Framework& b) {
  Framework same = a;
  for (double Framework::*cost : {&Framework::launch_process_s,
                                  &Framework::launch_per_local_rank_s,
                                  &Framework::group_init_s,
                                  &Framework::group_init_per_rank_s,
                                  &Framework::weights_bytes_per_s,
                                  &Framework::setup_factor,
                                  &Framework::teardown_s,
                                  &Framework::failure_s}) {
    same.*cost = b.*cost;
  }
  return same == b;
}

Framework ReadFramework(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
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
  if (framework.shard_within_host && !framework.fsdp) {
    table.Fail("shard_within_host",
               "shard_within_host is a way of FSDP: it needs fsdp = true");
  }
  table.RejectUnknownKeys();
  return framework;
}

std::span<const FrameworkFlag> FrameworkFlags() { return kFlags; }

std::span<const FrameworkNumber> FrameworkNumbers() { return kNumbers; }

Framework FindFramework(const std::string& name) {
  return ReadFramework(FindDataFile("frameworks", name));
}

}  // namespace trials
