// Any output of a training program, in pieces of any size, is searched for
// reports; a number that is taken from one is possible.

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "tests/fuzz/input_file.h"
#include "trials/measurement.h"
#include "trials/programs/trial_report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  std::string_view text = fuzz::Text(data, size);
  if (text.empty()) {
    return 0;
  }
  const std::size_t piece = static_cast<unsigned char>(text.front()) + 1U;
  text.remove_prefix(1);
  trials::LineReader lines;
  trials::ReportReader reports;
  const auto take = [&reports](std::string_view line) {
    try {
      for (const trials::TrialReport& report : reports.Read(line).reports) {
        const double step_time_s =
            report.step_time_s.value_or(trials::kLeastStepSeconds);
        if (!(step_time_s >= trials::kLeastStepSeconds &&
              step_time_s <= trials::kMostStepSeconds &&
              report.peak_memory_bytes.value_or(0.0) >= 0.0)) {
          std::abort();
        }
      }
    } catch (const std::invalid_argument&) {
    }
  };
  while (!text.empty()) {
    lines.Take(text.substr(0, piece), take);
    text.remove_prefix(std::min(piece, text.size()));
  }
  lines.Finish(take);
  return 0;
}
