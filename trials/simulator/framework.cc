#include "trials/simulator/framework.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "common/text.h"
#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr bool kAbove0 = true;  // FrameworkField::positive

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

std::vector<FrameworkField> FieldsOf(Framework::Launch& launch) {
  return {
      {"launch_process_s", &launch.launch_process_s},
      {"launch_per_local_rank_s", &launch.launch_per_local_rank_s},
      {"group_init_s", &launch.group_init_s},
      {"group_init_per_rank_s", &launch.group_init_per_rank_s},
      {"weights_bytes_per_s", &launch.weights_bytes_per_s},
      {"setup_factor", &launch.setup_factor},
      {"teardown_s", &launch.teardown_s},
      {"failure_s", &launch.failure_s},
  };
}

}  // namespace

std::vector<FrameworkField> FieldsOf(Framework& framework) {
  auto& [kernels, experts, recomputation, gradients, sharding, collectives,
         pipeline, dispatch, optimizer, allocator, launch, kind] = framework;
  std::vector<FrameworkField> fields = {
      {"flash_attention", &kernels.flash_attention},
      {"cudnn_attention", &kernels.cudnn_attention},
      {"fused_operators", &kernels.fused_operators},
      {"fused_gate", &kernels.fused_gate},
      {"fused_norm", &kernels.fused_norm},
      {"fused_cross_entropy", &kernels.fused_cross_entropy},
      {"repeat_kv", &kernels.repeat_kv},
      {"launch_s", &kernels.launch_s},
      {"gemm_speed", &kernels.gemm_speed, kAbove0},
      {"attention_forward_speed", &kernels.attention_forward_speed, kAbove0},
      {"attention_backward_speed", &kernels.attention_backward_speed, kAbove0},
      {"merge_forward_bytes", &kernels.merge_forward_bytes},
      {"merge_backward_bytes", &kernels.merge_backward_bytes},
      {"score_forward_bytes", &kernels.score_forward_bytes},
      {"score_backward_bytes", &kernels.score_backward_bytes},
      {"loss_forward_bytes", &kernels.loss_forward_bytes},
      {"loss_backward_bytes", &kernels.loss_backward_bytes},
      {"loss_bytes_per_logit", &kernels.loss_bytes_per_logit},
      {"whole_experts", &experts.whole_experts},
      {"expert_imbalance", &experts.expert_imbalance, kAbove0},
      {"expert_overlap", &experts.expert_overlap},
      {"token_once_per_host", &experts.token_once_per_host},
      {"recompute_core", &recomputation.recompute_core},
      {"recompute_activation", &recomputation.recompute_activation},
      {"recompute_norms", &recomputation.recompute_norms},
      {"recompute_latent", &recomputation.recompute_latent},
      {"selective_by_operator", &recomputation.selective_by_operator},
      {"recompute_stops_early", &recomputation.recompute_stops_early},
      {"fp32_gradients", &gradients.fp32_gradients},
      {"gradients_apart", &gradients.gradients_apart},
      {"bf16_sums", &gradients.bf16_sums},
      {"placeholder_gradients", &gradients.placeholder_gradients},
      {"flat_gradients", &gradients.flat_gradients},
      {"reduce_in_backward", &gradients.reduce_in_backward},
      {"reduce_in_pipeline", &gradients.reduce_in_pipeline},
      {"scatter_gradients", &gradients.scatter_gradients},
      {"bucket_overhead_s", &gradients.bucket_overhead_s},
      {"bucket_pack_bytes", &gradients.bucket_pack_bytes},
      {"bucket_unpack_bytes", &gradients.bucket_unpack_bytes},
      {"overlap_bucket_s", &gradients.overlap_bucket_s},
      {"fsdp", &sharding.fsdp},
      {"shard_within_host", &sharding.shard_within_host},
      {"no_sync", &sharding.no_sync},
      {"broadcast_parameters", &sharding.broadcast_parameters},
      {"gather_by_tensor", &sharding.gather_by_tensor},
      {"zero_group_ranks", &sharding.zero_group_ranks},
      {"zero_bucket_bytes", &sharding.zero_bucket_bytes},
      {"gather_unpack_bytes", &sharding.gather_unpack_bytes},
      {"reduce_buffer_elements", &sharding.reduce_buffer_elements},
      {"gather_buffer_elements", &sharding.gather_buffer_elements},
      {"tp_overlap", &collectives.tp_overlap},
      {"gather_again", &collectives.gather_again},
      {"ring_overlap", &collectives.ring_overlap},
      {"fp8_gathers", &collectives.fp8_gathers},
      {"collective_copy_bytes", &collectives.collective_copy_bytes},
      {"message_dispatch_s", &collectives.message_dispatch_s},
      {"message_host_s", &collectives.message_host_s},
      {"network_contention", &collectives.network_contention},
      {"overlap_slowdown", &collectives.overlap_slowdown},
      {"pipeline_outermost", &pipeline.pipeline_outermost},
      {"ends_as_layers", &pipeline.ends_as_layers},
      {"balance_stages", &pipeline.balance_stages},
      {"keep_outputs", &pipeline.keep_outputs},
      {"full_pipeline", &pipeline.full_pipeline},
      {"zero_bubble", &pipeline.zero_bubble},
      {"receives_occupy_gpu", &pipeline.receives_occupy_gpu},
      {"p2p_overhead_s", &pipeline.p2p_overhead_s},
      {"dispatch_s", &dispatch.dispatch_s},
      {"dispatch_backward_s", &dispatch.dispatch_backward_s},
      {"block_dispatch_s", &dispatch.block_dispatch_s},
      {"block_backward_dispatch_s", &dispatch.block_backward_dispatch_s},
      {"expert_dispatch_s", &dispatch.expert_dispatch_s},
      {"latent_dispatch_s", &dispatch.latent_dispatch_s},
      {"dispatch_norm", &dispatch.dispatch_norm},
      {"step_overhead_s", &dispatch.step_overhead_s},
      {"microbatch_overhead_s", &dispatch.microbatch_overhead_s},
      {"loss_overhead_s", &dispatch.loss_overhead_s},
      {"offload_optimizer", &optimizer.offload_optimizer},
      {"host_bytes_per_s", &optimizer.host_bytes_per_s},
      {"host_optimizer_elements_per_s",
       &optimizer.host_optimizer_elements_per_s},
      {"step_kernels", &optimizer.step_kernels},
      {"zero_step_kernels", &optimizer.zero_step_kernels},
      {"optimizer_bytes", &optimizer.optimizer_bytes},
      {"optimizer_state_bytes", &optimizer.optimizer_state_bytes, kAbove0},
      {"parameter_bytes", &optimizer.parameter_bytes},
      {"context_bytes", &allocator.context_bytes},
      {"nccl_group_bytes", &allocator.nccl_group_bytes},
      {"nccl_channel_bytes", &allocator.nccl_channel_bytes},
      {"workspace_bytes", &allocator.workspace_bytes},
      {"pending_messages", &allocator.pending_messages},
      {"pending_messages_unpiped", &allocator.pending_messages_unpiped},
      {"fragmentation", &allocator.fragmentation},
      {"usable_memory", &allocator.usable_memory},
      {"allocator_pressure", &allocator.allocator_pressure},
      {"allocator_retry_s", &allocator.allocator_retry_s},
      {"allocator_remap_s", &allocator.allocator_remap_s},
      {"memory_log_stddev", &allocator.memory_log_stddev},
  };
  for (const FrameworkField& field : FieldsOf(launch)) {
    fields.push_back(field);
  }
  return fields;
}

const std::vector<std::string>& CodeKinds() {
  static const std::vector<std::string> kinds = {"tuned", "ordinary",
                                                 "CPU-bound"};
  return kinds;
}

bool operator==(Framework a, Framework b) {
  return std::ranges::equal(
      FieldsOf(a), FieldsOf(b),
      [](const FrameworkField& x, const FrameworkField& y) {
        return std::visit(
            [&y](auto* value) {
              return *value == *std::get<decltype(value)>(y.value);
            },
            x.value);
      });
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
  ChangeFramework(table, framework);
  return framework;
}

void ChangeFramework(const common::TomlTable& table, Framework& framework) {
  for (const FrameworkField& field : FieldsOf(framework)) {
    ReadField(table, field);
  }
  framework.kind = table.GetString("kind", framework.kind);
  try {
    common::RequireKnown(framework.kind, CodeKinds(), "kind of code");
  } catch (const common::InputError& e) {
    table.Fail("kind", e.what());
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
