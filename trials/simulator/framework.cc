#include "trials/simulator/framework.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr auto kFlags = std::to_array<FrameworkFlag>({
    {"flash_attention", &Framework::flash_attention},
    {"recompute_core", &Framework::recompute_core},
    {"recompute_activation", &Framework::recompute_activation},
    {"recompute_norms", &Framework::recompute_norms},
    {"recompute_latent", &Framework::recompute_latent},
    {"fused_operators", &Framework::fused_operators},
    {"fused_gate", &Framework::fused_gate},
    {"fp32_gradients", &Framework::fp32_gradients},
    {"gradients_apart", &Framework::gradients_apart},
    {"bf16_sums", &Framework::bf16_sums},
    {"placeholder_gradients", &Framework::placeholder_gradients},
    {"flat_gradients", &Framework::flat_gradients},
    {"fused_cross_entropy", &Framework::fused_cross_entropy},
    {"fsdp", &Framework::fsdp},
    {"shard_within_host", &Framework::shard_within_host},
    {"no_sync", &Framework::no_sync},
    {"broadcast_parameters", &Framework::broadcast_parameters},
    {"tp_overlap", &Framework::tp_overlap},
    {"pipeline_outermost", &Framework::pipeline_outermost},
    {"reduce_in_backward", &Framework::reduce_in_backward},
    {"reduce_in_pipeline", &Framework::reduce_in_pipeline},
    {"scatter_gradients", &Framework::scatter_gradients},
    {"gather_by_tensor", &Framework::gather_by_tensor},
    {"gather_again", &Framework::gather_again},
    {"keep_outputs", &Framework::keep_outputs},
    {"full_pipeline", &Framework::full_pipeline},
    {"balance_stages", &Framework::balance_stages},
    {"selective_by_operator", &Framework::selective_by_operator},
    {"zero_bubble", &Framework::zero_bubble},
    {"offload_optimizer", &Framework::offload_optimizer},
    {"receives_occupy_gpu", &Framework::receives_occupy_gpu},
});

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
    std::pair{"attention_forward_speed", &Framework::attention_forward_speed},
    std::pair{"attention_backward_speed", &Framework::attention_backward_speed},
    std::pair{"optimizer_bytes", &Framework::optimizer_bytes},
    std::pair{"loss_forward_bytes", &Framework::loss_forward_bytes},
    std::pair{"loss_backward_bytes", &Framework::loss_backward_bytes},
    std::pair{"step_overhead_s", &Framework::step_overhead_s},
    std::pair{"microbatch_overhead_s", &Framework::microbatch_overhead_s},
    std::pair{"loss_overhead_s", &Framework::loss_overhead_s},
    std::pair{"p2p_overhead_s", &Framework::p2p_overhead_s},
    std::pair{"p2p_stall_s", &Framework::p2p_stall_s},
    std::pair{"p2p_stall_hosts", &Framework::p2p_stall_hosts},
    std::pair{"bucket_overhead_s", &Framework::bucket_overhead_s},
    std::pair{"zero_bucket_bytes", &Framework::zero_bucket_bytes},
    std::pair{"step_kernels", &Framework::step_kernels},
    std::pair{"zero_step_kernels", &Framework::zero_step_kernels},
    std::pair{"host_bytes_per_s", &Framework::host_bytes_per_s},
    std::pair{"host_optimizer_elements_per_s",
              &Framework::host_optimizer_elements_per_s},
    std::pair{"overlap_slowdown", &Framework::overlap_slowdown},
    std::pair{"bucket_pack_bytes", &Framework::bucket_pack_bytes},
    std::pair{"bucket_unpack_bytes", &Framework::bucket_unpack_bytes},
    std::pair{"gather_unpack_bytes", &Framework::gather_unpack_bytes},
    std::pair{"overlap_bucket_s", &Framework::overlap_bucket_s},
    std::pair{"expert_imbalance", &Framework::expert_imbalance},
    std::pair{"context_bytes", &Framework::context_bytes},
    std::pair{"nccl_group_bytes", &Framework::nccl_group_bytes},
    std::pair{"workspace_bytes", &Framework::workspace_bytes},
    std::pair{"pending_messages", &Framework::pending_messages},
    std::pair{"pending_messages_unpiped", &Framework::pending_messages_unpiped},
    std::pair{"fragmentation", &Framework::fragmentation},
    std::pair{"usable_memory", &Framework::usable_memory},
    std::pair{"allocator_pressure", &Framework::allocator_pressure},
    std::pair{"allocator_retry_s", &Framework::allocator_retry_s},
    std::pair{"memory_log_stddev", &Framework::memory_log_stddev},
    std::pair{"loss_bytes_per_logit", &Framework::loss_bytes_per_logit},
    std::pair{"reduce_buffer_elements", &Framework::reduce_buffer_elements},
    std::pair{"gather_buffer_elements", &Framework::gather_buffer_elements},
    std::pair{"launch_process_s", &Framework::launch_process_s},
    std::pair{"launch_per_local_rank_s", &Framework::launch_per_local_rank_s},
    std::pair{"group_init_s", &Framework::group_init_s},
    std::pair{"group_init_per_rank_s", &Framework::group_init_per_rank_s},
    std::pair{"weights_bytes_per_s", &Framework::weights_bytes_per_s},
    std::pair{"setup_factor", &Framework::setup_factor},
    std::pair{"teardown_s", &Framework::teardown_s},
    std::pair{"failure_s", &Framework::failure_s},
};

}  // namespace

bool HasSameSteps(const Framework& a, const Framework& b) {
  Framework same = a;
  for (double Framework::*cost :
       {&Framework::launch_process_s, &Framework::launch_per_local_rank_s,
        &Framework::group_init_s, &Framework::group_init_per_rank_s,
        &Framework::weights_bytes_per_s, &Framework::setup_factor,
        &Framework::teardown_s, &Framework::failure_s}) {
    same.*cost = b.*cost;
  }
  return same == b;
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
  for (const auto& [key, field] : kFlags) {
    framework.*field = table.GetBool(key, framework.*field);
  }
  for (const auto& [key, field] : kNumbers) {
    framework.*field = table.GetDouble(key, framework.*field);
    if (!(framework.*field >= 0.0)) {
      table.Fail(key,
                 fmt::format("{} is {}: must be 0 or more; take it away for "
                             "the default",
                             key, framework.*field));
    }
  }
  constexpr int kMostRanks = 1'000'000;
  framework.zero_group_ranks =
      table.GetIntIn("zero_group_ranks", 0, 0, kMostRanks);
  for (const std::string_view key :
       {"attention_forward_speed", "attention_backward_speed"}) {
    (void)table.GetPositive(key, 1.0);
  }
  for (const auto& [key, on] :
       {std::pair{"shard_within_host", framework.shard_within_host},
        std::pair{"no_sync", framework.no_sync}}) {
    if (on && !framework.fsdp) {
      table.Fail(key,
                 fmt::format("{} is a way of FSDP: it needs fsdp = true", key));
    }
  }
  table.RejectUnknownKeys();
  return framework;
}

Framework ForPrecision(Framework framework, Precision precision) {
  const bool scaled = precision == Precision::kFp16;  // by a loss scale
  if (framework.bf16_sums && !scaled && precision != Precision::kFp32) {
    framework.fp32_gradients = framework.gradients_apart = true;
  }
  return framework;
}

std::span<const FrameworkFlag> FrameworkFlags() { return kFlags; }

std::span<const FrameworkNumber> FrameworkNumbers() {
  static const auto numbers = [] {
    std::array<FrameworkNumber, kNumbers.size()> all;
    std::transform(kNumbers.begin(), kNumbers.end(), all.begin(),
                   [](const auto& number) {
                     return FrameworkNumber{number.first, number.second};
                   });
    return all;
  }();
  return numbers;
}

Framework FindFramework(const std::string& name) {
  return ReadFramework(FindDataFile("frameworks", name));
}

}  // namespace trials
