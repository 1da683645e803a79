#include "trainer/data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/device_cpu.h"
#include "trainer/tests/tiny.h"

namespace trainer::testing::data_test {

constexpr int kSamples = 8;
constexpr int kLength = 64;

// All samples of a step, or a part of each sequence.
class Samples {
 public:
  explicit Samples(std::string_view type, std::uint64_t seed = 5)
      : model_(TinyModel(type)), data_(seed, kSamples, kLength) {}

  struct Numbers {
    std::vector<std::int32_t> tokens, labels;
    std::vector<float> patches;
  };
  [[nodiscard]] Numbers Make(int step = 0, std::int64_t first = 0,
                             std::int64_t sequences = kSamples,
                             std::int64_t offset = 0,
                             std::int64_t length = kLength) {
    Context context{.device = *device_,
                    .arena = arena_,
                    .mesh = Mesh(trials::ParallelConfig{}, 0),
                    .model = model_,
                    .sequences = sequences,
                    .length = length,
                    .offset = offset,
                    .tokens = sequences * length};
    const Batch batch = Upload(context, data_.Make(context, step, first));
    Numbers numbers;
    numbers.labels.resize(context.tokens);
    device_->ToHost(batch.labels.get(), numbers.labels.data());
    if (batch.patches.empty()) {
      numbers.tokens.resize(numbers.labels.size());
      device_->ToHost(batch.tokens.get(), numbers.tokens.data());
    } else {
      numbers.patches.resize(batch.patches.get().size);
      device_->ToHost(batch.patches.get(), numbers.patches.data());
    }
    return numbers;
  }
  [[nodiscard]] std::int64_t Labels(int step = 0) const {
    return data_.Labels(model_, step);
  }
  [[nodiscard]] trials::Model& model() { return model_; }

 private:
  trials::Model model_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(CpuPrecision::kFloat);
  Arena arena_{*device_, 1 << 24};
  Data data_;
};

TEST(Data, ACausalModelPredictsTheTokenThatFollows) {
  Samples samples("llama");
  const auto numbers = samples.Make();
  for (std::size_t t = 0; t < numbers.tokens.size(); ++t) {
    EXPECT_GE(numbers.tokens[t], 0);
    EXPECT_LT(numbers.tokens[t], 61);
    if (t % kLength + 1 < kLength) {
      EXPECT_EQ(numbers.labels[t], numbers.tokens[t + 1]) << t;
    }
  }
  EXPECT_EQ(samples.Labels(), kSamples * kLength);
}

// Every seventh place, from another one in each sequence.
TEST(Data, AMaskedModelPredictsEverySeventhToken) {
  Samples samples("bert");
  samples.model().vocab_size = 1000;
  const auto numbers = samples.Make();
  std::int64_t labels = 0;
  std::vector<std::size_t> first_places;
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < kLength; ++i) {
      if (numbers.labels[sample * kLength + i] >= 0) {
        EXPECT_EQ(numbers.tokens[sample * kLength + i], 0);
        places.push_back(i);
      }
    }
    ASSERT_GE(places.size(), 9U);
    EXPECT_LT(places.front(), 7U);
    for (std::size_t i = 1; i < places.size(); ++i) {
      EXPECT_EQ(places[i] - places[i - 1], 7U);
    }
    EXPECT_GE(places.back() + 7, static_cast<std::size_t>(kLength));
    first_places.push_back(places.front());
    labels += static_cast<std::int64_t>(places.size());
  }
  EXPECT_EQ(samples.Labels(), labels);
  EXPECT_NE(std::ranges::min(first_places), std::ranges::max(first_places));
  // The tokens are those that a causal model sees.
  Samples causal("llama");
  causal.model().vocab_size = 1000;
  const auto tokens = causal.Make().tokens;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    EXPECT_EQ(numbers.labels[t] < 0 ? numbers.tokens[t] : numbers.labels[t],
              tokens[t]);
  }
}

// Multiples of 1 / 32768 from -1 to 1; the class adds 1 to a tenth of them. The
// class token has a label instead.
TEST(Data, AnImageIsNoiseThatItsClassShifts) {
  Samples samples("vit");  // ten classes, patches of twelve numbers
  std::array<bool, 10> seen{};
  float least = 1.0F;
  float most = -1.0F;
  double sum = 0.0;
  int count = 0;
  for (int step = 0; step < 4; ++step) {
    const auto numbers = samples.Make(step);
    for (std::size_t t = 0; t < numbers.labels.size(); ++t) {
      const float* patch = &numbers.patches[t * 12];
      if (t % kLength == 0) {
        const std::int32_t label = numbers.labels[t];
        ASSERT_GE(label, 0);
        ASSERT_LT(label, 10);
        seen[label] = true;
        EXPECT_EQ(std::ranges::count(patch, patch + 12, 0.0F), 12);
        continue;
      }
      EXPECT_EQ(numbers.labels[t], -1);
      const std::int32_t label = numbers.labels[t - t % kLength];
      for (int i = 0; i < 12; ++i) {
        const float noise = patch[i] - (i % 10 == label ? 1.0F : 0.0F);
        EXPECT_EQ(std::fmod(noise * 32768.0F, 1.0F), 0.0F);
        EXPECT_GE(noise, -1.0F);
        EXPECT_LT(noise, 1.0F);
        least = std::min(least, noise);
        most = std::max(most, noise);
        sum += noise;
        ++count;
      }
    }
  }
  EXPECT_LT(least, -0.99F);
  EXPECT_GT(most, 0.99F);
  EXPECT_NEAR(sum / count, 0.0, 0.02);
  EXPECT_GE(std::ranges::count(seen, true), 8);
  EXPECT_EQ(samples.Labels(), kSamples);
}

// Ranks have other sequences, or other tokens of them.
TEST(Data, ASampleIsTheSameOnEveryRank) {
  for (const std::string_view type : {"llama", "bert", "vit"}) {
    Samples samples(type);
    const auto all = samples.Make(1);
    const auto part = samples.Make(1, 2, 3, kLength / 2, kLength / 2);
    const std::size_t width = type == "vit" ? 12 : 1;
    for (std::size_t t = 0; t < part.labels.size(); ++t) {
      const std::size_t sample = 2 + t / (kLength / 2);
      const std::size_t at = sample * kLength + kLength / 2 + t % (kLength / 2);
      if (type == "vit") {
        for (std::size_t i = 0; i < width; ++i) {
          EXPECT_EQ(part.patches[t * width + i], all.patches[at * width + i]);
        }
      } else {
        EXPECT_EQ(part.tokens[t], all.tokens[at]);
        EXPECT_EQ(part.labels[t], all.labels[at]);
      }
    }
  }
}

TEST(Data, StepsSamplesAndSeedsDiffer) {
  Samples samples("llama");
  Samples other("llama", 6);
  const auto first = samples.Make(0).tokens;
  EXPECT_EQ(samples.Make(0).tokens, first);
  const auto second = samples.Make(1).tokens;
  EXPECT_NE(second, first);
  EXPECT_NE(other.Make(0).tokens, first);
  // No sequence occurs twice.
  std::vector<std::vector<std::int32_t>> sequences;
  for (const auto* tokens : {&first, &second}) {
    for (auto at = tokens->begin(); at != tokens->end(); at += kLength) {
      sequences.emplace_back(at, at + kLength);
    }
  }
  std::ranges::sort(sequences);
  EXPECT_EQ(std::ranges::adjacent_find(sequences), sequences.end());
}

}  // namespace trainer::testing::data_test
