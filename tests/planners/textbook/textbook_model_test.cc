#include "planners/textbook/textbook_model.h"

#include <algorithm>
#include <vector>

#include <Eigen/QR>
#include <gtest/gtest.h>

#include "tests/fakes/decoders.h"

namespace planners::textbook_model_test {

using trials::ParallelConfig;

trials::Workload Decoder(int layers, int hidden_size, int heads, int batch_size,
                         int sequence_length, int vocabulary) {
  return fakes::Decoder{layers,     hidden_size,     heads,
                        batch_size, sequence_length, vocabulary}
      .Workload();
}

double Parameters(const trials::Workload& workload) {
  return static_cast<double>(ParameterCount(workload.model));
}

TEST(TextbookModel,
     StaticMemoryOfThirteenBillionParametersIsThatOfTheExercise) {
  // Exercise 5: tp 4, pp 4, dp 4 with ZeRO 1: 1.63 + 1.63 + 2.44 = 5.7 GB, and
  // activations of 2 x 1.43 GB for 8 sequences of 4,096 tokens.
  const trials::Workload workload = Decoder(40, 5120, 40, 32, 4096, 50'257);
  ASSERT_NEAR(Parameters(workload), 13e9, 0.02 * 13e9);
  const TextbookModel model(workload, {});
  const ParallelConfig config{.dp = 4,
                              .tp = 4,
                              .pp = 4,
                              .zero_stage = 1,
                              .microbatches = 1,
                              .grad_checkpoint = trials::kRecomputeFull};
  const TextbookMemory memory = model.Memory(config);
  EXPECT_NEAR(memory.Static(), 5.7e9, 0.02 * 5.7e9);
  EXPECT_NEAR(memory.activations, 2 * 1.43e9, 0.01e9);
  EXPECT_LT(memory.Total(), 80e9);
}

TEST(TextbookModel, ActivationsOfThirtyBillionParametersAreThoseOfTheExercise) {
  // Exercise 2: 997 MB per layer for 4 sequences of 4,096 tokens, H 7168, tp 4;
  // 9.97 GB for the 10 layers of a stage, 1.99 GB with recomputation.
  const trials::Workload workload = Decoder(40, 7168, 56, 64, 4096, 50'257);
  const TextbookModel model(workload, {});
  ParallelConfig config{
      .dp = 16, .tp = 4, .pp = 4, .zero_stage = 1, .microbatches = 1};
  EXPECT_NEAR(model.Memory(config).activations, 9.98e9, 0.01e9);
  config.grad_checkpoint = trials::kRecomputeFull;
  EXPECT_NEAR(model.Memory(config).activations, 2.0e9, 0.01e9);
}

TEST(TextbookModel, ZeroShardsOneStateMoreWithEachStage) {
  const trials::Workload workload = Decoder(24, 2048, 16, 64, 1024, 50'257);
  const TextbookModel model(workload, {});
  const double parameters = Parameters(workload);
  ParallelConfig config{.dp = 8};
  const double stages[] = {16.0, 4.0 + 12.0 / 8, 2.0 + 14.0 / 8, 16.0 / 8};
  for (int stage = 0; stage <= 3; ++stage) {
    config.zero_stage = stage;
    EXPECT_NEAR(model.Memory(config).Static(), stages[stage] * parameters, 1.0);
  }
}

TEST(TextbookModel, Gpt3FitsIntoAThousandGpusAndItsBubbleLimitsIt) {
  // dp 64, pp 8, tp 2, ZeRO 1, 8 microbatches of 2: 1,024 sequences per step.
  // The textbook says about 60 GB and 50% MFU. By its model, an eighth of 14
  // bubbles (7 / 16 of the computation) leaves at most 0.5 / 1.4375.
  const trials::Workload workload = Decoder(96, 12288, 96, 1024, 2048, 50'257);
  ASSERT_NEAR(Parameters(workload), 175e9, 0.01 * 175e9);
  const TextbookModel model(workload, {.flops_per_s = 312e12});
  const ParallelConfig config{.dp = 64,
                              .tp = 2,
                              .pp = 8,
                              .zero_stage = 1,
                              .microbatches = 8,
                              .model_chunks = 2,
                              .grad_checkpoint = trials::kRecomputeFull};
  const TextbookMemory memory = model.Memory(config);
  EXPECT_NEAR(memory.Static(), 45.8e9, 0.5e9);
  EXPECT_LT(memory.Total(), 60e9);
  const TextbookStep step = model.Step(config);
  EXPECT_NEAR(step.bubble_s / step.compute_s, 7.0 / 16.0, 1e-12);
  const double flops = 6.0 * Parameters(workload) * 1024 * 2048 / 1024;
  const double mfu = flops / 312e12 / step.Total();
  EXPECT_LT(mfu, 0.5 / 1.4375);
  EXPECT_GT(mfu, 0.25);
}

TEST(TextbookModel, LlamaOn128GpusExceedsTheMemoryOfItsOwnCaseStudy) {
  // dp 32, pp 4, tp 1 with ZeRO 1: 4 x 17.5 + 12 x 17.5 / 32 = 76.6 GB of
  // states, and two layers of 8,192 tokens do not fit beside them.
  const trials::Workload workload = Decoder(80, 8192, 64, 128, 8192, 32'000);
  const double scale = 70e9 / Parameters(workload);
  ASSERT_NEAR(scale, 1.0, 0.1);
  const TextbookModel model(workload, {});
  const ParallelConfig config{.dp = 32,
                              .pp = 4,
                              .zero_stage = 1,
                              .microbatches = 4,
                              .grad_checkpoint = trials::kRecomputeFull};
  EXPECT_NEAR(model.Memory(config).Static() * scale, 76.6e9, 0.5e9);
  EXPECT_NEAR(model.Memory(config).activations, 4.56e9, 0.01e9);
  EXPECT_GT(
      model.Memory(config).Static() * scale + model.Memory(config).activations,
      80e9);
}

TEST(TextbookModel, PartsOfAStepAreTheirFormulas) {
  const trials::Workload workload = Decoder(16, 1024, 16, 64, 512, 30'000);
  const TextbookMachine machine{.gpus_per_node = 4,
                                .flops_per_s = 1e14,
                                .intra_node_bytes_per_s = 1e11,
                                .inter_node_bytes_per_s = 1e10};
  const TextbookModel model(workload, machine);
  const ParallelConfig config{.dp = 2, .tp = 4, .pp = 2, .microbatches = 8};
  const double tokens = 64.0 / 2 / 8 * 512;  // 2,048 of a microbatch
  const double parameters = Parameters(workload) / 8;
  const TextbookStep step = model.Step(config);
  EXPECT_DOUBLE_EQ(step.compute_s, 6 * parameters * tokens * 8 / (1e14 * 0.5));
  EXPECT_DOUBLE_EQ(step.tensor_s,
                   8 * 2 * (16.0 / 2) * 2 * (2 * tokens * 1024 / 4) / 1e11);
  EXPECT_DOUBLE_EQ(step.data_s, std::max(0.0, 2 * 0.5 * 2 * parameters / 1e10 -
                                                  0.8 * step.compute_s));
  EXPECT_DOUBLE_EQ(step.bubble_s, step.compute_s / 8);
  EXPECT_DOUBLE_EQ(
      model.CommunicationShare(config),
      step.Communication() / (step.compute_s + step.Communication()));
}

TEST(TextbookModel, AdviceFollowsTheRules) {
  // 16 bytes x 13e9 / 40 GB = 5.2: tp 8, which divides 40 heads. 40 layers: 4
  // stages; two GPUs of data parallelism are left of 64.
  const TextbookModel large(Decoder(40, 5120, 40, 1024, 4096, 50'257), {});
  const ParallelConfig config = large.Advise(64);
  EXPECT_EQ(config.tp, 8);
  EXPECT_EQ(config.pp, 4);
  EXPECT_EQ(config.dp, 2);
  EXPECT_EQ(config.zero_stage, 1);
  EXPECT_EQ(config.model_chunks, 2);
  EXPECT_EQ(config.grad_checkpoint, trials::kRecomputeFull);
  // Half a billion parameters fit: data parallelism only.
  const TextbookModel small(Decoder(12, 1536, 12, 256, 1024, 50'257), {});
  const ParallelConfig replicas = small.Advise(8);
  EXPECT_EQ(replicas.dp, 8);
  EXPECT_EQ(replicas.grad_checkpoint, trials::kRecomputeNothing);
  EXPECT_EQ(replicas.microbatches, 2);  // of 16 sequences, 0.6 GB of inputs
}

TEST(TextbookModel, CalibrationIsTheLeastSquaresOfTheRelativeErrors) {
  std::vector<TextbookMeasurement> measurements = {
      {{.compute_s = 1.0, .tensor_s = 0.4}, 2.0},
      {{.compute_s = 0.8, .data_s = 0.7, .bubble_s = 0.3}, 2.2},
      {{.compute_s = 2.0}, 2.6},
      {{.compute_s = 0.5, .tensor_s = 0.9, .bubble_s = 0.1}, 1.5}};
  Eigen::MatrixXd predicted(4, 2);
  for (Eigen::Index i = 0; i < 4; ++i) {
    const auto& [step, time_s] = measurements[i];
    predicted(i, 0) = (step.compute_s + step.bubble_s) / time_s;
    predicted(i, 1) = (step.tensor_s + step.data_s) / time_s;
  }
  const Eigen::Vector2d expected =
      predicted.colPivHouseholderQr().solve(Eigen::VectorXd::Ones(4));
  ASSERT_GT(expected.minCoeff(), 0.0);
  for (const double faster : {1.0, 10.0}) {
    const TextbookFactors factors = Calibrate(measurements);
    EXPECT_NEAR(factors.compute, expected[0] / faster, 1e-12);
    EXPECT_NEAR(factors.communication, expected[1] / faster, 1e-12);
    for (TextbookMeasurement& one : measurements) {
      one.step_time_s /= 10.0;
    }
  }
}

// Where one of the two would be negative, it is zero and the other one fits
// alone: sum x / sum x^2.
TEST(TextbookModel, CalibrationFitsOneFactorAloneWhereTheOtherIsNegative) {
  struct Times {
    double compute_s, tensor_s, step_s;
  };
  const struct {
    Times one, other;
    double compute, communication;
  } cases[] = {{{1.0, 0.1, 1.0}, {0.9, 0.9, 0.9}, 1.0, 0.0},
               {{0.1, 1.0, 1.0}, {3.0, 2.0, 1.0}, 0.0, 3.0 / 5.0},
               // The line through both points has a = 9 / 8 and b = -5 / 4.
               {{1.0, 0.1, 1.0}, {2.0, 1.0, 1.0}, 3.0 / 5.0, 0.0},
               // A factor that is small but positive stays: 0.05 x + y / 2 = 1.
               {{10.0, 1.0, 1.0}, {2.0, 1.8, 1.0}, 0.05, 0.5},
               // Proportional parts cannot be told apart: one factor for both.
               {{1.0, 0.5, 3.0}, {2.0, 1.0, 6.0}, 2.0, 2.0}};
  const auto measured = [](const Times& times) {
    return TextbookMeasurement{
        {.compute_s = times.compute_s, .tensor_s = times.tensor_s},
        times.step_s};
  };
  for (const auto& [one, other, compute, communication] : cases) {
    const TextbookFactors factors = Calibrate({measured(one), measured(other)});
    EXPECT_NEAR(factors.compute, compute, compute == 0.0 ? 0.0 : 1e-9);
    EXPECT_NEAR(factors.communication, communication,
                communication == 0.0 ? 0.0 : 1e-9);
  }
}

TEST(TextbookModel, CalibrationToOneMeasurementHasOneFactor) {
  const TextbookMeasurement measured{{.compute_s = 1.0, .tensor_s = 0.1}, 3.0};
  const TextbookFactors one = Calibrate({measured});
  EXPECT_NEAR(one.StepTime(measured.predicted), 3.0, 1e-12);
  EXPECT_EQ(one.compute, one.communication);
  EXPECT_EQ(Calibrate({}).compute, 1.0);
}

}  // namespace planners::textbook_model_test
