// Calibration of the surrogates: fitted to few trials, compared with the
// measurements of the other configurations.
//
//   calibration_study FOLDER REPEATS MANIFEST...
//
// writes tables and figures below FOLDER; docs/studies.md lists them.

#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fmt/format.h>

#include "harness/manifest/manifest.h"
#include "studies/calibration/collect.h"
#include "studies/calibration/held_out.h"
#include "studies/output.h"

int main(int argc, char** argv) {
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 0;
  if (argc < 4 || repeats < 1) {
    fmt::print(stderr, "usage: calibration_study FOLDER REPEATS MANIFEST...\n");
    return 2;
  }
  try {
    studies::ScoreTable scores;
    studies::PredictionFigures predictions;
    studies::LengthScaleTable length_scales;
    for (int i = 3; i < argc; ++i) {
      const harness::Manifest manifest = harness::ReadManifest(argv[i]);
      for (const harness::ProblemSpec& spec : manifest.problems) {
        fmt::print(stderr, "{} {}\n", manifest.name, spec.name);
        for (int repeat = 1; repeat <= repeats; ++repeat) {
          studies::FitHeldOut(manifest, spec, repeat, studies::Variants(),
                              [&](const studies::Fitted& fitted) {
                                scores.Add(fitted);
                                predictions.Add(fitted);
                                length_scales.Add(fitted);
                              });
        }
      }
    }
    return studies::Write(
        argv[1], {predictions.Take(), length_scales.Take(), scores.Take()});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
