// Predictions by the model of a planner or by earlier jobs.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/predictions/earlier_jobs.h"
#include "harness/predictions/prediction_settings.h"
#include "harness/predictions/predictions.h"
#include "harness/registry.h"
#include "harness/spec.h"
#include "harness/testbed.h"
#include "trials/predictions.h"

namespace harness {
namespace {

using trials::Predictions;

// The problem as planners see it.
struct View {
  methods::Problem problem;
  std::shared_ptr<const trials::Workload> workload;  // may be null
};

View ViewOf(const Testbed& testbed) {
  View view;
  view.problem = ProblemOf(testbed, /*q_max=*/1);
  view.problem.predict = nullptr;
  if (testbed.workload) {
    view.workload = std::make_shared<const trials::Workload>(*testbed.workload);
  }
  view.problem.workload = view.workload.get();
  return view;
}

ConfiguredMethod PlannerOf(const PredictionSettings& settings,
                           const View& view) {
  const MethodEntry* entry = FindMethod(settings.planner);
  if (entry == nullptr || !entry->estimates) {
    std::vector<std::string> known;
    for (const MethodEntry& method : Methods()) {
      if (method.estimates) {
        known.push_back(method.name);
      }
    }
    settings.table.Fail(
        "planner",
        fmt::format("planner = '{}': must be a method with a model of its own: "
                    "{}{}",
                    settings.planner, fmt::join(known, ", "),
                    common::DidYouMean(settings.planner, known)));
  }
  return WithPlace(settings.table, "predictions", [&] {
    return entry->configure(view.problem, settings.planner_options);
  });
}

// "tflops = 60, top = 3".
std::string OptionsText(const common::TomlTable& options) {
  std::vector<std::string> lines;
  const std::string text = options.CanonicalText();
  for (const std::string_view line : common::Split(text, '\n')) {
    if (!line.empty()) {
      lines.emplace_back(line);
    }
  }
  return fmt::format("{}", fmt::join(lines, ", "));
}

// The options, and the contents of the files that the planner depends on.
std::string IdentityOf(const PredictionSettings& settings,
                       const ProblemSpec& problem,
                       const ConfiguredMethod& planner) {
  std::string identity = fmt::format("planner {}\n{}", settings.planner,
                                     settings.planner_options.CanonicalText());
  std::vector<std::filesystem::path> files;
  if (problem.workload.Has("model")) {
    files.push_back(NamedFile(problem.workload, "model"));
  }
  files.insert(files.end(), planner.files.begin(), planner.files.end());
  for (const std::filesystem::path& file : files) {
    identity += fmt::format("file {}\n{}", file.filename().string(),
                            common::ReadFile(file));
  }
  return identity;
}

// Astra's model of the job, at the rates of its defaults, as an alternative to
// the predicted times of the space; nothing for a job that it does not model.
// It is less exact than the simulator, and wrong for other reasons.
// docs/decisions/0027-another-model.md varies the odds, which are a choice.
std::optional<Predictions::Alternative> AnotherModel(
    const methods::Problem& problem, const std::vector<double>& step_time_s) {
  constexpr double kOdds = 0.02;
  const ConfiguredMethod planner =
      FindMethod("astra")->configure(problem, common::TomlTable());
  Predictions::Alternative another{.assumption = "Astra's model of the job",
                                   .log_odds = std::log(kOdds),
                                   .another_model = true};
  try {
    another.slowdown = planner.estimates().step_time_s;
  } catch (const common::InputError&) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < step_time_s.size(); ++i) {
    another.slowdown[i] /= step_time_s[i];
  }
  const int missing = FillRejected(problem.space->cells(), another.slowdown);
  return missing < problem.space->size() ? std::optional(std::move(another))
                                         : std::nullopt;
}

// The source, with AnotherModel among its alternatives.
PredictionSource WithAnotherModel(PredictionSource source, const View& view) {
  source.predict = [view, predict = std::move(source.predict)] {
    Predictions predictions = predict();
    predictions.alternatives = [view, step_time_s = predictions.step_time_s,
                                compute = std::move(predictions.alternatives)] {
      auto alternatives =
          compute ? compute() : std::vector<Predictions::Alternative>();
      if (auto another = AnotherModel(view.problem, step_time_s)) {
        alternatives.push_back(*std::move(another));
      }
      return alternatives;
    };
    return predictions;
  };
  return source;
}

}  // namespace

void CheckPlanners(const ProblemSpec& problem, const Testbed& testbed) {
  for (const std::string& name : PredictionNames(problem.predictions)) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    if (!settings.planner.empty()) {
      (void)PlannerOf(settings, ViewOf(testbed));
    }
  }
}

PredictionsByName PredictionsOf(const ProblemSpec& problem,
                                const Testbed& testbed) {
  const double tokens_per_step =
      testbed.trains_workload ? TokensPerStep(problem) : 0.0;
  return [problem, tokens_per_step, view = ViewOf(testbed),
          own = testbed.predicted,
          simulated =
              testbed.predicted
                  ? SimulatedPredictions(problem, *testbed.space,
                                         *testbed.predicted, testbed.machine)
                  : testbed.predictions](const std::string& name) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    if (!settings.from.empty()) {
      PredictingModel model = EarlierJobs(
          settings, view.problem, tokens_per_step, own ? &*own : nullptr);
      // The view holds the workload of the problem.
      model.predict = [view, predict = std::move(model.predict)] {
        return predict();
      };
      return WithAnotherModel(SourceOf(settings, problem.name,
                                       *view.problem.space, std::move(model)),
                              view);
    }
    if (settings.planner.empty()) {
      return WithAnotherModel(simulated(name), view);
    }
    const std::string options = OptionsText(settings.planner_options);
    PredictingModel model;
    model.description = fmt::format("model of {}{}{}", settings.planner,
                                    options.empty() ? "" : " with ", options);
    model.missing = "have no estimate";
    model.if_all_missing = fmt::format(
        "the {} estimates none of the candidates; name another "
        "planner",
        model.description);
    const ConfiguredMethod planner = PlannerOf(settings, view);
    // The view outlives the function, whose workload it holds.
    model.predict = [view, estimates = planner.estimates, settings] {
      return WithPlace(settings.table, "predictions", estimates);
    };
    model.identity = IdentityOf(settings, problem, planner);
    return SourceOf(settings, problem.name, *view.problem.space, model);
  };
}

}  // namespace harness
