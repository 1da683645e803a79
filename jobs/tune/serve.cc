#include "jobs/tune/serve.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <istream>
#include <limits>
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
#include "common/error.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"
#include "harness/clock.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/records/lease.h"
#include "harness/registry.h"
#include "harness/run_one.h"
#include "harness/testbeds/testbeds.h"
#include "jobs/tune/tune_job.h"
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

double RequireIn(std::string_view name, double value, double least,
                 double most) {
  if (!(value >= least && value <= most)) {
    throw InputError(
        fmt::format("invalid value {} for {}: a number from {:g} to {:g}",
                    value, name, least, most));
  }
  return value;
}

double RequireStepTime(double time_s) {
  return RequireIn("step_time_s", time_s, trials::kLeastStepSeconds,
                   trials::kMostStepSeconds);
}

// The operations, and the keys of their requests besides `op` and `id`.
using KeysOf = std::pair<std::string, std::vector<std::string>>;
const std::vector<KeysOf>& Requests() {
  static const std::vector<KeysOf> requests = {
      {"ask", {}},
      {"report", {"trial", "step_time_s"}},
      {"tell",
       {"trial", "outcome", "step_times_s", "peak_memory_bytes", "duration_s",
        "message"}},
      {"best", {}},
      {"trials", {}},
      {"plan", {"count"}},
      {"space", {}},
      {"enqueue", {"config"}}};
  return requests;
}

template <typename T>
T Field(const Json& request, const char* name) {
  T value{};
  common::FromField(request, name, value);
  return value;
}

// The next line without its end; false: there is none. Of a longer one, the
// rest is read and dropped.
// Errors: throws InputError for a line of more than kMostBytes.
bool ReadLine(std::istream& in, std::string& line) {
  constexpr std::size_t kMostBytes = 16U << 20U;
  line.clear();
  using Traits = std::istream::traits_type;
  std::size_t size = 0;
  for (int c = in.rdbuf()->sbumpc(); c != '\n'; c = in.rdbuf()->sbumpc()) {
    if (c == Traits::eof()) {
      if (size == 0) {
        return false;
      }
      break;
    }
    if (++size <= kMostBytes) {
      line += Traits::to_char_type(c);
    }
  }
  if (size > kMostBytes) {
    throw InputError(fmt::format("a request of {} bytes: one has at most {}",
                                 size, kMostBytes));
  }
  return true;
}

class Session {
 public:
  Session(const ServeOptions& options, std::istream& in, std::ostream& out)
      : options_(options),
        in_(in),
        out_(out),
        experiment_(ReadSearch(options.manifest, options.overrides, true,
                               options.results)),
        run_(experiment_.runs.front()),
        run_folder_(run_.Folder(experiment_.folder)),
        testbed_(experiment_.testbeds.Of(*run_.problem)),
        space_(*testbed_.space) {}

  void Run() {
    harness::CheckManifest(experiment_);
    harness::PrepareRecords(experiment_, options_.accept_changed);
    harness::WriteExperiment(experiment_);
    if (!Search()) {
      return;  // the client has gone
    }
    ended_ = ToString(trials::ReadRunInfo(run_folder_).finish_reason);
    if (recorded_.empty()) {  // it had ended before
      recorded_ = trials::ReadTrials(run_folder_);
      for (const trials::StepRecord& step :
           trials::ReadRows<trials::StepRecord>(run_folder_).records) {
        recorded_.at(step.trial - 1)
            .measurement.step_times_s.push_back(step.step_time_s);
      }
    }
    while (AwaitAsk()) {  // and answers that there is none
    }
  }

 private:
  // Trials are the client's, which asks for one and tells its result.
  class ClientClock final : public harness::Clock {
   public:
    ClientClock(Session& session, trials::TrialRunner& runner)
        : Clock(runner), session_(session) {}

    void Begin(int place, double /*start_s*/,
               trials::TrialRequest request) override {
      session_.Offer(place, std::move(request));
    }
    [[nodiscard]] std::pair<int, Measurement> EndNext() override {
      return session_.NextTold();
    }

   private:
    Session& session_;
  };

  [[nodiscard]] bool RunsSeveral() const {
    return experiment_.manifest.budget.in_flight > 1;
  }

  bool Search() {
    harness::RunConditions conditions = {
        .command = options_.command,
        .stop = [this] { return !RunsSeveral() && !AwaitAsk(); },
        .queue = &queue_,
        .on_record =
            [this](const trials::Trial& trial) { recorded_.push_back(trial); },
        .make_clock =
            [this](trials::TrialRunner& runner) {
              return std::make_unique<ClientClock>(*this, runner);
            }};
    RequireFree();
    return harness::RunOne(experiment_, run_, conditions);
  }

  // Where a client was killed, its server ends a moment later.
  void RequireFree() const {
    constexpr int kTries = 15;
    constexpr std::chrono::milliseconds kPause(100);
    for (int tries = 0;; ++tries) {
      const auto holder = harness::LocalHolder(run_folder_);
      if (!holder) {
        return;
      }
      if (tries == kTries) {
        throw common::InputError(fmt::format(
            "{}: {} has this search: end it, or let it serve all clients "
            "([budget] in_flight, with one server or one Study object)",
            run_folder_.string(), holder->Name()));
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  void Send(Json answer) const {
    if (!id_.is_null()) {
      answer["id"] = id_;
    }
    out_ << common::ToText(answer) << std::endl;
  }

  // What is wrong with the request, in a sentence.
  void Refuse(const std::exception& e) const {
    const bool is_json = dynamic_cast<const Json::exception*>(&e) != nullptr;
    Send(Json::object(
        {{"error", common::Shortened(is_json ? common::JsonProblem(op_, e)
                                             : e.what())}}));
  }

  // Answers requests until one has one of these operations, which is returned;
  // nothing at the end of the input. `rule`: why others are not possible.
  std::optional<Json> Await(const std::vector<std::string>& wanted,
                            const std::string& rule) {
    std::string line;
    while (true) {
      id_ = nullptr;
      op_ = "request";
      try {
        if (!ReadLine(in_, line)) {
          return std::nullopt;
        }
        Json request = common::ParseObject(line, "request");
        TakeHead(request);
        if (common::Contains(wanted, op_)) {
          return request;
        }
        Send(Answer(op_, request, rule));
      } catch (const std::exception& e) {
        Refuse(e);
      }
    }
  }

  // Takes what requests have in common, and refuses what they do not have.
  void TakeHead(const Json& request) {
    const Json id = request.value("id", Json());
    if (!id.is_null() && !id.is_number_integer() && !id.is_string()) {
      throw InputError("id: it must be an integer or a string");
    }
    id_ = id;
    const auto op = Field<std::string>(request, "op");
    common::RequireKnown(op, common::NamesIn(Requests(), &KeysOf::first), "op");
    op_ = op;
    std::vector<std::string> keys =
        std::ranges::find(Requests(), op, &KeysOf::first)->second;
    keys.insert(keys.end(), {"op", "id"});
    for (const auto& [key, value] : request.items()) {
      common::RequireKnown(key, keys, "key of " + op);
    }
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
      constexpr int kUsual = 10;
      const int count =
          request.contains("count") ? Field<int>(request, "count") : kUsual;
      return Plan(static_cast<std::size_t>(
          RequireIn("count", count, 0, std::numeric_limits<int>::max())));
    }
    if (op == "space") {
      return Space();
    }
    if (op == "enqueue" && ended_.is_null()) {
      return Enqueue(Field<std::string>(request, "config"));
    }
    throw InputError(fmt::format("{}: {}", op, rule));
  }

  // Sends what the client waits for: the first line, after the records were
  // read; of `tell` the trial, when it is on record; of `ask` that there is
  // none.
  void SendDue() {
    const Due due = std::exchange(due_, Due::kNothing);
    if (due == Due::kGreeting) {
      Send({{"op", "hello"},
            {"protocol", 1},
            {"name", experiment_.manifest.name},
            {"description", testbed_.description},
            {"folder", fs::absolute(experiment_.folder).string()},
            {"method", run_.method->name},
            {"max_steps", experiment_.manifest.budget.q_max},
            {"candidates", space_.size()},
            {"trials", recorded_.size()},
            {"ended", ended_}});
    } else if (due != Due::kNothing) {
      const bool told = due == Due::kTold;
      Send({{"op", told ? "tell" : "ask"},
            {"trial", told ? TrialJson(recorded_.back()) : Json()},
            {"ended", ended_}});
    }
  }

  // Between two trials. False: the client has gone.
  bool AwaitAsk() {
    SendDue();
    const bool asked =
        Await({"ask"}, ended_.is_null() ? "no trial is running; `ask` for "
                                          "one first"
                                        : "the search has ended")
            .has_value();
    due_ = asked ? Due::kNoTrial : Due::kNothing;
    return asked;
  }

  [[nodiscard]] Json ConfigJson(const trials::ParallelConfig& config) const {
    return trials::ParametersAsJson(space_.knobs(), config,
                                    space_.batch_size());
  }

  [[nodiscard]] Json Trials() const {
    return common::Map(recorded_, [this](const trials::Trial& trial) {
      return TrialJson(trial);
    });
  }

  [[nodiscard]] Json TrialJson(const trials::Trial& recorded) const {
    const trials::Trial trial = TrialIn(space_, recorded).value_or(recorded);
    Json json = common::ToJson(trial.measurement);
    json.erase("losses");  // no record has them
    json.update(
        {{"number", trial.suggestion.value_or(trial.number)},
         {"config", ConfigJson(trial.config)},
         {"label", CandidateLabel(recorded)},
         {"chosen_by", ToString(trial.chosen_by)},
         {"step_time_s", common::ToJson(1.0 / trial.throughput.steps_per_s)},
         {"elapsed_s", trial.elapsed_s}});
    return json;
  }

  // The incumbent.
  [[nodiscard]] Json Best() const {
    const auto best = std::ranges::find_if(recorded_, [&](const auto& trial) {
      return trial.measurement.outcome == Outcome::kCompleted &&
             trial.throughput.steps_per_s ==
                 recorded_.back().incumbent_steps_per_s;
    });
    return best == recorded_.end() ? Json() : TrialJson(*best);
  }

  // Of every candidate, made once.
  // Errors: throws InputError where the manifest does not describe the machine.
  [[nodiscard]] const trials::Predictions& Predicted() {
    if (!predicted_) {
      const methods::Problem problem =
          harness::ProblemOf(testbed_, experiment_.manifest.budget.q_max);
      const auto source = harness::Configure(*run_.method, problem).predictions;
      predicted_ = testbed_.predictions(source.value_or("")).predict();
    }
    return *predicted_;
  }

  // A candidate to try; null for predictions that there are not.
  [[nodiscard]] Json CandidateJson(int candidate) {
    Json predicted;
    try {
      const trials::Predictions& all = Predicted();
      predicted = {{"step_time_s", all.step_time_s[candidate]},
                   {"peak_memory_bytes", all.peak_memory_bytes[candidate]}};
    } catch (const InputError&) {  // the manifest does not describe the machine
    }
    return {{"config", ConfigJson(space_[candidate])},
            {"label", ToString(space_[candidate], space_.knobs())},
            {"predicted", predicted}};
  }

  // The candidates that the predictions would try first.
  [[nodiscard]] Json Plan(std::size_t count) {
    std::vector<int> order =
        trials::Order(Predicted(), testbed_.machine.memory_bytes());
    order.resize(std::min(count, order.size()));
    Json layouts = Json::array();
    for (const int candidate : order) {
      layouts.push_back(CandidateJson(candidate));
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
    for (const trials::Trial& trial : recorded_) {
      if (FindCandidate(trial, space_) == candidate) {
        return trial.suggestion.value_or(trial.number);
      }
    }
    return 0;
  }

  Json Enqueue(const std::string& text) {
    if (RunsSeveral()) {
      throw InputError(
          "enqueue: with in_flight in [budget], trials are chosen before they "
          "are asked for: name the configuration in experiment.start");
    }
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
    // The same request again, whose answer the client has lost, adds nothing.
    if (std::ranges::find(queue_, *candidate,
                          &methods::Suggestion::candidate) == queue_.end()) {
      queue_.push_back(
          {.candidate = *candidate, .chosen_by = trials::ChosenBy::kGiven});
    }
    return {{"op", "enqueue"}, {"config", ConfigJson(space_[*candidate])}};
  }

  // What the client waits for.
  enum class Due { kNothing, kGreeting, kTold, kNoTrial };

  // A trial that the client has asked for, or that waits to be.
  // NOLINTNEXTLINE(bugprone-exception-escape): moving a Json throws nothing
  struct Open {
    trials::TrialRequest request;
    std::optional<double> begin_s = std::nullopt;  // when it was asked for
    std::vector<double> steps = {};                // those reported
    Json asked_by = nullptr;                       // id of that request
  };

  // Opens a trial. One that runs alone was asked for before.
  void Offer(int number, trials::TrialRequest request) {
    open_[number] = {.request = std::move(request)};
    if (!RunsSeveral()) {
      due_ = Due::kNothing;
      HandOut(number);
    }
  }

  // Answers `ask` with a trial.
  void HandOut(int number) {
    Open& open = open_.at(number);
    const trials::TrialRequest& request = open.request;
    Json trial = {{"number", number},
                  {"max_steps", request.max_steps},
                  {"seed", request.seed},
                  {"time_limit_s", common::ToJson(request.time_limit_s)}};
    trial.update(CandidateJson(*space_.Find(request.candidate.config())));
    Send({{"op", "ask"}, {"trial", trial}, {"ended", nullptr}});
    open.begin_s = open.begin_s.value_or(common::SteadySeconds());
    open.asked_by = id_;
  }

  // The next trial that the client tells, one of the open ones.
  std::pair<int, Measurement> NextTold() {
    SendDue();
    const std::string rule =
        RunsSeveral()
            ? "all trials that in_flight in [budget] allows are running: "
              "`tell` the result of one first"
            : fmt::format(
                  "trial {} is running, and one trial runs at a "
                  "time: `tell` its result first",
                  open_.begin()->first);
    while (const auto message = Await({"ask", "report", "tell"}, rule)) {
      try {
        if (message->at("op") == "ask") {
          // The same request again, whose answer the client has lost, or the
          // next trial.
          auto waiting = std::ranges::find_if(open_, [&](const auto& entry) {
            return !id_.is_null() && entry.second.asked_by == id_;
          });
          if (waiting == open_.end()) {
            waiting = std::ranges::find_if(
                open_, [](const auto& entry) { return !entry.second.begin_s; });
          }
          if (waiting == open_.end()) {
            throw InputError("ask: " + rule);
          }
          HandOut(waiting->first);
          continue;
        }
        const auto number = Field<int>(*message, "trial");
        const auto found = open_.find(number);
        if (found == open_.end() || !found->second.begin_s) {
          throw InputError(fmt::format("trial {} is not running", number));
        }
        Open& open = found->second;
        if (message->at("op") == "tell") {
          Measurement measured =
              Told(*message, open.steps, open.request.max_steps,
                   common::SteadySeconds() - *open.begin_s);
          open_.erase(found);
          due_ = Due::kTold;
          return {number, std::move(measured)};
        }
        Send(Report(open,
                    RequireStepTime(Field<double>(*message, "step_time_s"))));
      } catch (const std::exception& e) {
        Refuse(e);
      }
    }
    throw trials::TrialInterrupted("");
  }

  static Json Report(Open& open, double time_s) {
    bool prune = false;
    if (std::cmp_less(open.steps.size(), open.request.max_steps)) {
      open.steps.push_back(time_s);
      prune = open.request.on_step && !open.request.on_step(time_s);
    }
    return {{"op", "report"},
            {"steps", open.steps.size()},
            {"should_prune", prune}};
  }

  // The measurement that a client tells, with the steps that it reported.
  Measurement Told(const Json& message, const std::vector<double>& reported,
                   int max_steps, double duration_s) const {
    Json all = {{"step_times_s", reported},
                {"setup_s", 0.0},
                {"duration_s", duration_s},
                {"message", ""}};
    all.update(message);
    auto measured = common::JsonAs<Measurement>(all, "tell");
    constexpr std::size_t kMostMessage = 300;  // bytes
    measured.message.resize(std::min(measured.message.size(), kMostMessage));
    std::vector<double>& steps = measured.step_times_s;
    if (std::cmp_greater(steps.size(), max_steps)) {
      throw InputError(fmt::format(
          "a trial has at most {} step_times_s, not {}: tell those of its "
          "first steps",
          max_steps, steps.size()));
    }
    if (measured.outcome == Outcome::kCompleted &&
        std::cmp_less(steps.size(), max_steps)) {
      throw InputError(
          fmt::format("a completed trial has {} step_times_s, not {}: report "
                      "every step, or tell the outcome terminated_early",
                      max_steps, steps.size()));
    }
    if (measured.outcome == Outcome::kTerminatedEarly && steps.empty()) {
      throw InputError("a trial that was terminated early needs step_times_s");
    }
    for (const double time_s : steps) {
      RequireStepTime(time_s);
    }
    RequireIn("peak_memory_bytes", measured.peak_memory_bytes.value_or(0.0),
              0.0, trials::kMostMemoryBytes);
    RequireIn("duration_s", measured.duration_s, 0.0, trials::kMostStepSeconds);
    measured.setup_s = std::max(
        measured.duration_s - std::accumulate(steps.begin(), steps.end(), 0.0),
        0.0);
    const Outcome outcome = measured.outcome;
    std::string reason = measured.message;
    RejectImplausible(measured, testbed_.limits);
    if (outcome != Outcome::kCompleted &&
        outcome != Outcome::kTerminatedEarly) {
      // A failure is one, whatever was measured before.
      measured.outcome = outcome;
      measured.message = std::move(reason);
    }
    return measured;
  }

  ServeOptions options_;
  std::istream& in_;
  std::ostream& out_;
  harness::Experiment experiment_;
  harness::RunSpec run_;
  fs::path run_folder_;
  harness::Testbed& testbed_;
  const trials::SearchSpace& space_;
  std::optional<trials::Predictions> predicted_;
  std::vector<trials::Trial> recorded_;
  std::map<int, Open> open_;               // by number
  std::deque<methods::Suggestion> queue_;  // what the user wants next
  Due due_ = Due::kGreeting;
  // Of the last request, whose answer repeats its id.
  Json id_;
  std::string op_;
  Json ended_;  // why the search has; null: it has not
};

}  // namespace

int Serve(const ServeOptions& options, std::istream& in, std::ostream& out) {
  try {
    Session(options, in, out).Run();
    return 0;
  } catch (const std::exception& e) {
    out << common::ToText(Json::object({{"error", e.what()}})) << std::endl;
    throw;
  }
}

}  // namespace jobs
