// The properties of an operator that its profile does not have.

#pragma once

#include <array>
#include <string_view>

#include "planners/operators/link_table.h"

namespace planners {

// The distribution of a tensor over the GPUs of a stage.
enum class Layout {
  kAny,         // needs no conversion: the input of the first operator
  kReplicated,  // copies over tp, split over dp by sequences; tokens outermost
  kColumns,     // split over tp by features and over dp by sequences
  kHeads,       // split over dp by sequences and over tp by attention heads
  kSequences,   // copies over tp, split over dp by sequences; those outermost
};

struct OperatorTraits {
  // Its tensor-parallel size and its variant may differ from its neighbors'.
  bool tunable = false;
  bool recomputable = true;
  // The first operator of a layer: its input is kept when layers are
  // recomputed.
  bool begins_layer = false;
  // The share of the profiled activations that is kept: 0 where the next
  // operator keeps the same tensor, 1.5 for an output together with its mask.
  double kept = 1.0;
  // By variant.
  std::array<Layout, 2> input = {Layout::kAny, Layout::kAny};
  std::array<Layout, 2> output = {Layout::kAny, Layout::kAny};
};

// The traits of an operator by its name in Aceso's profiles: Transformers and
// Wide-ResNets. An unknown name has the defaults.
// Source: Aceso Sec. 4.2; the published runtime (EuroSys '24 artifact).
[[nodiscard]] OperatorTraits TraitsOf(std::string_view name);

// A tensor's place: its layout, and the sizes over which it is distributed.
struct Place {
  Layout layout = Layout::kAny;
  int tp = 1;
  int dp = 1;
};

// The conversion of a tensor between operators, and that of its gradient.
struct Conversion {
  bool needed = false;
  Collective forward = Collective::kSplit;
  Collective backward = Collective::kSplit;
  int ranks = 1;
};
[[nodiscard]] Conversion Convert(const Place& from, const Place& to);

}  // namespace planners
