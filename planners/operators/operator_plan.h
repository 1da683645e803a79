// A plan that chooses for each operator.

#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace planners {

// What a plan decides for one operator. Sizes are powers of two.
struct OperatorChoice {
  std::uint8_t tp_log2 = 0;
  std::uint8_t dp_log2 = 0;
  std::uint8_t variant = 0;
  std::uint8_t recomputed = 0;

  [[nodiscard]] static OperatorChoice Of(int tp, int dp, int variant = 0,
                                         bool recomputed = false) {
    const auto log2 = [](int size) {
      return static_cast<std::uint8_t>(
          std::countr_zero(static_cast<unsigned>(size)));
    };
    return {log2(tp), log2(dp), static_cast<std::uint8_t>(variant), recomputed};
  }

  // Sets the sizes; false, with nothing changed, where one is negative. A
  // product that is not split has no variant: its two profiles differ by noise.
  bool Resize(int new_tp_log2, int new_dp_log2) {
    if (new_tp_log2 < 0 || new_dp_log2 < 0) {
      return false;
    }
    tp_log2 = static_cast<std::uint8_t>(new_tp_log2);
    dp_log2 = static_cast<std::uint8_t>(new_dp_log2);
    variant = new_tp_log2 == 0 ? std::uint8_t{0} : variant;
    return true;
  }

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
  // The operators of a stage.
  [[nodiscard]] int begin(int stage) const { return first[stage]; }
  [[nodiscard]] int end(int stage) const { return first[stage + 1]; }
  [[nodiscard]] int GpusOf(int stage) const {
    const OperatorChoice& choice = choices[first[stage]];
    return 1 << (choice.tp_log2 + choice.dp_log2);
  }
  // Adds a stage that begins at the operator `begin`, while the end is missing.
  void Append(int begin, std::span<const OperatorChoice> of_stage) {
    first.push_back(begin);
    choices.insert(choices.end(), of_stage.begin(), of_stage.end());
  }

  friend bool operator==(const OperatorPlan&, const OperatorPlan&) = default;
};

}  // namespace planners
