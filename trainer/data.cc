#include "trainer/data.h"

#include <vector>

namespace trainer {
namespace {

constexpr std::int64_t kMaskEvery = 7;  // 14% of tokens; BERT masks 15%

// SplitMix64 (Steele et al., 2014).
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Small tokens are more frequent, so that there is something to learn.
std::int32_t Skewed(std::uint64_t bits, std::int64_t vocabulary) {
  const std::uint64_t size = static_cast<std::uint64_t>(vocabulary);
  return static_cast<std::int32_t>((bits & 0xffffffff) % size *
                                   ((bits >> 32) % size) / size);
}

}  // namespace

std::uint64_t Data::Random(int step, std::int64_t sample,
                           std::int64_t position) const {
  const auto index =
      static_cast<std::uint64_t>(std::int64_t{step} * batch_size_ + sample);
  return Mix(Mix(Mix(seed_ + 1) ^ index) ^
             static_cast<std::uint64_t>(position));
}

bool Data::Masked(int step, std::int64_t sample, std::int64_t position) const {
  const auto shift =
      static_cast<std::int64_t>(Random(step, sample, -1) % kMaskEvery);
  return (position + shift) % kMaskEvery == 0;
}

std::int64_t Data::Labels(const trials::Model& model, int step) const {
  if (model.classes > 0) {
    return batch_size_;
  }
  if (model.causal) {
    return std::int64_t{batch_size_} * sequence_length_;
  }
  std::int64_t labels = 0;
  for (std::int64_t sample = 0; sample < batch_size_; ++sample) {
    for (std::int64_t i = 0; i < sequence_length_; ++i) {
      labels += Masked(step, sample, i) ? 1 : 0;
    }
  }
  return labels;
}

HostBatch Data::Make(const Context& c, int step,
                     std::int64_t first_sample) const {
  const trials::Model& model = c.model;
  HostBatch host;
  auto& [tokens, labels, patches] = host;
  tokens.resize(model.patch_size > 0 ? 0 : c.tokens);
  labels.assign(c.tokens, -1);
  patches.resize(c.tokens * model.patch_size);
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    const std::int64_t sample = first_sample + t / c.length;
    const std::int64_t position = c.offset + t % c.length;
    if (model.patch_size > 0) {
      const auto label =
          static_cast<std::int32_t>(Random(step, sample, -1) % model.classes);
      if (position == 0) {
        labels[t] = label;
        continue;
      }
      for (std::int64_t i = 0; i < model.patch_size; ++i) {
        const std::uint64_t bits =
            Random(step, sample, position * model.patch_size + i);
        patches[t * model.patch_size + i] =
            static_cast<float>(bits >> 48) / 32768.0F - 1.0F +
            (i % model.classes == label ? 1.0F : 0.0F);
      }
      continue;
    }
    tokens[t] = Skewed(Random(step, sample, position), model.vocab_size);
    if (model.causal) {
      labels[t] = Skewed(Random(step, sample, position + 1), model.vocab_size);
    } else if (Masked(step, sample, position)) {
      labels[t] = tokens[t];
      tokens[t] = 0;
    }
  }
  return host;
}

Batch Upload(const Context& c, const HostBatch& host) {
  Batch batch;
  batch.labels = c.NewIndices(c.tokens);
  c.device.FromHost(host.labels.data(), batch.labels.get());
  if (!host.patches.empty()) {
    const Array staged{c.arena, Region::kWorkspace,
                       static_cast<std::int64_t>(host.patches.size()),
                       sizeof(float)};
    c.device.FromHost(host.patches.data(), staged.get());
    batch.patches = c.New(staged.get().size);
    c.device.Convert(staged.get(), batch.patches.get());
  } else {
    batch.tokens = c.NewIndices(c.tokens);
    c.device.FromHost(host.tokens.data(), batch.tokens.get());
  }
  return batch;
}

}  // namespace trainer
