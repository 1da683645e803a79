// Each line has the form that the framework prints, rebuilt from its sources.

#include "trials/programs/loss_watch.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trials/adapters/adapter.h"

namespace trials::loss_watch_test {

using testing::ElementsAre;
using testing::Pair;

bool Diverges(const LogPatterns& patterns, const std::string& line) {
  LossWatch watch(patterns);
  watch.Read(line);
  return !watch.not_finite().empty();
}

bool SaysSkipped(const LogPatterns& patterns, const std::string& line) {
  LossWatch watch(patterns);
  watch.Read(line);
  return !watch.WhyNothingIsLearnt(1).empty();
}

const char* const kMegatron =
    " [2026-04-27 00:00:01.123456] iteration        3/      10 | consumed "
    "samples:          192 | elapsed time per iteration (ms): 4012.5 | "
    "throughput per GPU (TFLOP/s/GPU): 40.4 | learning rate: 1.000000E-04 | "
    "global batch size:    64 |";

TEST(LossWatch, KnowsTheLossOfEachFrameworkThatIsNotFinite) {
  const std::string megatron = kMegatron;
  const std::pair<const char*, std::string> lines[] = {
      // megatron/training/training.py: the loss is far behind in the line, and
      // missing where its iteration is skipped; pretrain_gpt.py.
      {"megatron-lm", megatron + " lm loss: NAN | loss scale: 1.0 |"},
      {"megatron-lm", megatron + " loss scale: 65536.0 | number of skipped "
                                 "iterations:   1 | number of nan "
                                 "iterations:   1 |"},
      {"megatron-lm",
       "RuntimeError: Unexpected result nan on rank 0 at iteration #1 "
       "invocation #1 (message='found NaN in local forward loss "
       "calculation')"},
      // src/megatron/bridge/training/utils/train_utils.py; NeMo 1 and 2.
      {"nemo", megatron + " lm loss: NAN | loss scale: 1.0 |"},
      {"nemo",
       "Training epoch 0, iteration 3/9 | lr: 1.499e-07 | global_step: 3 | "
       "reduced_train_loss: nan | train_step_timing in s: 21.6"},
      {"nemo",
       "Epoch 0:   6%|#  | 3/90 [00:31<12:29, reduced_train_loss=nan.0, "
       "global_step=3.000]"},
      // deepspeed/runtime/pipe/engine.py, and lines of programs.
      {"deepspeed", "steps: 3 loss: nan iter time (s): 1.234 samples/sec: 5.1"},
      {"deepspeed", "epoch 0 step 3 loss = nan"},
      // torchtitan/components/metrics.py
      {"torchtitan",
       "[rank0]:[titan] 2026-02-24 19:46:17,508 - root - INFO - \x1b[31mstep:"
       "  4  \x1b[32mloss:      nan  \x1b[33mgrad_norm:     nan  \x1b[36m"
       "memory: 66.91GiB(37.51%)  \x1b[34mtps: 8,192"},
      // src/nanotron/trainer.py, as human_format prints
      {"nanotron",
       "iteration: 5 / 15 | consumed_tokens: 1.31M | time_per_iteration_ms: "
       "1.22K | tokens_per_sec: 215K | global_batch_size: 262K | lm_loss: nan "
       "| lr: 0.0003"},
      // Transformers 4 and 5 (texts since)
      {"hf-trainer", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 5e-05}"},
      {"hf-trainer-fsdp", "{'loss': 'nan', 'grad_norm': 'nan'}"},
      {"hf-trainer-deepspeed", "{'loss': inf, 'grad_norm': 1.0}"},
      // What programs with Accelerate print.
      {"accelerate-fsdp", "Steps:  30%|###  | 3/10 [00:01<00:02, loss=nan]"}};
  for (const auto& [adapter, line] : lines) {
    const LogPatterns patterns = Adapter::Find(adapter).log();
    EXPECT_TRUE(Diverges(patterns, line)) << adapter << ": " << line;
  }
}

TEST(LossWatch, KnowsTheLossOfAnyProgram) {
  for (const char* line :
       {R"({"loss": NaN, "step": 3})", "loss = -inf", "step 3 loss: Infinity",
        "Epoch 0:  30%|###  | 3/10 [00:01<00:02, train_loss=nan.0]",
        "\x1b[32mloss: \x1b[39m     nan  \x1b[38mmemory: 3GiB",
        "val loss: 2.0, train loss: nan", "minibatch loss: nan",
        "iter 10: loss nan, time 812.40ms, mfu 12.50%",  // nanoGPT
        "step    1/37 | loss nan (+nanz)| norm 1.1 (+nanz)| lr 7e-07",  // llm.c
        "iter 3 | loss train: nan, val: n/a",  // LitGPT
        "step 3 loss nan took 0.15 s", "step 3 loss inf grad norm inf",
        "loss: tensor(nan, device='cuda:0')", "step 3 loss tensor([nan])",
        "loss/train/total: nan",           // Composer
        "Loss is nan, stopping training",  // torchvision
        "The loss returned in `training_step` is nan, stopping"}) {
    EXPECT_TRUE(Diverges(UsualLogPatterns(), line)) << line;
  }
}

TEST(LossWatch, ANumberAnotherLossAndOtherWordsAreNoDivergence) {
  for (const char* line :
       {"{'loss': 2.31, 'grad_norm': 1.3}", "loss scale: inf",
        "loss_scale: inf", "number of nan iterations:   0 |",
        "best_val_loss: inf", "eval_loss = nan", "val loss: nan",
        "min_loss=inf", "validate step: 10  loss: nan  memory: 3GiB",
        "loss: nanometre", "the loss is nan-safe", "skip the loss nan check"}) {
    EXPECT_FALSE(Diverges(UsualLogPatterns(), line)) << line;
  }
  for (const auto& [adapter, line] :
       {std::pair("torchtitan", "INFO - validate step: 4  loss: nan  memory"),
        {"nanotron", "| lm_loss: 1.2K | lr: nan"},
        {"megatron-lm", "lm loss value: NAN | lm loss PPL: NAN |"},
        {"hf-trainer", "{'eval_loss': nan}"}}) {
    EXPECT_FALSE(Diverges(Adapter::Find(adapter).log(), line)) << line;
  }
}

TEST(LossWatch, KnowsTheStepsThatEachFrameworkDoesNotApply) {
  const std::string megatron = kMegatron;
  const std::pair<const char*, std::string> lines[] = {
      {"megatron-lm", megatron + " loss scale: 65536.0 | number of skipped "
                                 "iterations:   1 | number of nan "
                                 "iterations:   0 |"},
      {"nemo", megatron + " number of skipped iterations:   1 |"},
      // deepspeed/runtime/fp16/loss_scaler.py, fused_optimizer.py
      {"deepspeed",
       "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
       "65536, reducing to 32768"},
      {"deepspeed",
       "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted "
       "loss scale: 65536, reducing to 32768"},
      {"hf-trainer-deepspeed",
       "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2"},
      {"torchtitan", "step:  4  loss:  9.1  grad_norm:     nan  memory: 3GiB"},
      {"nanotron", "| lm_loss: 2.3 | grad_norm: nan |"},
      {"accelerate-fsdp", "step 3 loss 2.3 gnorm nan"},
      // A loss that is not finite is left out of the mean that is printed.
      {"hf-trainer", "{'loss': 0.0, 'grad_norm': nan}"},
      {"hf-trainer-fsdp", "{'loss': '0', 'grad_norm': 'nan'}"},
      {"accelerate-fsdp", "Gradient overflow.  Skipping step, loss scaler 0"}};
  for (const auto& [adapter, line] : lines) {
    EXPECT_TRUE(SaysSkipped(Adapter::Find(adapter).log(), line)) << line;
  }
  EXPECT_FALSE(SaysSkipped(Adapter::Find("megatron-lm").log(),
                           megatron + " lm loss: 3.1E+00 | number of skipped "
                                      "iterations:   0 |"));
}

TEST(LossWatch, StepsThatAreAllSkippedTrainNothing) {
  LossWatch watch(UsualLogPatterns());
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
  EXPECT_TRUE(Diverges(UsualLogPatterns(), line + "NAN | loss scale: 1.0 |"));
  LossWatch watch(UsualLogPatterns());
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
    LossWatch watch(UsualLogPatterns());
    watch.Read(line, 7);
    EXPECT_THAT(watch.losses(), ElementsAre(Pair(7, 2.25))) << line;
  }
  for (const char* line :
       {"eval_loss: 2.25", "best_val_loss: 2", "validation loss 2.25",
        "MemAllocated=0.52GBval loss: 2.25", "loss scale: 65536",
        "load_balancing_loss: 1.0", "loss: 2.25.1", "loss: 5%",
        "loss weight"}) {
    LossWatch watch(UsualLogPatterns());
    watch.Read(line, 7);
    EXPECT_TRUE(watch.losses().empty()) << line;
  }
}

TEST(LossWatch, TheFirstLossOfAStepCountsAndReportsReplaceLines) {
  LossWatch watch(UsualLogPatterns());
  watch.Read("step 1 loss: 3.0", 0);
  watch.Read("step 1 loss: 3.5", 1);  // another rank
  watch.Read("mean loss: 9", 1);      // without the number that others have
  watch.Read("step 2 loss: 2.0", 1);
  EXPECT_THAT(watch.losses(), ElementsAre(Pair(1, 3.0), Pair(2, 2.0)));
  watch.Report(4.0, false, "", 1);
  watch.Read("step 3 loss: 1.0", 2);
  EXPECT_THAT(watch.losses(), ElementsAre(Pair(1, 4.0)));
}

// A program prints its loss also for a step that DeepSpeed skips.
TEST(LossWatch, ALossAfterASkippedStepIsOfThatStep) {
  LossWatch watch(UsualLogPatterns());
  for (int step = 0; step < 3; ++step) {
    watch.Read("[deepspeed] OVERFLOW! Rank 0 Skipping step.");
    watch.Read("loss: 2.31");
  }
  EXPECT_THAT(watch.WhyNothingIsLearnt(3), testing::HasSubstr("none of 3"));
  watch.Read("loss: 2.30");
  EXPECT_EQ(watch.WhyNothingIsLearnt(3), "");
}

TEST(LossWatch, APatternThatMatchesNothingEnds) {
  const LogPatterns patterns =
      ReadLogPatterns(common::TomlTable::ParseString("loss = 'x*()'", "p"));
  EXPECT_FALSE(Diverges(patterns, "loss: nan"));
}

}  // namespace trials::loss_watch_test
