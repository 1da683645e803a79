// Calibration of the surrogates: fitted to the trials of searches, compared
// with the measurements of the other configurations.
//
//   calibration_study FOLDER REPEATS MANIFEST...
//
// writes tables and figures below FOLDER; docs/studies.md lists them.

#include <cstdlib>

#include "harness/manifest/manifest.h"
#include "studies/calibration/calibration.h"
#include "studies/output.h"

int main(int argc, char** argv) {
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 0;
  return studies::RunProgram(
      argc >= 4 && repeats >= 1, "calibration_study FOLDER REPEATS MANIFEST...",
      [&](const studies::Sink& sink) {
        studies::Collection collection;
        for (int i = 3; i < argc; ++i) {
          const harness::Manifest manifest = harness::ReadManifest(argv[i]);
          for (const harness::ProblemSpec& spec : manifest.problems) {
            sink.notes << manifest.name << ' ' << spec.name << '\n';
            for (int repeat = 1; repeat <= repeats; ++repeat) {
              studies::FitToSearches(
                  manifest, spec, repeat, studies::Variants(),
                  [&](const auto& fitted) { collection.Add(fitted); });
            }
          }
        }
        return studies::Write(argv[1], collection.Take(), sink);
      });
}
