#include "trials/simulator/framework.h"

#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr int kMostRanks = 1'000'000;

void ReadField(const common::TomlTable& table, const FrameworkField& field) {
  std::visit(
      [&](auto* value) {
        using Type = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, bool>) {
          *value = table.GetBool(field.key, *value);
        } else if constexpr (std::is_same_v<Type, int>) {
          *value = table.GetIntIn(field.key, *value, 0, kMostRanks);
        } else if (field.positive) {
          *value = table.GetPositive(field.key, *value);
        } else {
          *value = table.GetDouble(field.key, *value);
          if (!(*value >= 0.0)) {
            table.Fail(field.key,
                       fmt::format("{} is {}: must be 0 or more; remove it for "
                                   "the default",
                                   field.key, *value));
          }
        }
      },
      field.value);
}

}  // namespace

std::vector<FrameworkField> FieldsOf(Framework& framework) {
  return {
      {"flash_attention", &framework.kernels.flash_attention},
      {"fused_operators", &framework.kernels.fused_operators},
      {"fused_gate", &framework.kernels.fused_gate},
      {"fused_cross_entropy", &framework.kernels.fused_cross_entropy},
      {"launch_s", &framework.kernels.launch_s},
      {"attention_forward_speed", &framework.kernels.attention_forward_speed,
       /*positive=*/true},
      {"attention_backward_speed", &framework.kernels.attention_backward_speed,
       /*positive=*/true},
      {"score_forward_bytes", &framework.kernels.score_forward_bytes},
      {"score_backward_bytes", &framework.kernels.score_backward_bytes},
      {"loss_forward_bytes", &framework.kernels.loss_forward_bytes},
      {"loss_backward_bytes", &framework.kernels.loss_backward_bytes},
      {"loss_bytes_per_logit", &framework.kernels.loss_bytes_per_logit},
      {"expert_imbalance", &framework.kernels.expert_imbalance},
      {"recompute_core", &framework.recomputation.recompute_core},
      {"recompute_activation", &framework.recomputation.recompute_activation},
      {"recompute_norms", &framework.recomputation.recompute_norms},
      {"recompute_latent", &framework.recomputation.recompute_latent},
      {"selective_by_operator", &framework.recomputation.selective_by_operator},
      {"fp32_gradients", &framework.gradients.fp32_gradients},
      {"gradients_apart", &framework.gradients.gradients_apart},
      {"bf16_sums", &framework.gradients.bf16_sums},
      {"placeholder_gradients", &framework.gradients.placeholder_gradients},
      {"flat_gradients", &framework.gradients.flat_gradients},
      {"reduce_in_backward", &framework.gradients.reduce_in_backward},
      {"reduce_in_pipeline", &framework.gradients.reduce_in_pipeline},
      {"scatter_gradients", &framework.gradients.scatter_gradients},
      {"bucket_overhead_s", &framework.gradients.bucket_overhead_s},
      {"bucket_pack_bytes", &framework.gradients.bucket_pack_bytes},
      {"bucket_unpack_bytes", &framework.gradients.bucket_unpack_bytes},
      {"overlap_bucket_s", &framework.gradients.overlap_bucket_s},
      {"fsdp", &framework.sharding.fsdp},
      {"shard_within_host", &framework.sharding.shard_within_host},
      {"no_sync", &framework.sharding.no_sync},
      {"broadcast_parameters", &framework.sharding.broadcast_parameters},
      {"gather_by_tensor", &framework.sharding.gather_by_tensor},
      {"zero_group_ranks", &framework.sharding.zero_group_ranks},
      {"zero_bucket_bytes", &framework.sharding.zero_bucket_bytes},
      {"gather_unpack_bytes", &framework.sharding.gather_unpack_bytes},
      {"reduce_buffer_elements", &framework.sharding.reduce_buffer_elements},
      {"gather_buffer_elements", &framework.sharding.gather_buffer_elements},
      {"tp_overlap", &framework.collectives.tp_overlap},
      {"gather_again", &framework.collectives.gather_again},
      {"message_dispatch_s", &framework.collectives.message_dispatch_s},
      {"message_host_dispatch_s",
       &framework.collectives.message_host_dispatch_s},
      {"network_contention", &framework.collectives.network_contention},
      {"overlap_slowdown", &framework.collectives.overlap_slowdown},
      {"pipeline_outermost", &framework.pipeline.pipeline_outermost},
      {"balance_stages", &framework.pipeline.balance_stages},
      {"keep_outputs", &framework.pipeline.keep_outputs},
      {"full_pipeline", &framework.pipeline.full_pipeline},
      {"zero_bubble", &framework.pipeline.zero_bubble},
      {"receives_occupy_gpu", &framework.pipeline.receives_occupy_gpu},
      {"p2p_overhead_s", &framework.pipeline.p2p_overhead_s},
      {"p2p_stall_s", &framework.pipeline.p2p_stall_s},
      {"p2p_stall_hosts", &framework.pipeline.p2p_stall_hosts},
      {"dispatch_s", &framework.dispatch.dispatch_s},
      {"dispatch_backward_s", &framework.dispatch.dispatch_backward_s},
      {"block_dispatch_s", &framework.dispatch.block_dispatch_s},
      {"block_backward_dispatch_s",
       &framework.dispatch.block_backward_dispatch_s},
      {"dispatch_norm", &framework.dispatch.dispatch_norm},
      {"step_overhead_s", &framework.dispatch.step_overhead_s},
      {"microbatch_overhead_s", &framework.dispatch.microbatch_overhead_s},
      {"loss_overhead_s", &framework.dispatch.loss_overhead_s},
      {"offload_optimizer", &framework.optimizer.offload_optimizer},
      {"host_bytes_per_s", &framework.optimizer.host_bytes_per_s},
      {"host_optimizer_elements_per_s",
       &framework.optimizer.host_optimizer_elements_per_s},
      {"step_kernels", &framework.optimizer.step_kernels},
      {"zero_step_kernels", &framework.optimizer.zero_step_kernels},
      {"optimizer_bytes", &framework.optimizer.optimizer_bytes},
      {"context_bytes", &framework.allocator.context_bytes},
      {"nccl_group_bytes", &framework.allocator.nccl_group_bytes},
      {"workspace_bytes", &framework.allocator.workspace_bytes},
      {"pending_messages", &framework.allocator.pending_messages},
      {"pending_messages_unpiped",
       &framework.allocator.pending_messages_unpiped},
      {"fragmentation", &framework.allocator.fragmentation},
      {"usable_memory", &framework.allocator.usable_memory},
      {"allocator_pressure", &framework.allocator.allocator_pressure},
      {"allocator_retry_s", &framework.allocator.allocator_retry_s},
      {"memory_log_stddev", &framework.allocator.memory_log_stddev},
      {"launch_process_s", &framework.launch.launch_process_s},
      {"launch_per_local_rank_s", &framework.launch.launch_per_local_rank_s},
      {"group_init_s", &framework.launch.group_init_s},
      {"group_init_per_rank_s", &framework.launch.group_init_per_rank_s},
      {"weights_bytes_per_s", &framework.launch.weights_bytes_per_s},
      {"setup_factor", &framework.launch.setup_factor},
      {"teardown_s", &framework.launch.teardown_s},
      {"failure_s", &framework.launch.failure_s},
  };
}

bool HasSameSteps(Framework a, const Framework& b) {
  a.launch = b.launch;
  return a == b;
}

FrameworkNotes ReadFrameworkNotes(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  return {table.GetStrings("rules"), table.GetStrings("compared_with")};
}

Framework ReadFramework(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  (void)table.GetStrings("rules");  // see ReadFrameworkNotes
  (void)table.GetStrings("compared_with");
  Framework framework;
  for (const FrameworkField& field : FieldsOf(framework)) {
    ReadField(table, field);
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
  return framework;
}

Framework ForPrecision(Framework framework, Precision precision) {
  if (framework.gradients.bf16_sums && precision != Precision::kFp16 &&
      precision != Precision::kFp32) {
    framework.gradients.fp32_gradients = true;
    framework.gradients.gradients_apart = true;
  }
  return framework;
}

Framework FindFramework(const std::string& name) {
  return ReadFramework(FindDataFile("frameworks", name));
}

}  // namespace trials
