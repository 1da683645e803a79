// The runs of a sensitivity study: experiments under variations of constants.

#ifndef STUDIES_SENSITIVITY_VARIATIONS_H_
#define STUDIES_SENSITIVITY_VARIATIONS_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/spec.h"

namespace studies {

// The claim that one method finds better configurations than another.
struct Claim {
  std::string text;
  std::string better;  // names of methods
  std::string worse;
};

// Values of constants that differ from those of the experiment.
struct Variation {
  std::string name = "default";       // folder: "failure-5-batch"
  std::string constant;               // "failure"; empty: the default
  std::string value;                  // "5, batch"
  std::vector<std::string> settings;  // see harness::ManifestOverrides

  friend bool operator==(const Variation&, const Variation&) = default;
};

// One experiment under one variation: an experiment of its own, with records in
// results/<study>/<experiment>/<variation>.
struct VariedExperiment {
  std::string experiment;  // name: "qwen-8gpu"
  Variation variation;
  std::filesystem::path manifest;
  std::filesystem::path results;  // the folder above its records
  // Repeats, settings and the methods to run; there may be none.
  harness::ManifestOverrides overrides;
  // For every method of the claims, the folder of the experiment that has its
  // runs: this one, or an earlier one whose runs have the same RunHash.
  std::map<std::string, std::filesystem::path> records;

  [[nodiscard]] std::filesystem::path Folder() const {
    return results / variation.name;
  }
};

struct SensitivityStudy {
  std::string title;
  std::filesystem::path folder;  // results/<study>
  int repeats = 1;
  std::vector<Claim> claims;
  std::vector<Variation> variations;  // the default first
  // For each experiment, the default first.
  std::vector<VariedExperiment> experiments;
};

// Reads the manifest of a study (format: docs/studies.md) and checks every
// experiment under every variation.
// Errors: throws InputError with the place of the variation.
[[nodiscard]] SensitivityStudy ReadSensitivityStudy(
    const std::filesystem::path& manifest, const std::filesystem::path& results,
    std::optional<int> repeats = {});

}  // namespace studies

#endif  // STUDIES_SENSITIVITY_VARIATIONS_H_
