// fits, noise, profiles, sensitivity, validate.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/run.h"
#include "cli/verb_options.h"
#include "harness/stop.h"
#include "studies/fits.h"
#include "studies/output.h"
#include "studies/profiles.h"
#include "studies/sensitivity/sensitivity.h"
#include "studies/verbs.h"

namespace cli {
namespace {

const studies::Sink kSink{.out = std::cout, .notes = std::cerr};

Verb DefineFits() {
  const auto fits = std::make_shared<studies::FitsVerbOptions>();
  return {
      .group = kStudies,
      .name = "fits",
      .summary = "show the fitted model of a run",
      .description =
          "Prints the coefficients of the cost model in physical "
          "units (TFLOP/s, GB/s, seconds), with intervals.",
      .options = {Required(Bind("RUN",
                                "folder of the run: "
                                "results/EXPERIMENT/METHOD/REPEAT",
                                fits->run_folder)),
                  Bind("--trial N",
                       "the fit before this trial instead of the last one",
                       fits->trial),
                  Bind("--manifest FILE",
                       "read sizes from this manifest instead of the run's",
                       fits->manifest),
                  Bind("--json", "print JSON", fits->json)},
      .examples = {"oppa fits results/qwen-8gpu/oppa/1"},
      .run = [fits](const Words&) { return studies::Fits(*fits, std::cout); }};
}

Verb DefineNoise() {
  const auto all = std::make_shared<Bound<studies::NoiseVerbOptions>>();
  studies::NoiseVerbOptions& noise = all->own;
  return {
      .group = kStudies,
      .name = "noise",
      .summary = "plot step times of simulated trials",
      .options = {ManifestArgument(all->verb), ResultsOption(all->verb),
                  Bind("--trials N", "configurations to draw", noise.trials,
                       {1, 20}),
                  Bind("--steps N", "steps of each", noise.steps, {2, 100000}),
                  Bind("--seed N", "seed of the choice", noise.seed,
                       {INT_MIN})},
      .examples = {"oppa noise experiments/qwen-8gpu.toml"},
      .run = [all](const Words&) {
        return studies::Noise(all->verb.Study(), all->own, kSink);
      }};
}

struct ProfilesVerbOptions {
  studies::ProfilesOptions profiles;
  std::filesystem::path out = "results/study-profiles";
};

Verb DefineProfiles() {
  const auto own = std::make_shared<ProfilesVerbOptions>();
  return {
      .group = kStudies,
      .name = "profiles",
      .summary = "show how soon methods reach targets, over experiments",
      .description =
          "Reads the finished runs of experiments with a known optimum and "
          "writes runtime and performance profiles, expected running times "
          "and interquartile means over all their problems.",
      .options = {Required(Bind("FOLDER", "results/EXPERIMENT, one or more",
                                own->profiles.folders)),
                  Bind("--methods A,B,...",
                       "compare these methods (default: all)",
                       own->profiles.methods),
                  BindEach("--steps A,B,...",
                           "what each of these methods adds to the one before",
                           own->profiles.steps),
                  Bind("--out FOLDER",
                       "where to write (default: results/study-profiles)",
                       own->out)},
      .examples = {"oppa profiles results/qwen-8gpu results/bert-8gpu "
                   "--methods random,vanilla-bo,oppa"},
      .run = [own](const Words&) {
        return studies::Write(
            own->out,
            studies::Profiles(studies::LoadContenders(own->profiles.folders),
                              own->profiles),
            kSink);
      }};
}

struct SensitivityVerbOptions {
  std::optional<int> repeats;
  RunVerbOptions run = {.no_report = true};
  bool no_run = false;  // evaluate the records that exist
};

int Sensitivity(const VerbOptions& options, const SensitivityVerbOptions& own) {
  const studies::SensitivityStudy study = studies::ReadSensitivityStudy(
      options.manifest, options.results, own.repeats);
  int code = 0;
  for (std::size_t i = 0; i < study.experiments.size() && !own.no_run; ++i) {
    const studies::VariedExperiment& varied = study.experiments[i];
    if (varied.overrides.methods.empty()) {
      continue;
    }
    fmt::print("[{}/{}] {}, ", i + 1, study.experiments.size(),
               varied.experiment);
    std::fflush(stdout);
    const int run = RunExperiment({.manifest = varied.manifest,
                                   .results = varied.results,
                                   .overrides = varied.overrides,
                                   .slurm = options.slurm,
                                   .trial_per_job = options.trial_per_job},
                                  own.run);
    if (harness::StopSignal() != 0) {
      return run;
    }
    code = std::max(code, run);
  }
  const std::vector<studies::Output> outputs =
      study.ledger.empty() ? std::vector{studies::SensitivityOutput(
                                 study, studies::ClaimEffects(study))}
                           : studies::LandscapeOutput(study);
  return std::max(code, studies::Write(study.folder, outputs, kSink));
}

Verb DefineSensitivity() {
  const auto all = std::make_shared<Bound<SensitivityVerbOptions>>();
  SensitivityVerbOptions& own = all->own;
  return {
      .group = kStudies,
      .name = "sensitivity",
      .summary = "vary constants and show where claims hold",
      .description =
          "Runs the experiments of a study under every variation of its "
          "constants, then writes for each claim where it holds and where it "
          "turns. Completed runs are kept, so rerun the same command after an "
          "interruption.",
      .options =
          Options{
              Required(
                  Bind("FILE", "manifest of the study", all->verb.manifest)),
              ResultsOption(all->verb),
              Bind("--repeats N",
                   "use this number of repeats instead of the manifest's",
                   own.repeats),
              Bind("--jobs N", "runs at a time (default: one per core)",
                   own.run.jobs),
              Bind("--no-run", "evaluate the records that exist", own.no_run)} +
          DispatchOptions(all->verb) +
          Options{Bind("--wait", "with slurm: wait for each experiment",
                       own.run.wait)},
      .examples = {"oppa sensitivity experiments/studies/sensitivity.toml"},
      .run = [all](const Words&) { return Sensitivity(all->verb, all->own); }};
}

Verb DefineValidate() {
  const auto own = std::make_shared<studies::ValidateOptions>();
  return {
      .group = kStudies,
      .name = "validate",
      .summary = "compare the simulator with published measurements",
      .options =
          {Bind("NAME",
                "published tables in the folder that OPPA_DATA names "
                "(default: all of them)",
                own->names),
           Bind("--table FILE",
                "another table in the format of a published one", own->table),
           Bind("--scenarios FILE",
                "CSV file with the sizes of each scenario of the table",
                own->overrides.scenarios),
           Bind("--cluster NAME",
                "cluster of the table: a file, or a name in "
                "experiments/clusters",
                own->overrides.cluster),
           Bind("--framework NAME",
                "framework of the table: a file, or a name in "
                "experiments/frameworks",
                own->overrides.framework),
           Bind("--csv", "print the rows with the simulator's predictions",
                own->csv),
           Bind("--json", "print the errors of each table as a JSON object",
                own->json),
           Bind("--bands FILE",
                "write experiments/validation/bands/error_bands.toml "
                "from the rows of "
                "scripts/leave-one-out",
                own->bands),
           Bind("--no-figures", "draw no figures", own->no_figures),
           Bind("--results FOLDER", "folder of the figures (default: results)",
                own->results)},
      .examples = {"oppa validate", "oppa validate vtrain --csv"},
      .run = [own](const Words&) { return studies::Validate(*own, kSink); }};
}

}  // namespace

Verbs StudyVerbs() {
  return {DefineFits(), DefineNoise(), DefineProfiles(), DefineSensitivity(),
          DefineValidate()};
}

}  // namespace cli
