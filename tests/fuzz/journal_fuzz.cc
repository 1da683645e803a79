// Any content of any file of a run is recovered from, or refused with an
// InputError; what was recovered is the same when it is read again. The input
// is cut at NUL bytes: trials, steps, fits, suggestion times, plans.

#include <array>
#include <cstdlib>
#include <string>

#include "common/error.h"
#include "common/text.h"
#include "harness/records/journal.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/rows.h"
#include "trials/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::array<const trials::RecordFile*, 5> files = {
      &trials::FileOf<trials::Trial>(), &trials::FileOf<trials::StepRecord>(),
      &trials::FileOf<trials::FitRecord>(),
      &trials::FileOf<trials::SuggestionTime>(),
      &trials::FileOf<trials::PlanRecord>()};
  const auto parts = common::Split(fuzz::Text(data, size), '\0');
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::string text = files[i]->header;
    if (i < parts.size() && parts[i].starts_with('#')) {
      text = parts[i];  // with a header of its own
    } else if (i < parts.size()) {
      text += fuzz::Rows(parts[i]);
    }
    fuzz::Write(fuzz::Folder() / files[i]->name, text);
  }
  try {
    const std::size_t found =
        harness::Journal(fuzz::Folder()).committed().size();
    if (harness::Journal(fuzz::Folder()).committed().size() != found) {
      std::abort();
    }
  } catch (const common::InputError&) {
  }
  return 0;
}
