#include "jobs/serve.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/manifest/manifest.h"
#include "harness/provenance.h"
#include "harness/records/inputs.h"
#include "harness/records/lease.h"
#include "harness/registry.h"
#include "harness/run_matrix.h"
#include "harness/run_one.h"
#include "harness/testbed.h"
#include "jobs/tune_job.h"
#include "trials/predictions.h"
#include "trials/programs/trial_rendering.h"
#include "trials/record.h"
#include "trials/trial_runner.h"

namespace jobs {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using common::Json;
using trials::Measurement;
using trials::Outcome;

constexpr int kProtocol = 1;

harness::Manifest ReadServed(const ServeOptions& options) {
  harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  if (manifest.problems.size() != 1 || manifest.methods.size() != 1 ||
      manifest.repeats != 1 ||
      harness::IsSimulated(manifest.problems.front())) {
    throw InputError(fmt::format(
        "{}: `oppa serve` takes one search whose trials a client runs (one "
        "problem, one method, repeats = 1, type = \"client\" or \"command\"); "
        "`oppa run` takes all others",
        options.manifest.string()));
  }
  return manifest;
}

// A field of a request; `otherwise` where it is missing.
template <typename T>
T Field(const Json& request, const char* name, T otherwise) {
  if (!request.value(name, Json()).is_null()) {
    common::FromField(request, name, otherwise);
  }
  return otherwise;
}

double RequireIn(std::string_view name, double value, double least,
                 double most) {
  if (!(value >= least && value <= most)) {
    throw InputError(
        fmt::format("invalid value {} for {}: a number from {:g} to {:g}",
                    value, name, least, most));
  }
  return value;
}

Json Failure(const std::exception& e) {
  const bool input =
      dynamic_cast<const std::invalid_argument*>(&e) != nullptr ||
      dynamic_cast<const Json::exception*>(&e) != nullptr;
  return {{"error", e.what()}, {"kind", input ? "input" : "program"}};
}

// {"dp": 4, "zero_stage": 1} as "dp=4,zero_stage=1"; a text as it is.
std::string ConfigText(const Json& config, const trials::KnobSet& knobs) {
  if (config.is_string()) {
    return config.get<std::string>();
  }
  std::string text;
  for (const auto& [name, value] : config.items()) {
    const trials::Knob* knob = knobs.Find(name);
    const bool flag =
        value.is_boolean() && knob != nullptr && knob->texts.empty();
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name,
                        flag                ? (value.get<bool>() ? "1" : "0")
                        : value.is_string() ? value.get<std::string>()
                                            : common::ToText(value));
  }
  return text;
}

// The client as the program of trials.
class ClientRunner final : public trials::TrialRunner {
 public:
  using Call = std::function<Measurement(const trials::TrialRequest&)>;
  explicit ClientRunner(Call run) : run_(std::move(run)) {}
  [[nodiscard]] Measurement Run(const trials::TrialRequest& request) override {
    return run_(request);
  }
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& /*candidate*/) const override {
    return std::nullopt;
  }

 private:
  Call run_;
};

class Session {
 public:
  Session(const ServeOptions& options, std::istream& in, std::ostream& out)
      : options_(options),
        in_(in),
        out_(out),
        manifest_(ReadServed(options)),
        run_(harness::RunMatrix(manifest_).front()),
        folder_(options.results.empty()
                    ? TuneFolder(options.manifest, manifest_.name)
                    : options.results / manifest_.name),
        run_folder_(run_.Folder(folder_)),
        testbed_(testbeds_.Of(*run_.problem)),
        space_(*testbed_.space) {}

  void Run() {
    (void)harness::CheckManifest(manifest_, testbeds_);
    harness::PrepareRecords(manifest_, folder_, options_.accept_changed,
                            testbeds_);
    harness::WriteExperiment(manifest_, folder_, testbeds_);
    if (!Search()) {
      return;  // the client has gone
    }
    ended_ = ToString(trials::ReadRunInfo(run_folder_).finish_reason);
    Greet();
    AnswerPending();
    while (Await({"ask"}, "the search has ended: " + ended_)) {
      pending_ = "ask";
      AnswerPending();
    }
  }

 private:
  // Where a client was killed, its server ends a moment later.
  bool Search() {
    const harness::RunConditions conditions = {
        .command = options_.command,
        .stop = [this] { return !AwaitAsk(); },
        .next = [this] { return TakeEnqueued(); },
        .make_remote_runner =
            [this](harness::Testbed& /*testbed*/) {
              return std::make_unique<ClientRunner>(
                  [this](const trials::TrialRequest& request) {
                    return RunTrial(request);
                  });
            }};
    constexpr double kWaitSeconds = 10.0;
    constexpr std::chrono::milliseconds kPause(100);
    const double until_s = common::SteadySeconds() + kWaitSeconds;
    while (true) {
      try {
        return harness::RunOne(manifest_, run_, folder_, conditions, testbeds_);
      } catch (const harness::LeaseLost&) {
        if (greeted_ || common::SteadySeconds() > until_s) {
          throw;
        }
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  void Send(const Json& answer) const {
    out_ << common::ToText(answer) << std::endl;
  }

  // Answers requests until one has one of these operations, which is returned;
  // nothing at the end of the input. `rule`: why others are not possible.
  std::optional<Json> Await(const std::vector<std::string>& wanted,
                            const std::string& rule) {
    const std::vector<std::string> ops = {
        "ask", "report", "tell", "best", "trials", "plan", "space", "enqueue"};
    std::string line;
    while (std::getline(in_, line)) {
      try {
        Json request = common::ParseObject(line, "request");
        const std::string op = Field<std::string>(request, "op", "");
        common::RequireKnown(op, ops, "op");
        if (std::ranges::find(wanted, op) != wanted.end()) {
          return request;
        }
        Send(Answer(op, request, rule));
      } catch (const std::exception& e) {
        Send(Failure(e));
      }
    }
    return std::nullopt;
  }

  // Operations that are possible at any time.
  Json Answer(const std::string& op, const Json& request,
              const std::string& rule) {
    if (op == "best") {
      return {{"op", op}, {"trial", Best()}};
    }
    if (op == "trials") {
      return {{"op", op}, {"trials", Trials()}};
    }
    if (op == "plan") {
      return Plan(Field(request, "count", 10));
    }
    if (op == "space") {
      return Space();
    }
    if (op == "enqueue" && ended_.empty()) {
      return Enqueue(request.at("config"));
    }
    throw InputError(fmt::format("{}: {}", op, rule));
  }

  // The first line, after the records were read.
  void Greet() {
    if (std::exchange(greeted_, true)) {
      return;
    }
    Send({{"op", "hello"},
          {"protocol", kProtocol},
          {"version", harness::Version()},
          {"name", manifest_.name},
          {"description", testbed_.description},
          {"folder", fs::absolute(folder_).string()},
          {"method", run_.method->name},
          {"max_steps", manifest_.budget.q_max},
          {"candidates", space_.size()},
          {"trials", Recorded().size()},
          {"ended", Ended()}});
  }

  // Between two trials. False: the client has gone.
  bool AwaitAsk() {
    Greet();
    AnswerPending();
    pending_ =
        Await({"ask"}, "no trial is running; `ask` for one first") ? "ask" : "";
    return !pending_.empty();
  }

  // Answers `tell` when the trial is on record, and `ask` when there is none.
  void AnswerPending() {
    if (const std::string op = std::exchange(pending_, ""); !op.empty()) {
      Send({{"op", op},
            {"trial", op == "tell" ? Trials().back() : Json()},
            {"ended", Ended()}});
    }
  }

  [[nodiscard]] Json Ended() const {
    return ended_.empty() ? Json() : Json(ended_);
  }

  [[nodiscard]] std::vector<trials::Trial> Recorded() const {
    return common::EntryExists(run_folder_ / "trials.csv")
               ? trials::ReadTrials(run_folder_)
               : std::vector<trials::Trial>();
  }

  [[nodiscard]] Json ConfigJson(const trials::ParallelConfig& config) const {
    return trials::ParametersAsJson(space_.knobs(), config,
                                    space_.batch_size());
  }

  [[nodiscard]] Json Trials() const {
    Json all = Json::array();
    for (const trials::Trial& recorded : Recorded()) {
      const trials::Trial trial = TrialIn(space_, recorded).value_or(recorded);
      Json json = common::ToJson(trial.measurement);
      json["step_times_s"] = Json::array();  // in another file
      json.update(
          {{"number", trial.number},
           {"config", ConfigJson(trial.config)},
           {"label", CandidateLabel(recorded)},
           {"chosen_by", ToString(trial.chosen_by)},
           {"step_time_s", common::ToJson(1.0 / trial.throughput.steps_per_s)},
           {"elapsed_s", trial.elapsed_s}});
      all.push_back(std::move(json));
    }
    for (const trials::StepRecord& step :
         trials::ReadRows<trials::StepRecord>(run_folder_).records) {
      if (std::cmp_less_equal(step.trial, all.size())) {
        all[step.trial - 1]["step_times_s"].push_back(step.step_time_s);
      }
    }
    return all;
  }

  // The incumbent.
  [[nodiscard]] Json Best() const {
    const std::vector<trials::Trial> trials = Recorded();
    const auto best = std::ranges::find_if(trials, [&](const auto& trial) {
      return trial.measurement.outcome == Outcome::kCompleted &&
             trial.throughput.steps_per_s ==
                 trials.back().incumbent_steps_per_s;
    });
    return best == trials.end() ? Json() : Trials()[best - trials.begin()];
  }

  // Errors: throws InputError where the manifest does not describe the machine.
  const trials::Predictions& Predicted() {
    if (!predictions_) {
      const methods::Problem problem =
          harness::ProblemOf(testbed_, manifest_.budget.q_max);
      const auto source = harness::Configure(*run_.method, problem).predictions;
      predictions_ = testbed_.predictions(source.value_or("")).predict();
    }
    return *predictions_;
  }

  Json PredictedJson(int candidate) {
    try {
      const trials::Predictions& all = Predicted();
      return {{"step_time_s", all.step_time_s[candidate]},
              {"peak_memory_bytes", all.peak_memory_bytes[candidate]}};
    } catch (const InputError&) {
      return nullptr;
    }
  }

  // The candidates that the predictions would try first.
  Json Plan(int count) {
    std::vector<int> order =
        trials::Order(Predicted(), testbed_.machine.memory_bytes());
    order.resize(std::clamp<std::size_t>(count, 0, order.size()));
    Json layouts = Json::array();
    for (const int candidate : order) {
      layouts.push_back({{"config", ConfigJson(space_[candidate])},
                         {"label", ToString(space_[candidate], space_.knobs())},
                         {"predicted", PredictedJson(candidate)}});
    }
    return {{"op", "plan"},
            {"source", Predicted().source},
            {"capacity_bytes", testbed_.machine.memory_bytes()},
            {"layouts", layouts}};
  }

  // The values of each parameter.
  [[nodiscard]] Json Space() const {
    std::map<std::string, std::set<Json>> parameters;
    for (const trials::ParallelConfig& config : space_.configs()) {
      const Json json = ConfigJson(config);
      for (const auto& [name, value] : json.items()) {
        parameters[name].insert(value);
      }
    }
    return {{"op", "space"}, {"parameters", parameters}};
  }

  // The trial that had the candidate; 0: none.
  [[nodiscard]] int TrialOf(int candidate) const {
    for (const trials::Trial& trial : Recorded()) {
      if (FindCandidate(trial, space_) == candidate) {
        return trial.number;
      }
    }
    return 0;
  }

  Json Enqueue(const Json& config) {
    const std::string text = ConfigText(config, space_.knobs());
    const auto candidate = space_.Find(Complete(text, space_).config);
    if (!candidate) {
      throw InputError(
          fmt::format("config '{0}' is not in the search space; `oppa space "
                      "{1} --csv` lists it, and `oppa space {1} --why` the "
                      "constraints",
                      text, options_.manifest.string()));
    }
    if (const int trial = TrialOf(*candidate); trial > 0) {
      throw InputError(
          fmt::format("config '{}' was tried as trial {}", text, trial));
    }
    queue_.push_back(*candidate);
    return {{"op", "enqueue"}, {"config", ConfigJson(space_[*candidate])}};
  }

  std::optional<methods::Suggestion> TakeEnqueued() {
    while (!queue_.empty()) {
      const int candidate = queue_.front();
      queue_.pop_front();
      if (TrialOf(candidate) == 0) {
        return methods::Suggestion{.candidate = candidate,
                                   .chosen_by = trials::ChosenBy::kGiven};
      }
    }
    return std::nullopt;
  }

  // Passes the trial to the client until it is told.
  Measurement RunTrial(const trials::TrialRequest& request) {
    const auto number = static_cast<int>(Recorded().size()) + 1;
    const trials::ParallelConfig& config = request.candidate.config();
    pending_ = "";
    Send({{"op", "ask"},
          {"trial",
           {{"number", number},
            {"config", ConfigJson(config)},
            {"label", ToString(config, space_.knobs())},
            {"max_steps", request.max_steps},
            {"seed", request.seed},
            {"time_limit_s", common::ToJson(request.time_limit_s)},
            {"predicted", PredictedJson(*space_.Find(config))}}},
          {"ended", nullptr}});
    const double begin_s = common::SteadySeconds();
    const std::string rule = fmt::format(
        "trial {} is running, and one trial runs at a time: `tell` its result "
        "first",
        number);
    std::vector<double> steps;
    while (const auto message = Await({"report", "tell"}, rule)) {
      try {
        RequireIn("trial", message->at("trial").get<int>(), number, number);
        if (message->at("op") == "tell") {
          Measurement measured = Told(*message, steps, request.max_steps,
                                      common::SteadySeconds() - begin_s);
          pending_ = "tell";
          return measured;
        }
        const double time_s =
            RequireIn("step_time_s", message->at("step_time_s").get<double>(),
                      trials::kLeastStepSeconds, trials::kMostStepSeconds);
        bool prune = false;
        if (std::cmp_less(steps.size(), request.max_steps)) {
          steps.push_back(time_s);
          prune = request.on_step && !request.on_step(time_s);
        }
        Send({{"op", "report"},
              {"steps", steps.size()},
              {"should_prune", prune}});
      } catch (const std::exception& e) {
        Send(Failure(e));
      }
    }
    throw trials::TrialInterrupted("");
  }

  // The measurement that a client tells, with the steps that it reported.
  static Measurement Told(const Json& message,
                          const std::vector<double>& reported, int max_steps,
                          double duration_s) {
    Measurement measured;
    common::FromField(message, "outcome", measured.outcome);
    std::vector<double>& steps = measured.step_times_s;
    steps = Field(message, "step_times_s", reported);
    if (std::cmp_greater(steps.size(), max_steps)) {
      steps.resize(max_steps);
    }
    if (measured.outcome == Outcome::kCompleted &&
        std::cmp_less(steps.size(), max_steps)) {
      throw InputError(
          fmt::format("a completed trial has {} step_times_s, not {}: report "
                      "every step, or "
                      "tell the outcome terminated_early",
                      max_steps, steps.size()));
    }
    if (measured.outcome == Outcome::kTerminatedEarly && steps.empty()) {
      throw InputError("a trial that was terminated early needs step_times_s");
    }
    for (const double time_s : steps) {
      RequireIn("step_times_s", time_s, trials::kLeastStepSeconds,
                trials::kMostStepSeconds);
    }
    common::FromField(message, "peak_memory_bytes", measured.peak_memory_bytes);
    RequireIn("peak_memory_bytes", measured.peak_memory_bytes.value_or(0.0),
              0.0, trials::kMostMemoryBytes);
    measured.message = Field<std::string>(message, "message", "");
    measured.duration_s =
        RequireIn("duration_s", Field(message, "duration_s", duration_s), 0.0,
                  trials::kMostStepSeconds);
    measured.setup_s = std::max(
        measured.duration_s - std::accumulate(steps.begin(), steps.end(), 0.0),
        0.0);
    return measured;
  }

  ServeOptions options_;
  std::istream& in_;
  std::ostream& out_;
  harness::Manifest manifest_;
  harness::RunSpec run_;
  fs::path folder_;
  fs::path run_folder_;
  harness::Testbeds testbeds_;
  harness::Testbed& testbed_;
  const trials::SearchSpace& space_;
  std::optional<trials::Predictions> predictions_;
  std::deque<int> queue_;  // candidates that the user wants next
  std::string pending_;    // the operation that waits for an answer; "": none
  bool greeted_ = false;
  std::string ended_;  // why the search has; "": it has not
};

}  // namespace

int Serve(const ServeOptions& options, std::istream& in, std::ostream& out) {
  try {
    Session(options, in, out).Run();
    return 0;
  } catch (const std::exception& e) {
    out << common::ToText(Failure(e)) << std::endl;
    throw;
  }
}

}  // namespace jobs
