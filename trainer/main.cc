// oppa-train: trains a transformer under one parallelism configuration.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "common/files.h"
#include "common/json.h"
#include "common/text.h"
#include "trainer/count.h"
#include "trainer/job.h"
#include "trainer/trial.h"
#include "trials/parallel_config.h"

namespace {

constexpr double kMostInteger = 9e18;  // what is larger would be cut

using common::InputError;
using common::Json;
using trainer::Backend;
using trainer::CpuPrecision;
using trainer::EndReason;
using trainer::Job;
using trainer::LaunchOptions;
using trainer::TrialResult;

struct Options {
  std::string model;
  int batch_size = 0;
  int sequence_length = 0;
  std::string config;
  int steps = 0;
  std::int64_t seed = -1;
  int scale = 1;
  double learning_rate = 1e-3;
  std::string backend = "cpu";
  std::int64_t memory_bytes = 0;
  std::string report;
  std::string fault;
  bool count = false;
  LaunchOptions launch{.local_ranks = 0};  // 0: all
};

void Define(CLI::App& app, Options& o) {
  app.add_option("--model", o.model, "Hugging Face config.json")
      ->required()
      ->type_name("FILE");
  app.add_option("--batch-size", o.batch_size, "sequences per step, all ranks")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--sequence-length", o.sequence_length,
                 "tokens per sequence (default for images: all patches)")
      ->check(CLI::PositiveNumber);
  app.add_option("--config", o.config,
                 "configuration, such as dp=4,tp=2,zero_stage=1 (default: that "
                 "of OPPA_TRIAL, else one rank)");
  app.add_option("--steps", o.steps,
                 "steps (default: max_steps of OPPA_TRIAL, else 10)")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", o.seed, "seed of weights and data (default: 0)")
      ->check(CLI::Range(0.0, kMostInteger));
  app.add_option("--scale", o.scale, "divide the sizes of the model by this")
      ->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", o.learning_rate, "of Adam")
      ->capture_default_str();
  app.add_option("--backend", o.backend,
                 "cpu, cuda, or emulated: the kernels of cuda on the CPU, for "
                 "tests")
      ->check(CLI::IsMember({"cpu", "cuda", "emulated"}))
      ->capture_default_str();
  app.add_option("--precision", o.launch.precision,
                 "cpu: float (default) or double; cuda: bf16 (default) or "
                 "float")
      ->check(CLI::IsMember({"float", "double", "bf16"}));
  app.add_option("--memory", o.memory_bytes,
                 "bytes that a rank can have at most")
      ->check(CLI::Range(1.0, kMostInteger));
  app.add_option("--comm", o.launch.communication,
                 "threads or nccl (default: what fits)")
      ->check(CLI::IsMember({"threads", "nccl"}));
  app.add_option(
      "--rendezvous", o.launch.rendezvous,
      "file of a shared file system where ranks of several processes "
      "meet");
  app.add_option("--first-rank", o.launch.first_rank,
                 "first rank here (default: SLURM_PROCID * --local-ranks)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--local-ranks", o.launch.local_ranks,
                 "ranks of this process (default: all)")
      ->check(CLI::PositiveNumber);
  app.add_option("--timeout-s", o.launch.timeout_s,
                 "end if a rank does not enter a collective for this long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--report", o.report, "write what was measured as JSON")
      ->type_name("FILE");
  app.add_flag("--count", o.count,
               "do not train: print the peak memory of the first rank of each "
               "stage, and its traffic in a step, as JSON");
  app.add_option("--fault", o.fault,
                 "for tests: die, hang, leave or memory, rank and step "
                 "(die:2:3)");
}

// The variable OPPA_TRIAL of docs/external-trials.md; null without it.
Json ReadTrial() {
  const char* text = std::getenv("OPPA_TRIAL");
  return text == nullptr ? Json() : common::ParseJson(text, "OPPA_TRIAL");
}

std::string ConfigText(const Json& config) {
  std::string text;
  for (const auto& [name, value] : config.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value.dump());
  }
  return text;
}

trainer::Fault ParseFault(const std::string& text) {
  trainer::Fault fault;
  const auto first = text.find(':');
  const auto second = text.find(':', first + 1);
  try {
    fault.kind = text.substr(0, first);
    fault.rank = std::stoi(text.substr(first + 1, second));
    fault.step = std::stoi(text.substr(second + 1));
  } catch (const std::exception&) {
    throw InputError(fmt::format(
        "invalid value '{}' for --fault: it must be KIND:RANK:STEP", text));
  }
  return fault;
}

template <typename T>
T Integer(const Json& trial, const char* key) {
  try {
    return common::ToInteger<T>(trial.at(key));
  } catch (const std::invalid_argument& e) {
    common::FailToConvert(fmt::format("OPPA_TRIAL: {}", key), e);
  }
}

Job MakeJob(const Options& o) {
  const Json trial = ReadTrial();
  Job job;
  try {
    const std::string config = !o.config.empty() ? o.config
                               : trial.is_null()
                                   ? "dp=1,tp=1,pp=1"
                                   : ConfigText(trial.at("config"));
    job.config = trials::ParseParallelConfig(config);
    job.steps = o.steps > 0       ? o.steps
                : trial.is_null() ? 10
                                  : Integer<int>(trial, "max_steps");
    job.seed = o.seed >= 0              ? static_cast<std::uint64_t>(o.seed)
               : trial.is_null()        ? 0
               : trial.contains("seed") ? Integer<std::uint64_t>(trial, "seed")
                                        : 0;
  } catch (const Json::exception& e) {
    common::FailToConvert("OPPA_TRIAL", e);
  }
  job.model = trials::ReadModel(o.model);
  job.constants = trainer::ReadModelConstants(o.model);
  job.batch_size = o.batch_size;
  job.sequence_length = o.sequence_length;
  if (o.sequence_length == 0) {
    if (job.model.patch_size == 0) {
      throw InputError("--sequence-length is required for this model");
    }
    job.sequence_length = job.model.max_positions;
  }
  job.adam.learning_rate = o.learning_rate;
  job.memory_bytes = o.memory_bytes;
  job.timeline = !o.report.empty();
  if (!o.fault.empty()) {
    job.fault = ParseFault(o.fault);
  }
  job = trainer::Scale(job, o.scale);
  trainer::CheckJob(job);
  return job;
}

// A path of this trial alone on the file system of the results: next to the
// file of its reports, with the step of Slurm that runs it.
std::string DefaultRendezvous() {
  const char* report = std::getenv("OPPA_REPORT");
  const char* job = std::getenv("SLURM_JOB_ID");
  const char* step = std::getenv("SLURM_STEP_ID");
  return report == nullptr || job == nullptr || step == nullptr
             ? ""
             : fmt::format("{}.{}.{}", report, job, step);
}

LaunchOptions MakeLaunch(const Options& o, const Job& job) {
  LaunchOptions launch = o.launch;
  launch.world_size = job.ranks();
  const char* process = std::getenv("SLURM_PROCID");
  if (launch.local_ranks <= 0) {
    launch.local_ranks = job.ranks();
  } else if (process != nullptr) {
    const int most = launch.world_size / launch.local_ranks;
    const auto number = common::ParseInt(process, 0, most);
    if (!number) {
      throw InputError(fmt::format(
          "SLURM_PROCID = '{}': the configuration has {} processes of {} ranks",
          process, most, launch.local_ranks));
    }
    launch.first_rank = *number * launch.local_ranks;
  }
  if (launch.rendezvous.empty()) {
    launch.rendezvous = DefaultRendezvous();
  }
  if (launch.first_rank > launch.world_size - launch.local_ranks) {
    throw InputError(fmt::format(
        "invalid --first-rank {} with {} ranks: the configuration has {}",
        launch.first_rank, launch.local_ranks, launch.world_size));
  }
  return launch;
}

// libtrainer_NAME.so next to this program, or where it is installed.
std::unique_ptr<Backend> LoadModule(const std::string& name,
                                    const LaunchOptions& launch) {
  const std::string file = fmt::format("libtrainer_{}.so", name);
  const auto folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const bool is_here = std::filesystem::exists(folder / file);
  // A name without a folder is looked up in the RUNPATH of this program.
  const std::string path = is_here ? (folder / file).string() : file;
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    throw InputError(fmt::format(
        "--backend {} is not available: {}; build on a machine with nvcc", name,
        dlerror()));
  }
  const auto entry = reinterpret_cast<trainer::ModuleEntry>(
      dlsym(module, trainer::kModuleEntry));
  const char* error = "not a device module";
  Backend* backend = entry == nullptr ? nullptr : entry(launch, &error);
  if (backend == nullptr) {
    throw InputError(
        fmt::format("--backend {} is not available: {}", name, error));
  }
  return std::unique_ptr<Backend>(backend);
}

std::unique_ptr<Backend> MakeBackend(const Options& o,
                                     const LaunchOptions& launch) {
  if (o.backend != "cpu") {
    if (launch.precision == "double") {
      throw InputError(fmt::format(
          "--backend {} computes in bf16 or float, not in double", o.backend));
    }
    return LoadModule(o.backend, launch);
  }
  if (launch.precision == "bf16" || launch.communication == "nccl") {
    throw InputError("--backend cpu has neither bf16 nor nccl");
  }
  if (launch.local_ranks != launch.world_size) {
    throw InputError(
        "--backend cpu runs all ranks in one process; leave out --local-ranks");
  }
  return trainer::MakeCpuBackend(launch, launch.precision == "double"
                                             ? CpuPrecision::kDouble
                                             : CpuPrecision::kFloat);
}

// One report of docs/external-trials.md, with one write.
void Report(const Json& json) {
  const std::string line = "oppa " + common::ToText(json) + "\n";
  const char* path = std::getenv("OPPA_REPORT");
  const int file = path == nullptr
                       ? STDOUT_FILENO
                       : open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (write(file, line.data(), line.size()) < 0) {
    std::cerr << "oppa-train: could not write a report\n";
  }
  if (path != nullptr) {
    close(file);
  }
}

std::int64_t PeakBytes(const TrialResult& result) {
  std::int64_t peak = 0;
  for (const auto& rank : result.ranks) {
    peak = std::max(peak, rank.peak_bytes);
  }
  return peak;
}

int stop_pipe[2];  // from the signal handler to the thread that stops

void HandleSignal(int signal) {
  const char number = static_cast<char>(signal);
  (void)!write(stop_pipe[1], &number, 1);
}

// SIGTERM and SIGINT end the trial at once, also in the middle of a step. A
// handler and not a signal mask, because libraries have started threads before.
void StopOnSignal(Backend& backend) {
  if (pipe2(stop_pipe, O_CLOEXEC) != 0) {
    throw std::runtime_error("could not create a pipe");
  }
  std::thread([&backend] {
    char signal = 0;
    if (read(stop_pipe[0], &signal, 1) == 1) {
      backend.fabric().Abort(EndReason::kStopped,
                             fmt::format("stopped by signal {}", int{signal}));
    }
  }).detach();
  struct sigaction action = {};
  action.sa_handler = HandleSignal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

int Finish(const Options& o, const Job& job, const TrialResult& result) {
  if (const std::int64_t peak = PeakBytes(result); peak > 0) {
    Report({{"peak_memory_bytes", peak}});
  }
  if (!o.report.empty()) {
    const std::string text =
        common::ToText(trainer::ToJson(job, result), 1) + "\n";
    common::ReplaceFile(o.report, text);
  }
  switch (result.reason) {
    case EndReason::kNone:
      return EXIT_SUCCESS;
    case EndReason::kOutOfMemory:
      Report({{"status", "out_of_memory"}, {"message", result.message}});
      return EXIT_SUCCESS;
    case EndReason::kStopped:
      std::cout << result.message << std::endl;
      return EXIT_SUCCESS;
    case EndReason::kFailed:
      break;
  }
  Report({{"status", "failed"}, {"message", result.message}});
  return EXIT_FAILURE;
}

int Run(const Options& o) {
  const Job job = MakeJob(o);
  const LaunchOptions launch = MakeLaunch(o, job);
  const std::unique_ptr<Backend> backend = MakeBackend(o, launch);
  if (o.count) {
    const TrialResult result =
        trainer::CountMemory(job, *backend->MakeDevice(0));
    std::cout << common::ToText(trainer::ToJson(job, result), 1) << "\n";
    return EXIT_SUCCESS;
  }
  StopOnSignal(*backend);
  if (launch.first_rank == 0) {
    std::cout << fmt::format("oppa-train: {} on {} ranks, {}\n", job.model.name,
                             job.ranks(), backend->description())
              << std::flush;
  }
  const auto step_done = [&](int step, double seconds, double loss) {
    if (launch.first_rank == 0) {
      std::cout << fmt::format("step {} loss {:.10g} time {:.6f} s\n", step,
                               loss, seconds)
                << std::flush;
      Report({{"step_time_s", seconds}});
    }
  };
  const TrialResult result =
      trainer::RunTrial(job, *backend, launch, step_done);
  const int code = Finish(o, job, result);
  std::cout << std::flush;
  std::_Exit(code);  // threads that wait for signals or are stuck end here
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CLI::App app(
        "Trains a transformer for a few steps under one parallelism "
        "configuration.",
        "oppa-train");
    Options options;
    Define(app, options);
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp& e) {
      return app.exit(e);
    } catch (const CLI::ParseError& e) {
      std::cerr << "oppa-train: " << e.what() << "\n";
      return 2;
    }
    return Run(options);
  } catch (const std::invalid_argument& e) {
    std::cerr << "oppa-train: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "oppa-train: " << e.what() << "\n";
    return EXIT_FAILURE;
  }
}
