// Profiled costs of the operators of a model.

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace planners {

// One operator on one GPU: its share of one microbatch. Megabytes are 2^20
// bytes, as in Aceso's profiles.
struct OperatorProfile {
  double forward_us = 0.0;
  double backward_us = 0.0;
  double input_mb = 0.0;        // received from the previous operator
  double output_mb = 0.0;       // sent to the next operator
  double weights_mb = 0.0;      // parameters, once
  double activations_mb = 0.0;  // kept from forward to backward
  // The largest amount that the allocator reserves during forward, backward.
  double forward_reserved_mb = 0.0;
  double backward_reserved_mb = 0.0;
};

// A row of profiles.
struct ProfiledOperator {
  std::string name;
  int micro_batch = 1;
  int tp = 1;  // a power of two
  int variant = 0;
  OperatorProfile profile;
};

// The operators of one model, each profiled for several microbatch sizes,
// tensor-parallel sizes and variants. A variant is a dimension along which a
// matrix product is split; 0 is that of Megatron-LM.
//
// It reads any CSV file with the columns of Aceso's published profiles:
//   model, mbs, tp, algo, op_name, forward-compute, backward-compute,
//   input_size, output_size, weights, activations, fwd_reserved, bwd_reserved
// with times in us and sizes in MB. The rows of the first (mbs, tp, algo) of a
// model list its operators in their order; `model` may be missing.
class OperatorTable {
 public:
  // Errors: throws InputError "file:line: ..." for a missing column, a value
  // that is not a number or is negative, a tensor-parallel size that is not a
  // power of two, an operator that the first rows lack, and an unknown model,
  // listing the known ones.
  [[nodiscard]] static OperatorTable Read(const std::filesystem::path& path,
                                          std::string_view model);

  // The rows of the first (micro_batch, tp, variant) list all operators.
  // Errors: throws InputError for no rows and for an operator that they lack.
  [[nodiscard]] static OperatorTable Of(
      const std::vector<ProfiledOperator>& rows);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<int>& micro_batches() const {
    return micro_batches_;  // ascending
  }
  [[nodiscard]] int variants() const { return variants_; }
  [[nodiscard]] int largest_tp() const { return 1 << (tp_sizes_ - 1); }

  // The profile of an operator; nullptr where there is none or it failed.
  [[nodiscard]] const OperatorProfile* Find(int name, int micro_batch,
                                            int tp_log2, int variant) const {
    if (micro_batch < 1 || micro_batch >= static_cast<int>(slots_.size()) ||
        slots_[micro_batch] < 0 || tp_log2 >= tp_sizes_ ||
        variant >= variants_) {
      return nullptr;
    }
    const std::size_t at = Index(name, slots_[micro_batch], tp_log2, variant);
    return known_[at] != 0 ? &profiles_[at] : nullptr;
  }

 private:
  [[nodiscard]] std::size_t Index(int name, int slot, int tp_log2,
                                  int variant) const {
    const auto size = [](int value) { return static_cast<std::size_t>(value); };
    return ((size(name) * micro_batches_.size() + size(slot)) *
                size(tp_sizes_) +
            size(tp_log2)) *
               size(variants_) +
           size(variant);
  }

  std::vector<std::string> names_;
  std::vector<int> micro_batches_;
  int tp_sizes_ = 1;
  int variants_ = 1;
  std::vector<int> slots_;  // by microbatch size; -1: not profiled
  std::vector<OperatorProfile> profiles_;
  std::vector<char> known_;
};

}  // namespace planners
