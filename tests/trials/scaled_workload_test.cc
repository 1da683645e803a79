#include "trials/scaled_workload.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "trials/model.h"

namespace trials::scaled_workload_test {

Workload Example(const std::string& model) {
  const auto folder = fakes::SourceFolder() / "experiments/workloads";
  return {.name = model,
          .model = ReadModel(folder / (model + ".json")),
          .batch_size = 16,
          .sequence_length = 1024};
}

TEST(ScaledWorkload, DividesSizesAndKeepsWhatParallelismDivides) {
  const Workload whole = Example("qwen2-1.5b");
  const Workload small = Scaled(whole, 16);
  EXPECT_EQ(small.model.layers, whole.model.layers);
  EXPECT_EQ(small.model.attention_heads, whole.model.attention_heads);
  EXPECT_EQ(small.model.kv_heads, whole.model.kv_heads);
  EXPECT_EQ(small.batch_size, whole.batch_size);
  EXPECT_EQ(small.model.head_size, 128 / 16);
  EXPECT_EQ(small.model.hidden_size, 12 * 8);
  EXPECT_EQ(small.model.ffn_size, 8960 / 16 / 64 * 64);
  EXPECT_EQ(small.sequence_length, 1024 / 16);
  EXPECT_EQ(Scaled(whole, 1), whole);
}

TEST(ScaledWorkload, StopsAtSizesThatEveryConfigurationDivides) {
  const Workload small = Scaled(Example("qwen2-1.5b"), 1 << 20);
  EXPECT_EQ(small.model.head_size, 8);
  EXPECT_EQ(small.model.ffn_size, 64);
  EXPECT_EQ(small.model.vocab_size, 512);
  EXPECT_EQ(small.sequence_length, 32);
}

TEST(ScaledWorkload, AFactorOfTwoHalvesSizes) {
  const Workload small = Scaled(Example("gpt2"), 2);
  EXPECT_EQ(small.model.head_size, 32);
  EXPECT_EQ(small.model.hidden_size, 384);
  EXPECT_EQ(small.model.max_positions, 512);
  EXPECT_EQ(small.sequence_length, 512);
  EXPECT_EQ(small.model.patch_size, 0);
  EXPECT_EQ(Scaled(Example("qwen2-1.5b"), 2).model.max_positions, 0);
  // There are positions for all tokens.
  EXPECT_EQ(Scaled(Example("gpt2"), 1000).model.max_positions, 32);
}

TEST(ScaledWorkload, AnImageHasTwoTokensAtLeast) {
  Workload image = Example("vit-base-patch16-224");
  image.sequence_length = image.model.max_positions;
  const Workload small = Scaled(image, 2);
  EXPECT_EQ(small.sequence_length, 197 / 2);
  EXPECT_EQ(small.model.max_positions, 197 / 2);
  EXPECT_EQ(small.model.patch_size, 768 / 2);
  EXPECT_EQ(Scaled(image, 1000).sequence_length, 2);
  EXPECT_EQ(Scaled(image, 1000).model.patch_size, 8);
  image.model.patch_size = 1;
  EXPECT_EQ(Scaled(image, 2).sequence_length, 197 / 2);
}

}  // namespace trials::scaled_workload_test
