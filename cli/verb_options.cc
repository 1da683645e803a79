#include "cli/verb_options.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "harness/registry.h"
#include "jobs/tune/tune_job.h"

namespace cli {

namespace fs = std::filesystem;

harness::Experiment OpenExperiment(const VerbOptions& options) {
  harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  std::error_code error;
  fs::path above = fs::absolute(options.results, error);
  while (!fs::exists(above, error) && above.has_relative_path()) {
    above = above.parent_path();
  }
  if (!fs::is_directory(above, error)) {
    throw common::InputError(fmt::format("--results {}: {} is not a folder",
                                         options.results.string(),
                                         above.string()));
  }
  const fs::path usual = options.results / manifest.name;
  const fs::path tuned = jobs::TuneFolder(options.manifest, manifest.name);
  const bool is_tuned = options.results == VerbOptions().results &&
                        !fs::exists(usual, error) &&
                        fs::exists(tuned / "experiment.json", error);
  return {std::move(manifest), is_tuned ? tuned : usual};
}

Option ManifestArgument(VerbOptions& options) {
  return Required(Bind("FILE", "manifest of the experiment", options.manifest));
}

Option ResultsOption(VerbOptions& options) {
  return Bind("--results FOLDER", "folder of all records (default: results)",
              options.results);
}

Option SetOption(VerbOptions& options) {
  return BindEach("--set KEY=VALUE",
                  "use this value of a key instead of the manifest's, as in "
                  "backend.failure_s=5",
                  options.overrides.settings);
}

Options RecordOptions(VerbOptions& options) {
  Option methods =
      Bind("--methods A,B,...", "use these methods instead of the manifest's",
           options.overrides.methods);
  methods.choices = harness::MethodNames();
  return {ManifestArgument(options),
          ResultsOption(options),
          Bind("--repeats N",
               "use this number of repeats instead of the manifest's",
               options.overrides.repeats),
          methods,
          Bind("--held-out",
               "include the problems that the manifest holds out; results on "
               "them must not be used to choose methods or settings",
               options.overrides.held_out),
          SetOption(options)};
}

Option ProblemOption(VerbOptions& options) {
  return Bind("--problem NAME", "only this problem of a manifest with several",
              options.problem);
}

Options GrowthOptions(VerbOptions& options) {
  return {BindEach("--import FILE.csv",
                   "add the trials of this table to every run as observations",
                   options.imports),
          Bind("--accept-changed",
               "continue with the trials on record although the program, a "
               "file or a key has changed; run.json records what",
               options.accept_changed)};
}

Option JsonFlag(VerbOptions& options) {
  return Bind("--json", "print JSON", options.json);
}

Option TrainingOption(std::vector<std::string>& training) {
  return Bind("--training KEY=VALUE",
              "fine-tuning, frozen parts, the optimizer: lora_rank=16, "
              "lora_targets=attention, frozen_bits=4, freeze=embeddings, "
              "reference_model=true, optimizer=adam-8bit, offload=optimizer, "
              "loss_chunks=8, packed_tokens=512 (several times)",
              training);
}

Options ModelOptionsOf(trials::ModelOptions& model) {
  return {
      Bind("--as TYPE",
           "read the config.json as this model_type, such as llama", model.as),
      Bind("--parameters N",
           "fail unless the model has this number of parameters within 1%: "
           "7.7e9 or 7.7b",
           model.parameters)};
}

Options DispatchOptions(VerbOptions& options) {
  return {
      Choice("--dispatch WHERE", "where runs execute: local (default) or slurm",
             {"local", "slurm"},
             [&options](const auto& text) { options.slurm = text == "slurm"; }),
      Bind("--trial-per-job",
           "with slurm: search here and submit each trial as a job",
           options.trial_per_job)};
}

}  // namespace cli
