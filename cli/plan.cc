// plan.

#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/tone.h"
#include "cli/verb_options.h"
#include "common/error.h"
#include "common/output.h"
#include "jobs/plan/forecast_request.h"

namespace cli {
namespace {

// What a reader looks for, and what makes an answer doubtful.
jobs::Tone ToneOf(std::string_view line) {
  if (line.starts_with("fastest")) {
    return jobs::Tone::kGood;
  }
  return line.starts_with("a guess:") || line.starts_with("no configuration")
             ? jobs::Tone::kBad
             : jobs::Tone::kPlain;
}

int Forecast(const jobs::ForecastRequest& request) {
  std::string missing;
  missing += request.model.empty() ? " --model" : "";
  missing += request.gpus.empty() ? " --gpus" : "";
  missing += request.batch_size == 0 ? " --batch" : "";
  missing += request.sequence_length == 0 ? " --seq" : "";
  if (!missing.empty() && request.train_job.empty()) {
    throw common::InputError(fmt::format(
        "plan: missing{}; example: oppa plan --model config.json --gpus 2x8 "
        "--gpu h100 --batch 256 --seq 8192",
        missing));
  }
  jobs::ForecastRequest fitted = request;
  fitted.columns = common::StandardDisplay().columns;
  const jobs::ForecastAnswer answer = jobs::RunPlan(fitted);
  std::string_view rest = answer.text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    PrintIn(ToneOf(line), std::string(line));
    rest.remove_prefix(line.size());
  }
  return answer.complete ? 0 : 1;
}

Options JobOptions(jobs::ForecastRequest& request) {
  constexpr Range kSizes{1, 1 << 24};
  return {
      Bind("--model MODEL",
           "config.json of Hugging Face, a folder that contains one, or sizes: "
           "layers=32,hidden=4096,heads=32,ffn=14336,vocab=128256",
           request.model),
      TrainingOption(request.training),
      Bind("--config-file FILE",
           "the file of DeepSpeed, Accelerate, FSDP, torchtitan or nanotron, "
           "whose offload, precision and optimizer the forecast counts; the "
           "command keeps its other keys",
           request.config_file),
      Bind("--gpus SIZE",
           "nodes x GPUs (2x8), GPUs (16), or sizes to compare (8..1024)",
           request.gpus),
      Bind("--gpu NAME", "kind of GPU, such as h100", request.machine.gpu),
      Bind("--batch N", "sequences per step over all GPUs", request.batch_size,
           kSizes),
      Bind("--seq N", "tokens of a sequence", request.sequence_length, kSizes),
      Bind("--precision NAME", "fp32, fp16, bf16 (default) or fp8",
           request.precision),
      Bind("--framework A,B,...",
           "adapters or frameworks (default: megatron-lm,torchtitan)",
           request.frameworks),
      Bind("--cluster NAME",
           "file or name of a cluster, instead of the usual node of the GPU",
           request.machine.cluster),
      Bind("--intra GB/S",
           "bandwidth between two GPUs of a node, per direction",
           request.machine.intra_gb_per_s),
      Bind("--inter GB/S", "bandwidth of a network card, per direction",
           request.machine.inter_gb_per_s),
      Bind("--nics N", "network cards of a node", request.nics_per_node),
  };
}

Options OutputOptions(jobs::ForecastRequest& request) {
  const auto print_as = [&request](jobs::OutputFormat format) {
    return [&request, format](const std::string&) {
      if (request.format != jobs::OutputFormat::kText &&
          request.format != format) {
        throw common::InputError("--json and --csv exclude each other");
      }
      request.format = format;
    };
  };
  return {
      Bind("--headroom PERCENT", "memory that stays free (default: 10)",
           request.headroom_percent, {.low = 0}),
      Bind("--rule EXPRESSION",
           "exclude configurations for which this is true: '$tp > 4'",
           request.rules),
      Bind("--constant KEY=VALUE",
           "change a constant of the framework: expert_imbalance=1.0 (balanced "
           "experts), expert_overlap=1.0, token_once_per_host=true",
           request.constants),
      Bind("--layouts N", "print this number of layouts", request.layouts),
      Bind("--calibrate RESULTS",
           "scale predictions to measured trials: a results folder, or a CSV "
           "file with parameters and step_time_s",
           request.calibrate),
      Bind("--save-calibration FILE",
           "write what --calibrate learned, for --calibration",
           request.save_calibration),
      Bind("--calibration FILE", "a saved calibration, instead of --calibrate",
           request.calibration),
      Bind("--accept-foreign",
           "take a calibration that scales computation as that of another job "
           "would",
           request.accept_foreign),
      Bind("--check RESULTS",
           "print how far predictions of other measured trials are off",
           request.check),
      Bind("--price PRICE",
           "USD of a GPU hour, or of each --gpu: h100=2.5,b200=4",
           request.price),
      Bind("--most-money MONEY",
           "find the fastest training that costs at most this; with --price "
           "and --steps",
           request.most_money),
      Bind("--steps N", "steps of the training, with --most-money",
           request.steps),
      Bind("--details",
           "print also the shares of a step, memory, neighbors, other "
           "releases, and what was excluded",
           request.details),
      ColorOption(),
      MakeOption("--json", "print JSON", print_as(jobs::OutputFormat::kJson)),
      MakeOption("--csv", "print CSV", print_as(jobs::OutputFormat::kCsv)),
  };
}

// What starts the job.
Options LaunchOptions(jobs::ForecastRequest& request) {
  return {
      Bind("--write DIR",
           "write the fastest configuration as a script and the files of the "
           "framework",
           request.write.path),
      Bind("--slurm", "with --write, a batch script for sbatch",
           request.write.slurm),
      Bind("--k8s",
           "with --write, a TrainJob of Kubeflow Trainer, with its files",
           request.write.k8s),
      Bind("--queue NAME", "with --k8s, the LocalQueue of Kueue that starts it",
           request.write.queue),
      Bind("--trainjob FILE",
           "print this TrainJob with the GPUs and the layout that are best for "
           "its command line (-: standard input)",
           request.train_job),
      Bind("--force", "with --write, replace files that differ",
           request.write.force)};
}

Options PictureOptions(jobs::ForecastRequest& request) {
  return {
      Bind("--html FILE",
           "also write the plan as a page: memory, timeline, placement, steps "
           "of batch, GPUs and bandwidths; with --tokens, that table and a "
           "picture",
           request.html),
      Bind("--trace FILE",
           "also write the simulated step of the fastest layout, or that of "
           "--config, for Perfetto (JSON)",
           request.trace)};
}

// What a whole training takes.
Options TrainingOptions(jobs::TrainingAssumptions& training) {
  return {
      Bind("--tokens N",
           "days, money and energy of a training with this number of tokens on "
           "each --gpu (h100,b200) and number of --gpus (64..1024)",
           training.tokens),
      Bind("--co2 GRAMS", "CO2 of a kWh, with --tokens",
           training.grams_co2_per_kwh),
      Bind("--failures RATE",
           "unplanned interruptions per GPU and day, with --tokens",
           training.failures_per_gpu_day, {.low = 0}),
      Bind("--restart-minutes N",
           "until a restarted training trains again, with --tokens",
           training.restart_minutes, {.low = 0}),
      Bind("--storage GB/S", "writing of a checkpoint, per node, with --tokens",
           training.storage_gb_per_s_per_node),
  };
}

// Questions about a plan.
Options QuestionOptions(jobs::ForecastRequest& request) {
  return {
      Bind("--why CONFIG",
           "explain the best configuration with these values, or why none is "
           "offered: dp=8,tp=2 or a layout as printed",
           request.why),
      BindEach("--compare WHAT",
               "where the step and the memory differ from the fastest, or of "
               "two (twice): a layout (dp=8,tp=2), a framework, a kind of GPU "
               "or a cluster",
               request.compare)};
}

// A run to compare with.
Options RunOptions(jobs::ForecastRequest& request) {
  return {
      Bind("--log FILES",
           "compare a run with its forecast: the log of the framework, a trace "
           "of PyTorch's profiler (JSON), or both: run.log,trace.json",
           request.logs),
      Bind("--step-time REGEX",
           "where that log has the seconds of a step: 'took ([0-9.]+) s' "
           "(default: as the adapter reads them)",
           request.step_time),
      Bind("--config CONFIG",
           "the configuration of that run, or of --trace: dp=8,tp=2,... "
           "(default: as the log of Megatron-LM has it)",
           request.config)};
}

}  // namespace

Verbs PlanVerbs() {
  const auto request = std::make_shared<jobs::ForecastRequest>();
  return {{.group = kJobs,
           .name = "plan",
           .summary = "find fast layouts for a training job by simulation",
           .description =
               "Predicts every configuration of the job and prints the fastest "
               "layouts with their throughput and memory, and the command of "
               "the first. It needs no GPU and no manifest.",
           .options = JobOptions(*request) +
                      ModelOptionsOf(request->model_options) +
                      OutputOptions(*request) + LaunchOptions(*request) +
                      PictureOptions(*request) +
                      TrainingOptions(request->training_assumptions) +
                      QuestionOptions(*request) + RunOptions(*request),
           .examples = {"oppa plan --model config.json --gpus 2x8 --gpu h100 "
                        "--batch 256 --seq 8192",
                        "oppa plan --model config.json --gpus 8..1024 --gpu "
                        "h100 --batch 1024 --seq 8192 --price 2.5"},
           .run = [request](const Words&) { return Forecast(*request); }}};
}

}  // namespace cli
