// Any folder of an experiment is checked and drawn, or refused with an
// InputError. The input is cut at NUL bytes into the files below.

#include <array>
#include <filesystem>
#include <string_view>

#include "common/error.h"
#include "common/text.h"
#include "harness/check.h"
#include "plots/comparison.h"
#include "plots/experiment_records.h"
#include "plots/summary.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/rows.h"

namespace {

constexpr std::array<std::string_view, 8> kFiles = {
    "m/experiment.json",       "m/problem.json",       "m/random/1/run.json",
    "m/random/1/trials.csv",   "m/random/1/steps.csv", "m/random/1/fits.csv",
    "m/random/1/thinking.csv", "m/random/1/plans.csv"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const auto parts = common::Split(fuzz::Text(data, size), '\0');
  std::filesystem::create_directories(fuzz::Folder() / "m/random/1");
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    const std::filesystem::path path = fuzz::Folder() / kFiles[i];
    if (i < parts.size() && !parts[i].empty()) {
      fuzz::Write(path, fuzz::Rows(parts[i]));
    } else {
      std::filesystem::remove(path);
    }
  }
  (void)harness::CheckRecordsBelow(fuzz::Folder());
  try {
    const plots::ExperimentRecords records =
        plots::LoadExperiment(fuzz::Folder() / "m");
    const plots::Summary summary = plots::Summarize(records);
    const auto comparison =
        plots::Compare(summary, plots::DefaultReference(records.problems));
    (void)plots::ToCsv(summary);
    (void)plots::ToText(summary, comparison, records.info,
                        plots::Form::kMarkdown);
  } catch (const common::InputError&) {
  }
  return 0;
}
