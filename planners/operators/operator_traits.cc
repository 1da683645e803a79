#include "planners/operators/operator_traits.h"

#include <algorithm>
#include <initializer_list>

namespace planners {
namespace {

bool Contains(std::string_view name,
              std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

// The Wide-ResNet's operators: "conv1", "block-0-1-bn3", "fc".
OperatorTraits Convolutional(std::string_view name) {
  OperatorTraits traits;
  traits.input = {Layout::kSequences, Layout::kSequences};
  traits.output = traits.input;
  const bool first_downsample = Contains(name, {"0-0-downsample"});
  traits.tunable = Contains(name, {"conv", "downsample"});
  traits.recomputable = name != "conv1" && !Contains(name, {"-relu"});
  traits.begins_layer = Contains(name, {"-conv1"});
  if (name == "bn1" || Contains(name, {"-bn3"}) ||
      (Contains(name, {"-downsample"}) && !first_downsample)) {
    traits.kept = 0.0;
  }
  return traits;
}

// A matrix product that is split by columns (its output) or by rows (its
// input); the other variant swaps them.
void SplitProduct(OperatorTraits& traits, bool columns_first) {
  const std::size_t columns = columns_first ? 0 : 1;
  traits.tunable = true;
  traits.input[columns] = Layout::kReplicated;
  traits.output[columns] = Layout::kColumns;
  traits.input[1 - columns] = Layout::kColumns;
  traits.output[1 - columns] = Layout::kReplicated;
}

void SetLayouts(std::string_view name, OperatorTraits& traits) {
  const auto both = [&](Layout input, Layout output) {
    traits.input = {input, input};
    traits.output = {output, output};
  };
  if (Contains(name, {"-embedding"})) {
    both(Layout::kAny, Layout::kReplicated);
    traits.tunable = name.starts_with("encoder");
  } else if (Contains(name, {"final-layernorm"})) {
    both(Layout::kReplicated, Layout::kSequences);
  } else if (Contains(name, {"post-process"})) {
    both(Layout::kSequences, Layout::kAny);
  } else if (Contains(name, {"attention-qkv", "GEMM-1"})) {
    SplitProduct(traits, true);
  } else if (Contains(name, {"attention-dense", "GEMM-2"})) {
    SplitProduct(traits, false);
  } else if (Contains(name, {"attention-score"})) {
    both(Layout::kColumns, Layout::kHeads);
  } else if (Contains(name, {"attention-context"})) {
    both(Layout::kHeads, Layout::kColumns);
  } else if (Contains(name, {"post-attention-dropout", "post-MLP-dropout",
                             "layernorm"})) {
    both(Layout::kReplicated, Layout::kReplicated);
  } else if (Contains(name, {"attention-softmax", "attention-dropout"})) {
    both(Layout::kHeads, Layout::kHeads);
  } else if (Contains(name, {"gelu"})) {
    both(Layout::kColumns, Layout::kColumns);
  }
}

// Copies of a tensor, and its parts along three dimensions: outermost to
// innermost.
struct Distribution {
  int copies = 1;
  std::array<int, 3> parts = {1, 1, 1};
};

Distribution DistributionOf(const Place& place) {
  switch (place.layout) {
    case Layout::kReplicated:
      return {place.tp, {1, place.dp, 1}};
    case Layout::kColumns:
      return {1, {1, place.dp, place.tp}};
    case Layout::kHeads:
      return {1, {place.dp, place.tp, 1}};
    case Layout::kSequences:
      return {place.tp, {place.dp, 1, 1}};
    case Layout::kAny:
      break;
  }
  return {};
}

}  // namespace

OperatorTraits TraitsOf(std::string_view name) {
  if (Contains(name, {"conv", "downsample", "bn", "relu", "pool"}) ||
      name == "fc") {
    return Convolutional(name);
  }
  OperatorTraits traits;
  SetLayouts(name, traits);
  traits.recomputable = !Contains(name, {"-embedding", "post-process"});
  traits.begins_layer = name == "enc-1st-layernorm";
  if (name == "enc-attention-dropout") {
    traits.kept = 1.5;
  } else if (name == "enc-attention-softmax") {
    traits.kept = 0.0;
  }
  return traits;
}

Conversion Convert(const Place& from, const Place& to) {
  if (from.layout == Layout::kAny || to.layout == Layout::kAny) {
    return {};
  }
  const Distribution a = DistributionOf(from);
  const Distribution b = DistributionOf(to);
  int shrinks = 1;  // the factor by which a dimension has fewer parts
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    shrinks = std::max(shrinks, a.parts[i] / b.parts[i]);
  }
  if (a.copies > b.copies) {
    return {true, Collective::kSplit, Collective::kAllGather,
            a.copies / b.copies};
  }
  if (a.copies < b.copies) {
    return {true, Collective::kAllGather, Collective::kSplit, shrinks};
  }
  if (shrinks > 1) {
    return {true, Collective::kAllToAll, Collective::kAllToAll, shrinks};
  }
  return {};
}

}  // namespace planners
