#include "trials/programs/loss_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials {
namespace {

using testing::ElementsAre;
using testing::Pair;

bool Diverges(const std::string& line) {
  LossWatch watch;
  watch.Read(line);
  return !watch.not_finite().empty();
}

TEST(LossWatch, KnowsTheLossOfEachFrameworkThatIsNotFinite) {
  for (const char* line :
       {"{'loss': nan, 'grad_norm': nan, 'learning_rate': 5e-05}",
        R"({"loss": NaN, "step": 3})",
        " iteration 3/ 10 | lm loss: NAN | loss scale: 1.0 |",
        "step:  3  \033[32mloss: \033[39m     nan  \033[38mmemory: 3GiB",
        "Epoch 0:  30%|###  | 3/10 [00:01<00:02, train_loss=nan.0]",
        "reduced_train_loss: inf", "loss = -inf", "lm_loss: nan | lr: 1e-4",
        "step 3 loss: Infinity"}) {
    EXPECT_TRUE(Diverges(line)) << line;
  }
}

TEST(LossWatch, ANumberAnotherLossAndOtherWordsAreNoDivergence) {
  for (const char* line :
       {"{'loss': 2.31, 'grad_norm': 1.3}", "loss scale: inf",
        "loss_scale: inf", "number of nan iterations:   0 |",
        "best_val_loss: inf", "eval_loss = nan", "loss: nanometre",
        "the loss is nan-safe"}) {
    EXPECT_FALSE(Diverges(line)) << line;
  }
}

TEST(LossWatch, StepsThatAreAllSkippedTrainNothing) {
  LossWatch watch;
  watch.Read("{'loss': 0.0, 'grad_norm': nan}");
  watch.Read("{'loss': 0.0, 'grad_norm': nan}");
  EXPECT_EQ(watch.WhyNothingIsLearnt(3), "");
  EXPECT_THAT(watch.WhyNothingIsLearnt(2), testing::HasSubstr("none of 2"));
  watch.Read("{'loss': 2.0, 'grad_norm': 1.5}");  // the loss scale is found
  EXPECT_EQ(watch.WhyNothingIsLearnt(2), "");
}

TEST(LossWatch, LinesOfMegatronAreReadToTheirEnd) {
  const std::string line =
      " [2026-05-01 10:00:00.000000] iteration        3/      10 | consumed "
      "samples:           96 | elapsed time per iteration (ms): 431.9 | "
      "throughput per GPU (TFLOP/s/GPU): 100.0 | learning rate: 1.000000E-06 | "
      "global batch size:    32 | lm loss: ";
  EXPECT_TRUE(Diverges(line + "NAN | loss scale: 1.0 |"));
  LossWatch watch;
  watch.Read(line +
             "1.085E+01 | loss scale: 1.0 | number of skipped "
             "iterations:   1 | number of nan iterations:   0 |");
  EXPECT_THAT(watch.losses(), ElementsAre(Pair(3, 10.85)));
  EXPECT_THAT(watch.WhyNothingIsLearnt(1), testing::HasSubstr("skipped"));
}

TEST(LossWatch, KnowsTheLossOfATrainingStepAndItsNumber) {
  for (const char* line :
       {"{'loss': 2.25, 'grad_norm': 1.3, 'epoch': 0.1}",
        "{'loss': '2.25', 'grad_norm': '1.3'}",
        "step:  7  \033[32mloss: \033[39m 2.25  \033[38mmemory: 3GiB",
        "iter 7: loss 2.25, time 30.1ms", "Step 7 | train_loss=2.25]",
        R"({"step": 7, "loss": 2.25})", "step 7: train loss 2.25, val loss 3",
        "[Step 7] reduced_train_loss: 2.25"}) {
    LossWatch watch;
    watch.Read(line, 7);
    EXPECT_THAT(watch.losses(), ElementsAre(Pair(7, 2.25))) << line;
  }
  for (const char* line :
       {"eval_loss: 2.25", "best_val_loss: 2", "validation loss 2.25",
        "loss scale: 65536", "load_balancing_loss: 1.0", "loss: 2.25.1",
        "loss: 5%", "loss weight"}) {
    LossWatch watch;
    watch.Read(line, 7);
    EXPECT_TRUE(watch.losses().empty()) << line;
  }
}

TEST(LossWatch, TheFirstLossOfAStepCountsAndReportsReplaceLines) {
  LossWatch watch;
  watch.Read("step 1 loss: 3.0", 0);
  watch.Read("step 1 loss: 3.5", 1);  // another rank
  watch.Read("mean loss: 9", 1);      // without the number that others have
  watch.Read("step 2 loss: 2.0", 1);
  EXPECT_THAT(watch.losses(), ElementsAre(Pair(1, 3.0), Pair(2, 2.0)));
  watch.Report(1, 4.0);
  watch.Read("step 3 loss: 1.0", 2);
  EXPECT_THAT(watch.losses(), ElementsAre(Pair(1, 4.0)));
}

}  // namespace
}  // namespace trials
