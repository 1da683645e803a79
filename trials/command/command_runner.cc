#include "trials/command/command_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

#include "common/error.h"
#include "common/hash.h"
#include "trials/command/contained_process.h"
#include "trials/command/trial_log.h"
#include "trials/command/trial_report.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

constexpr double kLookSeconds = 0.1;
constexpr std::size_t kMostMessage = 300;  // bytes
constexpr std::size_t kMostFileName = 200;

double Now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

fs::path LogPath(const fs::path& folder, const ParallelConfig& config) {
  if (folder.empty()) {
    return {};
  }
  std::string name = ToString(config);
  if (name.size() > kMostFileName) {
    name = fmt::format("{:016x}", common::DeriveSeed(name));
  }
  return folder / (name + ".log");
}

// "exit code 3", "killed by signal 11 (Segmentation fault)".
std::string HowItEnded(const std::optional<int>& status) {
  if (!status) {
    return "its end was not seen";
  }
  return WIFSIGNALED(*status)
             ? fmt::format("killed by signal {} ({})",
                           WTERMSIG(*status),
                           strsignal(WTERMSIG(*status)))
             : fmt::format("exit code {}", WEXITSTATUS(*status));
}

// One trial while it runs.
class RunningTrial {
 public:
  RunningTrial(const CommandOptions& options,
               const TrialRequest& request,
               const ContainedProcess::Spec& spec,
               const fs::path& log)
      : options_(options),
        request_(request),
        limit_s_(std::min(request.time_limit_s, options.timeout_s)),
        log_(log, static_cast<std::size_t>(options.log_bytes)),
        begin_s_(Now()),
        last_report_s_(begin_s_),
        process_(spec) {}

  Measurement Run() {
    const auto take = [this](ContainedProcess::Stream stream,
                             std::string_view text) { Take(stream, text); };
    while (process_.Read(kLookSeconds, take)) {
      Look(Now());
    }
    output_.Finish([this](std::string_view line) { TakeOutput(line); });
    errors_.Finish([this](std::string_view line) { LookForMemory(line); });
    if (process_.start_error() != 0) {
      throw std::runtime_error(fmt::format("cannot start {}: {}",
                                           options_.program.front(),
                                           strerror(process_.start_error())));
    }
    if (interrupted_) {
      throw TrialInterrupted("the trial was ended before its time");
    }
    return Judge();
  }

 private:
  [[nodiscard]] bool IsThrough() const {
    return std::cmp_greater_equal(result_.step_times_s.size(),
                                  request_.max_steps);
  }

  // Ends the trial for a reason that stays.
  void End(Outcome outcome, std::string why) {
    if (!decided_) {
      decided_ = outcome;
      result_.message = std::move(why);
    }
    process_.End();
  }

  void Look(double now_s) {
    if (request_.interrupted && !decided_ && !IsThrough() &&
        request_.interrupted()) {
      interrupted_ = true;
      process_.End();
    }
    if (decided_ || interrupted_) {
      return;
    }
    if (IsThrough()) {  // it may tear down and tell its peak
      if (now_s - last_report_s_ > options_.patience_s) {
        process_.End();
      }
    } else if (now_s - begin_s_ >= limit_s_) {
      End(Outcome::kTimedOut,
          limit_s_ < request_.time_limit_s
              ? fmt::format("cut off after {:g} s (backend.timeout_s)",
                            limit_s_)
              : "cut off at the time limit");
    } else if (now_s - last_report_s_ >= options_.silence_s) {
      End(Outcome::kTimedOut,
          fmt::format("hangs: no report for {:g} s (backend.silence_s)",
                      options_.silence_s));
    }
  }

  void Take(ContainedProcess::Stream stream, std::string_view text) {
    log_.Append(text);
    if (stream == ContainedProcess::Stream::kOutput) {
      output_.Take(text, [this](std::string_view line) { TakeOutput(line); });
    } else {
      errors_.Take(text,
                   [this](std::string_view line) { LookForMemory(line); });
    }
  }

  void TakeOutput(std::string_view line) {
    LookForMemory(line);
    if (decided_) {
      return;
    }
    try {
      if (const auto report = ParseTrialReport(line)) {
        TakeReport(*report);
      }
    } catch (const std::invalid_argument& e) {
      End(Outcome::kFailed, e.what());
    }
  }

  void LookForMemory(std::string_view line) {
    for (const std::string& text : options_.out_of_memory) {
      if (!text.empty() && line.find(text) != std::string_view::npos) {
        says_out_of_memory_ = line.substr(0, kMostMessage);
      }
    }
  }

  void TakeReport(const TrialReport& report) {
    last_report_s_ = Now();
    if (report.peak_memory_bytes) {
      result_.peak_memory_bytes = std::max(
          result_.peak_memory_bytes.value_or(0.0), *report.peak_memory_bytes);
    }
    if (report.step_time_s && !IsThrough()) {
      if (result_.step_times_s.empty()) {
        result_.setup_s =
            std::max(last_report_s_ - begin_s_ - *report.step_time_s, 0.0);
      }
      result_.step_times_s.push_back(*report.step_time_s);
      const bool go_on =
          !request_.on_step || request_.on_step(*report.step_time_s);
      if (!go_on && !IsThrough()) {
        End(Outcome::kTerminatedEarly, "");
      }
    }
    if (report.status) {
      End(*report.status,
          report.message.empty() ? "says the program" : report.message);
    }
  }

  Measurement Judge() {
    const double duration_s = Now() - begin_s_;
    if (result_.step_times_s.empty()) {
      result_.setup_s = duration_s;
    }
    result_.duration_s = std::min(duration_s, request_.time_limit_s);
    result_.setup_s = std::min(result_.setup_s, result_.duration_s);
    if (decided_) {
      result_.outcome = *decided_;
    } else if (IsThrough()) {
      result_.outcome = Outcome::kCompleted;
    } else if (!says_out_of_memory_.empty()) {
      result_.outcome = Outcome::kOutOfMemory;
      result_.message = says_out_of_memory_;
    } else {
      result_.outcome = Outcome::kFailed;
      const std::string last = log_.LastLine();
      result_.message = fmt::format("{} after {} of {} steps{}{}",
                                    HowItEnded(process_.wait_status()),
                                    result_.step_times_s.size(),
                                    request_.max_steps,
                                    last.empty() ? "" : ": ",
                                    last);
    }
    result_.message.resize(std::min(result_.message.size(), kMostMessage));
    return result_;
  }

  const CommandOptions& options_;
  const TrialRequest& request_;
  double limit_s_;
  TrialLog log_;
  LineReader output_;
  LineReader errors_;
  Measurement result_;
  std::optional<Outcome> decided_;
  bool interrupted_ = false;
  std::string says_out_of_memory_;
  double begin_s_;
  double last_report_s_;
  ContainedProcess process_;
};

}  // namespace

CommandRunner::CommandRunner(CommandOptions options, Cluster cluster)
    : options_(std::move(options)), cluster_(std::move(cluster)) {}

Measurement CommandRunner::Run(const TrialRequest& request) {
  if (options_.ranks != CommandOptions::Ranks::kOne &&
      std::getenv("SLURM_JOB_ID") == nullptr) {
    throw common::InputError(
        "[backend] ranks are started with srun, and this is not in an "
        "allocation of Slurm: give --dispatch slurm, or ranks = \"one\" and a "
        "program that starts them itself");
  }
  ContainedProcess::Spec spec;
  spec.words = TrialWords(options_, cluster_, request);
  spec.environment = TrialEnvironment(options_, cluster_, request);
  spec.folder = options_.folder;
  spec.patience_s = options_.patience_s;
  return RunningTrial(
             options_, request, spec, LogPath(log_folder_, request.config))
      .Run();
}

std::optional<double> CommandRunner::ExactThroughput(
    const ParallelConfig& /*config*/) const {
  return std::nullopt;  // only trying tells
}

}  // namespace trials
