// Gradients of every parameter against finite differences.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/communicator_threads.h"
#include "trainer/rank.h"
#include "trainer/tests/tiny.h"

namespace trainer::testing::gradient_test {

// One rank whose weights do not move, so that a step only computes loss and
// gradients.
class Frozen {
 public:
  explicit Frozen(Job job)
      : job_(Still(std::move(job))),
        fabric_(10.0),
        device_(MakeCpuDevice(CpuPrecision::kDouble)),
        rank_(
            job_, 0, [this] { return job_.memory_bytes; }, fabric_, *device_) {}

  double Loss() {
    rank_.Prepare(0);
    return rank_.Step();
  }
  // The loss with one weight moved; the update at the end of the step restores
  // the weight from its master.
  double LossAt(const Parameter& parameter, std::int64_t i, double change) {
    Numbers(parameter.weight)[i] += change;
    return Loss();
  }
  [[nodiscard]] const auto& parameters() { return rank_.store().list(); }
  static double* Numbers(const Tensor& x) {
    return reinterpret_cast<double*>(x.data);
  }

 private:
  static Job Still(Job job) {
    job.adam.learning_rate = 0.0;
    job.batch_size = 2;
    job.sequence_length = job.model.patch_size > 0 ? 4 : 8;
    job.model.layers = 1;
    return job;
  }
  Job job_;
  ThreadFabric fabric_;
  std::unique_ptr<Device> device_;
  Rank rank_;
};

void ExpectGradientsOfFiniteDifferences(const Job& job) {
  constexpr double kChange = 1e-5;
  constexpr int kSamples = 4;  // per parameter
  Frozen model(job);
  for (const auto& parameter : model.parameters()) {
    model.Loss();
    double* gradients = Frozen::Numbers(parameter->gradient);
    const std::vector<double> all(gradients, gradients + parameter->size);
    // The largest and some others.
    std::vector<std::int64_t> places = {
        std::max_element(
            all.begin(), all.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); }) -
        all.begin()};
    for (int i = 1; i < kSamples; ++i) {
      places.push_back(parameter->size * i / kSamples);
    }
    for (const std::int64_t place : places) {
      const double slope = (model.LossAt(*parameter, place, kChange) -
                            model.LossAt(*parameter, place, -kChange)) /
                           (2 * kChange);
      EXPECT_NEAR(all[place], slope, 1e-8 + 1e-6 * std::abs(slope))
          << job.model.name << " " << parameter->pieces.front().name << "["
          << place << "]";
    }
    EXPECT_NE(all[places[0]], 0.0) << parameter->pieces.front().name;
  }
}

TEST(Gradients, AreFiniteDifferencesForEveryModel) {
  for (const std::string_view type : kModels) {
    ExpectGradientsOfFiniteDifferences(TinyJob(type));
  }
}

// Layers whose options the models of the list do not combine.
TEST(Gradients, AreFiniteDifferencesOfOtherLayers) {
  Job gated = TinyJob("qwen2");
  gated.model.ffn_bias = true;
  ExpectGradientsOfFiniteDifferences(gated);
  Job one_expert = TinyJob("mixtral");
  one_expert.model.experts = one_expert.model.experts_per_token = 1;
  Frozen model(one_expert);
  EXPECT_GT(model.Loss(), 0.0);
  Job small = TinyJob("vit");
  small.model.patch_size = 1;
  ExpectGradientsOfFiniteDifferences(small);
}

TEST(Gradients, AreFiniteDifferencesWithRecomputation) {
  for (const int recompute : {1, 2}) {
    Job job = TinyJob("qwen2");
    job.config.grad_checkpoint = recompute;
    ExpectGradientsOfFiniteDifferences(job);
  }
}

}  // namespace trainer::testing::gradient_test
