// A plan that chooses for each operator.

#ifndef METHODS_PLANNERS_OPERATORS_OPERATOR_PLAN_H_
#define METHODS_PLANNERS_OPERATORS_OPERATOR_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace methods {

// Of one operator. Sizes are powers of two.
struct OperatorChoice {
  std::uint8_t tp_log2 = 0;
  std::uint8_t dp_log2 = 0;
  std::uint8_t variant = 0;
  std::uint8_t recomputed = 0;

  friend bool operator==(const OperatorChoice&,
                         const OperatorChoice&) = default;
};

// Aceso's configuration: pipeline stages, and for each operator its
// tensor-parallel size, data-parallel size and recomputation. All operators of
// a stage have the same tp * dp, its GPUs.
// Source: Aceso Sec. 3.1, Fig. 2.
struct OperatorPlan {
  int micro_batch = 1;  // sequences of a microbatch, over all GPUs of a stage
  // The first operator of each stage, then the number of operators.
  std::vector<int> first;               // [stages + 1], ascending
  std::vector<OperatorChoice> choices;  // [operators]

  [[nodiscard]] int stages() const {
    return static_cast<int>(first.size()) - 1;
  }
  [[nodiscard]] int GpusOf(int stage) const {
    const OperatorChoice& choice = choices[first[stage]];
    return 1 << (choice.tp_log2 + choice.dp_log2);
  }

  friend bool operator==(const OperatorPlan&, const OperatorPlan&) = default;
};

// Equal plans have equal hashes.
[[nodiscard]] std::uint64_t HashOf(const OperatorPlan& plan);

// One line: "4 stages, microbatch 1: 79 x tp1 dp1 (6 recomputed) | ...".
[[nodiscard]] std::string ToString(const OperatorPlan& plan);

// Reads the JSON file that Aceso's program writes and its runtime trains:
// micro_batch_size, num_ops_in_each_stage and four lists per stage,
// model_parallel_size_of_each_op, data_parallel_size_of_each_op, recompute_ops,
// algo_of_each_op. The size of the batch is in `batch`.
// Errors: throw InputError that names the file and the key for a missing key, a
// size that is not a power of two and lists of different lengths.
struct PlanFile {
  OperatorPlan plan;
  int batch = 0;
};
[[nodiscard]] PlanFile ParsePlan(std::string_view text,
                                 const std::string& source);
[[nodiscard]] PlanFile ReadPlan(const std::filesystem::path& path);

// The inverse of ParsePlan.
[[nodiscard]] std::string ToJsonText(const PlanFile& file);

}  // namespace methods

#endif  // METHODS_PLANNERS_OPERATORS_OPERATOR_PLAN_H_
