#include "planners/operators/operator_traits.h"

#include <gtest/gtest.h>

namespace planners::operator_traits_test {

TEST(Convert, KeepsWhatHasTheSamePartsInTheSamePlaces) {
  for (const Layout layout : {Layout::kReplicated, Layout::kColumns,
                              Layout::kHeads, Layout::kSequences}) {
    EXPECT_FALSE(Convert({layout, 2, 4}, {layout, 2, 4}).needed);
    EXPECT_FALSE(Convert({Layout::kAny, 1, 1}, {layout, 2, 4}).needed);
    EXPECT_FALSE(Convert({layout, 2, 4}, {Layout::kAny, 1, 1}).needed);
  }
  // One GPU has everything in any layout.
  EXPECT_FALSE(
      Convert({Layout::kSequences, 1, 1}, {Layout::kColumns, 1, 1}).needed);
}

// Megatron-LM's split of a Transformer layer: between two products features are
// split, in the core of attention heads are, elsewhere there are copies.
TEST(TraitsOf, AreThoseOfMegatronsLayer) {
  const auto expect = [](const char* name, Layout input, Layout output) {
    const OperatorTraits traits = TraitsOf(name);
    EXPECT_EQ(traits.input[0], input) << name;
    EXPECT_EQ(traits.output[0], output) << name;
  };
  using enum Layout;
  expect("encoder-embedding", kAny, kReplicated);
  expect("enc-1st-layernorm", kReplicated, kReplicated);
  expect("enc-attention-qkv", kReplicated, kColumns);
  expect("enc-attention-score", kColumns, kHeads);
  expect("enc-attention-softmax", kHeads, kHeads);
  expect("enc-attention-dropout", kHeads, kHeads);
  expect("enc-attention-context", kHeads, kColumns);
  expect("enc-attention-dense", kColumns, kReplicated);
  expect("enc-post-attention-dropout", kReplicated, kReplicated);
  expect("enc-MLP-GEMM-1", kReplicated, kColumns);
  expect("enc-MLP-gelu", kColumns, kColumns);
  expect("enc-MLP-GEMM-2", kColumns, kReplicated);
  expect("final-layernorm", kReplicated, kSequences);
  expect("gpt-post-process", kSequences, kAny);
}

}  // namespace planners::operator_traits_test
