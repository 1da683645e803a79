#include "trials/programs/loss_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials {
namespace {

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

}  // namespace
}  // namespace trials
