// fits, noise, scale, validate.

#include <memory>

#include "cli/command_line.h"
#include "cli/verb_options.h"
#include "studies/fits/verb.h"
#include "studies/noise.h"
#include "studies/scaling.h"
#include "studies/validation/verb.h"

namespace cli {
namespace {

Verb FitsVerb() {
  const auto options = std::make_shared<studies::FitsVerbOptions>();
  return {
      .group = kStudies,
      .name = "fits",
      .summary = "show the fitted model of a run",
      .description =
          "Prints the coefficients of the cost model in physical units "
          "(TFLOP/s, GB/s, seconds), with intervals.",
      .options = {Required(Path(
                      "RUN",
                      "",
                      "folder of the run: results/EXPERIMENT/METHOD/REPEAT",
                      options->run_folder)),
                  Integer("--trial",
                          "N",
                          "the fit before this trial instead of the last one",
                          options->trial),
                  Path("--manifest",
                       "FILE",
                       "read sizes from this manifest instead of the run's",
                       options->manifest),
                  Flag("--json", "print JSON", options->json)},
      .examples = {"oppa fits results/qwen-8gpu/oppa/1"},
      .run = [options](const Words&) { return studies::Fits(*options); }};
}

Verb NoiseVerb() {
  struct Arguments {
    VerbOptions verb;
    studies::NoiseVerbOptions noise;
  };
  const auto all = std::make_shared<Arguments>();
  return {.group = kStudies,
          .name = "noise",
          .summary = "plot step times of simulated trials",
          .options = {ManifestArgument(all->verb),
                      ResultsOption(all->verb),
                      Integer("--trials",
                              "N",
                              "number of configurations",
                              all->noise.trials,
                              1,
                              20),
                      Integer("--steps",
                              "N",
                              "steps of each trial",
                              all->noise.steps,
                              2,
                              100000),
                      Integer("--seed",
                              "N",
                              "seed of the random choice",
                              all->noise.seed,
                              INT_MIN)},
          .examples = {"oppa noise experiments/qwen-8gpu.toml"},
          .run = [all](const Words&) {
            return studies::Noise(all->verb.Study(), all->noise);
          }};
}

Verb ScaleVerb() {
  struct Arguments {
    VerbOptions verb;
    studies::ScaleOptions scale;
  };
  const auto all = std::make_shared<Arguments>();
  return {.group = kStudies,
          .name = "scale",
          .summary = "simulate the problem on 8 to 16384 GPUs",
          .description =
              "Draws the step time and the cost of simulating against the "
              "number of GPUs.",
          .options = {ManifestArgument(all->verb),
                      ResultsOption(all->verb),
                      List("--gpus",
                           "8,64,...",
                           "only these numbers of GPUs",
                           all->scale.gpus)},
          .examples = {"oppa scale experiments/llama7b-scaling.toml"},
          .run = [all](const Words&) {
            return studies::Scale(all->verb.Study(), all->scale);
          }};
}

Verb ValidateVerb() {
  const auto options = std::make_shared<studies::ValidateOptions>();
  Option names = Repeated({.name = "NAME",
                           .help = "published tables in the folder that "
                                   "OPPA_DATA names (default: all of them)"});
  names.set = [options](const std::string& name) {
    options->names.push_back(name);
  };
  return {
      .group = kStudies,
      .name = "validate",
      .summary = "compare the simulator with published measurements",
      .options = {names,
                  Path("--table",
                       "FILE",
                       "another table in the format of a published one",
                       options->table),
                  Path("--scenarios",
                       "FILE",
                       "CSV file with the sizes of each scenario of the table",
                       options->overrides.scenarios),
                  Text("--cluster",
                       "NAME",
                       "cluster of the table: a file, or a name in "
                       "experiments/clusters",
                       options->overrides.cluster),
                  Text("--framework",
                       "NAME",
                       "framework of the table: a file, or a name in "
                       "experiments/frameworks",
                       options->overrides.framework),
                  Flag("--csv",
                       "print the rows with the simulator's predictions",
                       options->csv),
                  Flag("--json",
                       "print the errors of each table as a JSON object",
                       options->json),
                  Flag("--no-figures", "draw no figures", options->no_figures),
                  Path("--results",
                       "FOLDER",
                       "folder of the figures",
                       options->results)},
      .examples = {"oppa validate", "oppa validate vtrain --csv"},
      .run = [options](const Words&) { return studies::Validate(*options); }};
}

}  // namespace

Verbs StudyVerbs() {
  return {FitsVerb(), NoiseVerb(), ScaleVerb(), ValidateVerb()};
}

}  // namespace cli
