#include "methods/planners/operators/operator_traits.h"

#include <string>

#include <gtest/gtest.h>

namespace methods::operator_traits_test {

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

TEST(TraitsOf, OfAWideResNetAreThoseOfItsBlocks) {
  const auto kept = [](const std::string& name) { return TraitsOf(name).kept; };
  EXPECT_EQ(kept("bn1"), 0.0);
  EXPECT_EQ(kept("block-0-1-bn3"), 0.0);
  EXPECT_EQ(kept("block-0-1-bn2"), 1.0);
  EXPECT_EQ(kept("block-1-0-downsample"), 0.0);
  EXPECT_EQ(kept("block-0-0-downsample"), 1.0);
  EXPECT_EQ(kept("fc"), 1.0);
  EXPECT_TRUE(TraitsOf("block-0-1-conv1").begins_layer);
  EXPECT_FALSE(TraitsOf("conv1").begins_layer);
  EXPECT_FALSE(TraitsOf("conv1").recomputable);
  EXPECT_TRUE(TraitsOf("block-0-1-conv1").recomputable);
  EXPECT_FALSE(TraitsOf("block-0-1-relu").recomputable);
  EXPECT_TRUE(TraitsOf("block-0-1-conv2").tunable);
  EXPECT_TRUE(TraitsOf("block-1-0-downsample").tunable);
  EXPECT_FALSE(TraitsOf("block-0-1-bn3").tunable);
  EXPECT_EQ(TraitsOf("fc").input[1], Layout::kSequences);
}

}  // namespace methods::operator_traits_test
