// Lines of public reports, rebuilt from what they say (no text is copied): each
// must give the step time that its report means.

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "common/quantiles.h"
#include "trials/adapters/adapter.h"
#include "trials/programs/log_scanner.h"

namespace trials::public_logs_test {

struct Report {
  const char* source;
  const char* adapter;
  StepSizes sizes;
  double step_s;
  const char* lines;
};

const Report kReports[] = {
    {"Megatron-LM 2022, github.com/NVIDIA/nccl/issues/743",
     "megatron-lm",
     {4, 512, 1},
     0.1406,
     " iteration       20/ 1000000 | consumed samples:           80 | elapsed "
     "time per iteration (ms): 140.6 | learning rate: 2.020E-08 |"},
    {"Megatron-LM 2024, github.com/NVIDIA/Megatron-LM/issues/756",
     "megatron-lm",
     {128, 4096, 16},
     5.5338,
     " [2024-04-06 02:59:36] iteration       43/     100 | consumed samples:   "
     " 5504 | elapsed time per iteration (ms): 5444.9 | throughput per GPU "
     "(TFLOP/s/GPU): 239.8 |\n"
     " [2024-04-06 02:59:41] iteration       44/     100 | consumed samples:   "
     " 5632 | elapsed time per iteration (ms): 5533.8 | throughput per GPU "
     "(TFLOP/s/GPU): 236.0 |\n"
     " [2024-04-06 02:59:47] iteration       45/     100 | consumed samples:   "
     " 5760 | elapsed time per iteration (ms): 5718.6 | throughput per GPU "
     "(TFLOP/s/GPU): 228.4 |"},
    {"Megatron-DeepSpeed of BigScience, BLOOM-176B on 48 nodes "
     "(bigscience-workshop/bigscience, train/tr11-176B-ml)",
     "megatron-lm",
     {2048, 2048, 384},
     105.22,
     "[default7]: iteration    12695/  115311 | consumed samples: 9841584 | "
     "consumed tokens:  20155564032 | elapsed time per iteration (s): 105.22 | "
     "learning rate: 5.969E-05 | samples per second: 19.463 | TFLOPs: 149.02 "
     "|"},
    {"Megatron-DeepSpeed of Argonne with the lines of DeepSpeed "
     "(argonne-lcf/Megatron-DeepSpeed)",
     "deepspeed",
     {768, 4096, 24},
     14.2875,
     " iteration      198/  317892 | elapsed time per iteration (ms): 14287.5 "
     "|\n[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/"
     "micro_step=199/global_step=199, RunningAvgSamplesPerSec=58.730622229, "
     "CurrSamplesPerSec=61.35304005, MemAllocated=6.01GB, "
     "MaxMemAllocated=19.52GB\n"
     " iteration      199/  317892 | consumed samples:       152832 | elapsed "
     "time per iteration (ms): 14287.5 | samples per second: 53.753 |"},
    {"Megatron on Ascend, two spaces (Ascend/ModelLink, LLaMA-65B)",
     "megatron-lm",
     {512, 2048, 32},
     52.7281,
     " iteration  11/50000 | consumed samples: 5632 | elapsed time per "
     "iteration (ms):  52728.1 | learning rate:    1.499E-05 | samples per "
     "second: 9.710 |"},
    {"FlagScale (FlagAI-Open/OpenSeek, small baseline)",
     "megatron-lm",
     {1024, 4096, 8},
     271.607,
     "[default0]: [2025-05-27 15:23:07] iteration        2/    24000 | "
     "consumed samples:          2048 | elapsed time per iteration (ms): "
     "271607.0 | throughput per GPU (TFLOP/s/GPU): 40.4 |"},
    {"Primus with Megatron on MI325X, value/mean (AMD-AGI/Primus)",
     "megatron-lm",
     {256, 4096, 32},
     2.7013,
     "[20251121 12:10:29][rank-31/32][INFO ] [--------trainer.py:2488] :  "
     "iteration    12125/   36000 | consumed samples:      3104000 | elapsed "
     "time per iteration (ms): 2701.3/2712.7 | hip mem usage/free/total/"
     "usage_ratio: 227.35GB/28.63GB/255.98GB/88.81% | tokens per GPU "
     "(tokens/s/GPU): 12130.4/12525.5 |"},
    {"DeepSpeed 0.7 (CSCS's example of BERT, 2022)",
     "deepspeed",
     {64, 384, 4},
     64 / 227.48090316,
     "[2022-08-29 06:58:56,121] [INFO] [logging.py:68:log_dist] [Rank 0] "
     "step=20, skipped=17, lr=[5e-05], mom=[(0.9, 0.999)]\n"
     "[2022-08-29 06:58:56,176] [INFO] [timer.py:198:stop] 0/20, "
     "RunningAvgSamplesPerSec=232.7340551, CurrSamplesPerSec=227.48090316, "
     "MemAllocated=0.36GB, MaxMemAllocated=15.06GB"},
    {"DeepSpeed before 0.5 (its utils/timer.py then)",
     "deepspeed",
     {64, 128, 8},
     64 / 128.0,
     "[2021-02-01 10:00:00,100] [INFO] [timer.py:157:stop] 0/100, "
     "SamplesPerSec=128.0"},
    {"DeepSpeed 0.12 (timer.py:260, 4 microsteps a step)",
     "deepspeed",
     {32, 512, 8},
     32 / 25.704280,
     "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/"
     "micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.025771, "
     "CurrSamplesPerSec=25.704280, MemAllocated=4.32GB, "
     "MaxMemAllocated=38.49GB"},
    {"torchtitan, 4 ranks, github.com/pytorch/torchtitan/pull/1884",
     "torchtitan",
     {4, 8192, 4},
     8192 / 5615.0,
     "[rank3]:[titan] 2025-10-15 10:37:01,390 - root - INFO - step:  1  loss: "
     "12.2465  memory: 33.21GiB(34.95%)  tps: 86  tflops: 4.98  mfu: 0.50%\n"
     "[rank0]:[titan] 2025-10-15 10:37:01,391 - root - INFO - step:  1  loss: "
     "12.2465  memory: 33.21GiB(34.95%)  tps: 87  tflops: 5.02  mfu: 0.51%\n"
     "[rank2]:[titan] 2025-10-15 10:37:07,957 - root - INFO - step: 10  loss: "
     "10.2391  memory: 44.84GiB(47.19%)  tps: 5,615  tflops: 325.20\n"
     "[rank3]:[titan] 2025-10-15 10:37:07,957 - root - INFO - step: 10  loss: "
     "10.2391  memory: 44.84GiB(47.19%)  tps: 5,61"},
    {"torchtitan before 2025, 405B on 128 GPUs (128 sequences assumed), "
     "github.com/pytorch/torchtitan/pull/481",
     "torchtitan",
     {128, 8192, 128},
     8192 / 109.0,
     "[rank0]:2024-07-24 10:00:00,100 - root - INFO - \x1b[36mstep: 10  "
     "\x1b[32mloss:  9.1000  \x1b[33mmemory: 70.10GiB(73.8%)  \x1b[34mwps: "
     "109  \x1b[35mmfu: 29.00%\x1b[0m"},
    {"torchtitan's line of validation is no step (components/metrics.py)",
     "torchtitan",
     {64, 8192, 8},
     64 * 8192 / (8192 * 8.0),
     "[titan] 2026-01-01 10:00:00,1 - root - INFO - \x1b[31mstep: 20  "
     "\x1b[32mloss:  9.1  \x1b[34mtps: 8,192  \x1b[36mtflops: 300.00\n"
     "[titan] 2026-01-01 10:00:09,1 - root - INFO - \x1b[33mvalidate step: 25"
     "  \x1b[32mloss:  9.0  \x1b[38mmemory: 40.00GiB(50.00%)  \x1b[34mtps: "
     "30,000\x1b[0m"},
    {"torchtitan of early 2024 (its train.py then)",
     "torchtitan",
     {8, 2048, 8},
     1.2345,
     "2024-02-26 10:00:00,100 - root - INFO - \x1b[36mstep:  2  \x1b[32mloss: "
     " 9.8512\x1b[39m  \x1b[39miter: \x1b[34m 1.2345\x1b[39m  data: \x1b[34m"
     "0.0106  \x1b[39mlr: \x1b[33m0.0004\x1b[39m"},
    {"nanotron 2025, github.com/huggingface/nanotron/issues/390",
     "nanotron",
     {64, 4096, 2},
     11.5,
     "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | "
     "consumed_tokens: 85.8G | elapsed_time_per_iteration_ms: 11.5K | "
     "tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K |"},
    {"nanotron 2024, github.com/huggingface/nanotron/pull/23",
     "nanotron",
     {20, 32, 8},
     0.272,
     "01/17/2024 14:02:16 [INFO|DP=0|PP=0|TP=0|ip-26-0-160-225]: iteration: "
     "991 / 1000 | consumed_tokens: 634K | elapsed_time_per_iteration_ms: 272 "
     "| tokens_per_sec: 2.35K |"},
    {"NeMo 1's progress bar (NVIDIA's DGX Cloud recipes, Nemotron 15B)",
     "nemo",
     {256, 4096, 64},
     3.13,
     "Epoch 0: : 100%|##########| 100/100 [10:48<00:00, "
     "reduced_train_loss=0.0172, global_step=99.00, consumed_samples=25600.0, "
     "train_step_timing in s=3.130]"},
    {"NeMo 2 (a guide to fine-tuning)",
     "nemo",
     {8, 2048, 8},
     2.505,
     "Training epoch 0, iteration 0/249 | lr: 1.961e-06 | global_batch_size: 8 "
     "| global_step: 0 | reduced_train_loss: 1.315 | train_step_timing in s: "
     "7.126\nTraining epoch 0, iteration 1/249 | lr: 3.922e-06 | "
     "global_batch_size: 8 | global_step: 1 | reduced_train_loss: 1.653 | "
     "train_step_timing in s: 2.505 | consumed_samples: 16\n"
     "Training epoch 0, iteration 2/249 | lr: 5.882e-06 | global_batch_size: 8 "
     "| global_step: 2 | reduced_train_loss: 1.278 | train_step_timing in s: "
     "2.505 | consumed_samples: 24"},
    {"Lightning 1, github.com/Lightning-AI/pytorch-lightning/issues/4225: its "
     "4.14 s are a mean with the first step of 8.77 s; the bar goes on as it "
     "does there",
     "nemo",
     {8, 512, 1},
     3.0,
     "Epoch 0:   6%|#         | 1/18 [00:08<02:29,  8.77s/it]\n"
     "Epoch 0:  28%|##8       | 5/18 [00:20<00:53,  4.14s/it, loss=9.947, "
     "v_num=193315]\n"
     "Epoch 0:  50%|#####     | 9/18 [00:32<00:32,  3.61s/it, loss=9.947, "
     "v_num=193315]"},
    {"Accelerate with FSDP, every rank has its bar, "
     "github.com/huggingface/accelerate/issues/2375",
     "accelerate-fsdp",
     {16, 2048, 8},
     31.82,
     "Map: 100%|###################| 669/669 [00:00<00:00, 2960.52 "
     "examples/s]\n"
     "Training: 100%|###################| 15/15 [07:57<00:00, 31.82s/it]\n"
     "Training: 100%|###################| 15/15 [07:57<00:00, 31.83s/it]\n"
     "Training: 100%|###################| 15/15 [07:56<00:00, 31.80s/it]\n"
     "Evaluating: 100%|###################| 2/2 [00:19<00:00,  9.58s/it]"},
    {"FSDP recipes of Llama, github.com/meta-llama/llama-cookbook/pull/206",
     "accelerate-fsdp",
     {64, 2048, 2},
     4.65,
     "Loading checkpoint shards: 100%|####| 4/4 [00:02<00:00,  1.95it/s]\n"
     "Training Epoch: 3/3, step 56/57 completed (loss: 0.6804153323173523): "
     "100%|####| 57/57 [04:25<00:00,  4.65s/it]\n"
     "evaluating Epoch: 100%|####| 102/102 [00:27<00:00,  3.71it/s]"},
    {"Trainer with tqdm, github.com/huggingface/transformers/issues/262: the "
     "shown 9.33 s are smoothed",
     "hf-trainer",
     {10, 512, 1},
     12.5,
     "Loading checkpoint shards: 100%|####| 4/4 [01:12<00:00, 18.05s/it]\n"
     "  1%|#      | 2/203 [00:12<16:46,  5.01s/it\n"
     "  1%|#      | 2/203 [00:12<16:46,  5.01s/it]\r"
     "  1%|##     | 3/203 [00:20<19:53,  5.97s/it]\r"
     "  2%|###    | 4/203 [00:37<30:55,  9.33s/it]\n"
     "  0%|       | 0/63 [00:00<?, ?it/s]\r 3%|#  | 2/63 [00:01<00:31, "
     "1.94it/s]\n"},
    {"Trainer without tqdm: the mean of the run "
     "(github.com/huggingface/transformers/pull/11818)",
     "hf-trainer",
     {64, 512, 4},
     64 / 160.0,
     "{'loss': 2.31, 'grad_norm': 1.3, 'learning_rate': 5e-05, 'epoch': 0.1}\n"
     "{'train_runtime': 40.0, 'train_samples_per_second': 160.0, "
     "'train_steps_per_second': 2.5, 'train_loss': 2.1, 'epoch': 1.0}"},
};

TEST(PublicLogs, EachGivesTheStepTimeOfItsReport) {
  for (const Report& report : kReports) {
    SCOPED_TRACE(report.source);
    std::vector<double> steps =
        ReadLog(Adapter::Find(report.adapter).log(), report.sizes, report.lines)
            .step_times_s;
    ASSERT_FALSE(steps.empty());
    if (steps.size() > 1) {
      steps.erase(steps.begin());
    }
    EXPECT_NEAR(common::Median(steps), report.step_s, 0.02 * report.step_s);
  }
}

}  // namespace trials::public_logs_test
