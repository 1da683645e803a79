#include "methods/planners/operators/operator_traits.h"

#include <string>

#include <gtest/gtest.h>

namespace methods::operator_traits_test {

// From {layout, tp, dp} to {layout, tp, dp}.
void ExpectConversion(const Place& from, const Place& to, Collective forward,
                      Collective backward, int ranks) {
  const Conversion conversion = Convert(from, to);
  EXPECT_TRUE(conversion.needed);
  EXPECT_EQ(conversion.forward, forward);
  EXPECT_EQ(conversion.backward, backward);
  EXPECT_EQ(conversion.ranks, ranks);
}

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

// Four copies of which each rank keeps its quarter, and the other way around.
TEST(Convert, CopiesAreSplitAndPartsAreGathered) {
  ExpectConversion({Layout::kReplicated, 4, 1}, {Layout::kColumns, 4, 1},
                   Collective::kSplit, Collective::kAllGather, 4);
  ExpectConversion({Layout::kColumns, 4, 1}, {Layout::kReplicated, 4, 1},
                   Collective::kAllGather, Collective::kSplit, 4);
  ExpectConversion({Layout::kReplicated, 1, 8}, {Layout::kSequences, 2, 4},
                   Collective::kAllGather, Collective::kSplit, 8);
}

// The same number of parts along other dimensions.
TEST(Convert, PartsAlongOtherDimensionsAreExchanged) {
  const auto exchanged = [](const Place& from, const Place& to, int ranks) {
    ExpectConversion(from, to, Collective::kAllToAll, Collective::kAllToAll,
                     ranks);
  };
  exchanged({Layout::kHeads, 4, 1}, {Layout::kHeads, 2, 2}, 2);
  exchanged({Layout::kHeads, 1, 4}, {Layout::kHeads, 4, 1}, 4);
  exchanged({Layout::kSequences, 2, 2}, {Layout::kReplicated, 2, 2}, 2);
  exchanged({Layout::kReplicated, 1, 4}, {Layout::kColumns, 2, 2}, 2);
  exchanged({Layout::kColumns, 4, 1}, {Layout::kHeads, 4, 1}, 4);
  exchanged({Layout::kColumns, 1, 4}, {Layout::kHeads, 1, 4}, 4);
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

TEST(TraitsOf, SayWhatIsKeptAndWhatCanChange) {
  EXPECT_EQ(TraitsOf("enc-attention-dropout").kept, 1.5);  // with its mask
  EXPECT_EQ(TraitsOf("enc-attention-softmax").kept, 0.0);
  EXPECT_EQ(TraitsOf("enc-MLP-gelu").kept, 1.0);
  EXPECT_TRUE(TraitsOf("enc-1st-layernorm").begins_layer);
  EXPECT_FALSE(TraitsOf("enc-2nd-layernorm").begins_layer);
  EXPECT_FALSE(TraitsOf("encoder-embedding").recomputable);
  EXPECT_FALSE(TraitsOf("gpt-post-process").recomputable);
  EXPECT_TRUE(TraitsOf("enc-MLP-gelu").recomputable);
  EXPECT_TRUE(TraitsOf("encoder-embedding").tunable);
  EXPECT_FALSE(TraitsOf("decoder-embedding").tunable);
  EXPECT_FALSE(TraitsOf("enc-MLP-gelu").tunable);
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
