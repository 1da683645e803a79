#include "trials/programs/command_runner.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/secrets.h"
#include "trials/containment/contained_process.h"
#include "trials/containment/leftovers.h"
#include "trials/flop.h"
#include "trials/programs/error_line.h"
#include "trials/programs/log_scanner.h"
#include "trials/programs/loss_watch.h"
#include "trials/programs/rank_launch.h"
#include "trials/programs/trial_log.h"
#include "trials/programs/trial_rendering.h"
#include "trials/programs/trial_report.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

constexpr double kLookSeconds = 0.1;
constexpr std::size_t kMostMessage = 300;  // bytes
constexpr std::size_t kMostFileName = 200;

// The name of a trial's files.
std::string FileName(const ParallelConfig& config, const KnobSet& knobs) {
  const std::string text = ToString(config, knobs);
  std::string name = text;
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ' '; }, '_');
  return name == text && name.size() <= kMostFileName
             ? name
             : fmt::format("{}-{:016x}", name.substr(0, kMostFileName - 17),
                           common::DeriveSeed(text));
}

// "exit code 3", "killed by signal 11 (Segmentation fault)".
std::string HowItEnded(const std::optional<int>& status) {
  if (!status) {
    return "its end was not seen";
  }
  return WIFSIGNALED(*status)
             ? fmt::format("killed by signal {} ({})", WTERMSIG(*status),
                           strsignal(WTERMSIG(*status)))
             : fmt::format("exit code {}", WEXITSTATUS(*status));
}

// One trial while it runs.
class RunningTrial {
 public:
  // `report`: where the file for reports is made; an empty `log`: none is kept.
  RunningTrial(const CommandOptions& options, const TrialRequest& request,
               const TrialPace& pace, int gpus, ContainedProcess::Spec spec,
               const fs::path& log, const fs::path& report)
      : options_(options),
        request_(request),
        pace_(pace),
        warmup_steps_(options.warmup_steps),
        limit_s_(std::min(request.time_limit_s, options.timeout_s)),
        log_(log, static_cast<std::size_t>(options.log_bytes)),
        report_file_(report),
        loss_(options.log ? *options.log : UsualLogPatterns()),
        begin_s_(common::SteadySeconds()),
        last_report_s_(begin_s_),
        last_line_s_(begin_s_),
        scanner_(MakeScanner(options, request, gpus, begin_s_)),
        process_(WithReportFile(std::move(spec), report_file_)) {}

  Measurement Run() {
    const auto take = [this](ContainedProcess::Stream stream,
                             std::string_view text) {
      if (!dismissed_) {
        log_.Append(text);
      }
      TakePiece(text, stream == ContainedProcess::Stream::kOutput ? output_
                                                                  : errors_);
    };
    while (process_.Read(kLookSeconds, take)) {
      (void)ReadReportFile();
      Look(common::SteadySeconds());
    }
    while (ReadReportFile()) {
    }
    for (Source* source : {&file_, &output_, &errors_}) {
      source->lines.Finish(
          [this, source](std::string_view line) { Take(line, *source); });
    }
    Scan([](LogScanner& scanner) { return scanner.Finish(); });
    if (const int error = process_.start_error(); error != 0) {
      throw std::runtime_error(fmt::format(
          "cannot start {}: {}{}", options_.program.front(), strerror(error),
          error == ENOEXEC ? " (a script begins with a line like #!/bin/sh)"
                           : ""));
    }
    // A signal that ended the ranks may arrive here after their end.
    if (interrupted_ || (!decided_ && !IsComplete() && request_.interrupted &&
                         request_.interrupted())) {
      throw TrialInterrupted("the trial was ended before its time");
    }
    Measurement measurement = Judge();
    if (measurement.outcome == Outcome::kFailed && !decided_) {
      RequireNodes();
    }
    return measurement;
  }

  // Adds what this trial has shown, which has completed.
  void AddTo(TrialPace& pace) const {
    pace.first_step_s = std::max(
        pace.first_step_s, result_.setup_s + result_.step_times_s.front());
    pace.prints_tracebacks |= prints_tracebacks_;
  }

 private:
  // Errors: as LostNodes; throws TrialInterrupted for nodes that are lost.
  void RequireNodes() const {
    const bool started = !result_.step_times_s.empty();
    const std::string lost =
        LostNodes(options_, process_.wait_status(),
                  started && options_.hosts.empty() ? "" : error_.launch());
    if (!lost.empty()) {
      throw TrialInterrupted(fmt::format("the trial has no result: {}", lost));
    }
  }

  // Lines of one origin, and what is in them.
  struct Source {
    bool has_reports = true;
    bool is_output = true;  // of the program: it may have any text
    int number = 0;
    LineReader lines;
    ReportReader reports;
  };

  static ContainedProcess::Spec WithReportFile(ContainedProcess::Spec spec,
                                               const ReportFile& file) {
    spec.environment.push_back("OPPA_REPORT=" + file.path().string());
    return spec;
  }

  static std::optional<LogScanner> MakeScanner(const CommandOptions& options,
                                               const TrialRequest& request,
                                               int gpus, double begin_s) {
    if (options.log == nullptr) {
      return std::nullopt;
    }
    const Workload& workload = options.workload;
    return LogScanner(
        *options.log,
        {static_cast<double>(workload.batch_size),
         static_cast<double>(workload.sequence_length),
         static_cast<double>(gpus),
         static_cast<double>(request.candidate.config().microbatches)},
        begin_s);
  }

  [[nodiscard]] bool IsComplete() const {
    return std::cmp_greater_equal(result_.step_times_s.size(),
                                  request_.max_steps);
  }

  // Ends the trial; the first reason is kept.
  void End(Outcome outcome, std::string why) {
    if (!decided_) {
      decided_ = outcome;
      result_.message = std::move(why);
    }
    if (decided_ == Outcome::kTerminatedEarly) {
      Dismiss();
    }
    process_.End();
  }

  // From here on, the program has nothing to say but that it was stopped, which
  // looks like a failure.
  void Dismiss() {
    if (!std::exchange(dismissed_, true)) {
      log_.Append(fmt::format("oppa: stopped here, after {} steps\n",
                              result_.step_times_s.size()));
    }
  }

  void Look(double now_s) {
    if (request_.interrupted && !decided_ && !IsComplete() &&
        request_.interrupted()) {
      interrupted_ = true;
      process_.End();
    }
    LookForDivergence();
    if (decided_ || interrupted_) {
      return;
    }
    if (IsComplete()) {  // it may tear down and report its peak
      // A program that does not read oppa's settings may train on and on. The
      // ranks of several nodes need more time to end.
      constexpr double kPatienceOfLog = 2.0;
      if (now_s - last_report_s_ >
          std::min(options_.patience_s,
                   scanner_ && options_.ranks == CommandOptions::Ranks::kOne
                       ? kPatienceOfLog
                       : options_.patience_s)) {
        Dismiss();
        process_.End();
      }
    } else if (now_s - begin_s_ >= limit_s_) {
      End(Outcome::kTimedOut,
          limit_s_ < request_.time_limit_s
              ? fmt::format("cut off after {:g} s (backend.timeout_s)",
                            limit_s_)
              : "cut off at the time limit");
    } else if (const SilenceLimit most =
                   SilenceLimitOf(options_.silence_s, longest_step_s_, pace_);
               now_s - last_report_s_ >= most.seconds) {
      End(Outcome::kTimedOut, fmt::format("hangs: no report for {:.4g} s ({})",
                                          most.seconds, most.why));
    } else if (error_.has_traceback() &&
               now_s - last_line_s_ >= TracebackLimit(longest_step_s_, pace_)) {
      End(says_out_of_memory_.empty() ? Outcome::kFailed
                                      : Outcome::kOutOfMemory,
          fmt::format("{}, and then silent for {:.3g} s", error_.text(),
                      now_s - last_line_s_));
    }
  }

  void TakePiece(std::string_view piece, Source& source) {
    source.lines.Take(
        piece, [this, &source](std::string_view line) { Take(line, source); });
  }

  // The number of steps that have ended.
  [[nodiscard]] int Steps() const {
    return static_cast<int>(result_.step_times_s.size());
  }

  // Returns whether there was something to read.
  bool ReadReportFile() {
    const std::string piece = report_file_.Read();
    TakePiece(piece, file_);
    return !piece.empty();
  }

  void Take(std::string_view line, Source& source) {
    last_line_s_ = common::SteadySeconds();
    if (source.is_output) {
      LookForMemory(line);
      error_.Read(line, source.number);
    }
    const bool has_report =
        source.has_reports && ReadReports(line, source.reports);
    if (!has_report) {  // a report may be no JSON because its loss is NaN
      loss_.Read(line, Steps());
    }
    if (source.is_output) {
      Scan([line](LogScanner& scanner) {
        return scanner.Read(line, common::SteadySeconds());
      });
    }
  }

  // Takes the reports that `read` finds, in `line` or in the log; whether there
  // are any.
  template <typename Read>
  bool TakeReports(const Read& read, std::string_view line = "") {
    try {
      const std::vector<TrialReport> reports = read();
      for (const TrialReport& report : reports) {
        if (!decided_) {
          TakeReport(report);
          loss_.Report(report.loss, report.is_skipped, line, Steps());
        }
      }
      return !reports.empty();
    } catch (const std::invalid_argument& e) {
      End(Outcome::kFailed, e.what());
      return true;
    }
  }

  template <typename Read>
  void Scan(const Read& read) {
    if (scanner_ && !decided_) {
      TakeReports([&] { return read(*scanner_); });
    }
  }

  bool ReadReports(std::string_view line, ReportReader& reader) {
    const auto read = [&] {
      ReportReader::Line found = reader.Read(line);
      if (broken_report_.empty()) {
        broken_report_ = std::move(found.broken);
      }
      return std::move(found.reports);
    };
    return TakeReports(read, line);
  }

  void LookForMemory(std::string_view line) {
    for (const std::string& text : options_.out_of_memory) {
      if (!text.empty() && line.find(text) != std::string_view::npos) {
        says_out_of_memory_ = line.substr(0, kMostMessage);
      }
    }
  }

  void TakeReport(const TrialReport& report) {
    if (!IsComplete()) {  // later steps do not prolong the trial
      last_report_s_ = common::SteadySeconds();
    }
    if (report.peak_memory_bytes) {
      result_.peak_memory_bytes = std::max(
          result_.peak_memory_bytes.value_or(0.0), *report.peak_memory_bytes);
    }
    longest_step_s_ =
        std::max(longest_step_s_, report.step_time_s.value_or(0.0));
    if (report.step_time_s && warmup_steps_ > 0) {
      --warmup_steps_;
    } else if (report.step_time_s && !IsComplete()) {
      if (result_.step_times_s.empty()) {
        prints_tracebacks_ = error_.has_traceback();
        error_.Forget();
        result_.setup_s =
            std::max(last_report_s_ - begin_s_ - *report.step_time_s, 0.0);
      }
      result_.step_times_s.push_back(*report.step_time_s);
      const bool go_on =
          !request_.on_step || request_.on_step(*report.step_time_s);
      if (!go_on && !IsComplete()) {
        End(Outcome::kTerminatedEarly, "");
      }
    }
    if (report.status) {
      End(*report.status,
          report.message.empty() ? "reported by the program" : report.message);
    }
  }

  // A trial that trains nothing has no speed, and is no longer needed.
  void LookForDivergence() {
    if (!decided_ && !loss_.not_finite().empty()) {
      End(Outcome::kDiverged, loss_.WhyNothingIsLearnt(0));
    }
  }

  Measurement Judge() {
    const std::string diverged = loss_.WhyNothingIsLearnt(
        IsComplete() ? result_.step_times_s.size() : 0);
    if (!decided_ && !diverged.empty()) {
      decided_ = Outcome::kDiverged;
      result_.message = diverged;
    }
    if (!loss_.losses().empty()) {
      result_.losses = loss_.losses();
    }
    const double duration_s = common::SteadySeconds() - begin_s_;
    if (result_.step_times_s.empty()) {
      result_.setup_s = duration_s;
    }
    const std::string note = scanner_ ? scanner_->Note() : "";
    result_.duration_s = std::min(duration_s, request_.time_limit_s);
    result_.setup_s = std::min(result_.setup_s, result_.duration_s);
    if (decided_) {
      result_.outcome = *decided_;
    } else if (IsComplete()) {
      result_.outcome = Outcome::kCompleted;
      result_.message = note;
    } else if (!says_out_of_memory_.empty()) {
      result_.outcome = Outcome::kOutOfMemory;
      result_.message = says_out_of_memory_;
    } else {
      result_.outcome = Outcome::kFailed;
      const std::string last = error_.text();
      result_.message = fmt::format(
          "{} after {} of {} steps{}{}{}{}{}",
          HowItEnded(process_.wait_status()), result_.step_times_s.size(),
          request_.max_steps, note.empty() ? "" : "; ", note,
          broken_report_.empty()
              ? ""
              : fmt::format("; skipped a broken report '{}'", broken_report_),
          last.empty() ? "" : ": ", last);
    }
    result_.message = common::WithoutSecrets(result_.message);
    result_.message.resize(std::min(result_.message.size(), kMostMessage));
    return result_;
  }

  const CommandOptions& options_;
  const TrialRequest& request_;
  const TrialPace pace_;
  int warmup_steps_;  // to come
  double limit_s_;
  TrialLog log_;
  ReportFile report_file_;
  Source file_{.is_output = false};
  Source output_;
  Source errors_{.has_reports = false, .number = 1};
  ErrorLine error_;
  LossWatch loss_;
  std::string broken_report_;
  Measurement result_;
  std::optional<Outcome> decided_;
  bool interrupted_ = false;
  bool prints_tracebacks_ = false;
  double longest_step_s_ = 0.0;
  bool dismissed_ = false;  // what it still writes is not kept
  std::string says_out_of_memory_;
  double begin_s_;
  double last_report_s_;
  double last_line_s_;
  std::optional<LogScanner> scanner_;
  ContainedProcess process_;
};

}  // namespace

CommandRunner::CommandRunner(CommandOptions options, Cluster cluster)
    : options_(std::move(options)), cluster_(std::move(cluster)) {}

Measurement CommandRunner::Run(const TrialRequest& request) {
  request.candidate.RejectPlan("command");
  (void)DescribeNodes(options_, cluster_);
  ContainedProcess::Spec spec;
  const std::string name = FileName(request.candidate.config(), options_.knobs);
  const fs::path folder = log_folder_.empty() ? TemporaryFolder() : log_folder_;
  TrialRequest whole = request;
  whole.max_steps += options_.warmup_steps;
  RenderedJob job = RenderTrial(options_, cluster_, whole,
                                fs::absolute(folder / name), as_given_);
  for (const RenderedFile& file : job.files) {
    common::ReplaceFile(file.path, file.content);
  }
  spec.words = std::move(job.words);
  spec.environment = TrialEnvironment(options_, cluster_, whole);
  spec.environment.insert(spec.environment.end(), job.environment.begin(),
                          job.environment.end());
  spec.folder = options_.folder;
  spec.patience_s = options_.patience_s;
  if (!std::exchange(ended_leftovers_, true)) {
    EndLeftovers(log_folder_);
  }
  if (!log_folder_.empty()) {
    spec.record = log_folder_ / (name + kProcessRecordExtension);
  }
  RunningTrial trial(
      options_, request, Pace(), cluster_.gpus(), std::move(spec),
      log_folder_.empty() ? fs::path() : log_folder_ / (name + ".log"),
      folder / (name + ".report"));
  Measurement measurement = trial.Run();
  RejectImplausible(measurement, LimitsOf(options_.workload, cluster_));
  if (measurement.outcome == Outcome::kCompleted) {
    const std::lock_guard lock(pacing_);
    trial.AddTo(pace_);
  }
  return measurement;
}

TrialPace CommandRunner::Pace() {
  const std::lock_guard lock(pacing_);
  return pace_;
}

void CommandRunner::KeepLogs(const fs::path& folder) {
  common::GuardFolder(folder.parent_path());
  log_folder_ = folder;
}

std::optional<double> CommandRunner::ExactThroughput(
    const Candidate& /*candidate*/) const {
  return std::nullopt;  // unknown without a trial
}

}  // namespace trials
