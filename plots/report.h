// Turns a folder of records into tables and figures.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plots {

struct ReportOptions {
  // Names of FigureNames(). Empty: the figures that experiment.json names, or
  // every figure that its records can fill.
  std::vector<std::string> figures;
  // "pdf", "svg", "png". Empty: tables, scripts and data, but no pictures.
  std::vector<std::string> formats = {"pdf", "svg", "png"};
  // The method that the others are compared with; "": see DefaultReference.
  std::string reference;
};

struct ReportOutcome {
  std::string summary;  // the summary table, for a terminal
  std::vector<std::filesystem::path> files;  // written, in order
  // Runs that are missing or unfinished, figures without anything to draw: one
  // line each. Empty for a complete experiment.
  std::vector<std::string> notes;
  // Those of ExperimentRecords, and pictures that could not be drawn.
  std::vector<std::string> failures;
};

// The names of ReportOptions::figures and of a manifest: docs/figures.md has a
// table. The summary is always written.
[[nodiscard]] const std::vector<std::string>& FigureNames();

// Reads results/<experiment>/ and writes into it
//
//   summary.csv comparison.csv summary.md [pareto.csv]
//   figures/[<problem>/]<figure>.{pdf,svg,png,csv,gp}
//
// It uses the records only, so it also works while the experiment runs, and on
// a folder that another program wrote. The names of methods are folder names;
// the family of a method (experiment.json) says which ones are ablations or
// variants, and only the ablation figures draw these.
//
// Errors: throws InputError, before it writes anything, when the folder does
// not contain an experiment, an option is unknown, or a problem or method is
// not the name of a folder. A missing gnuplot is not an error: see
// ReportOutcome.
[[nodiscard]] ReportOutcome Report(
    const std::filesystem::path& experiment_folder,
    const ReportOptions& options = {});

}  // namespace plots
