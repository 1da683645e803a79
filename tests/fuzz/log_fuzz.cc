// Any expression is refused or reads any log, in which a number that is taken
// is possible; any output has an error line.

#include <cstdlib>
#include <stdexcept>

#include "common/text.h"
#include "tests/fuzz/input_file.h"
#include "trials/measurement.h"
#include "trials/programs/error_line.h"
#include "trials/programs/log_scanner.h"
#include "trials/programs/loss_watch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const auto lines = common::Split(fuzz::Text(data, size), '\n');
  trials::LogPatterns patterns;
  try {
    using Quantity = trials::LogPatterns::Quantity;
    const common::Pattern pattern(lines.front());
    if (pattern.groups() > 0) {
      patterns.patterns = {{Quantity::kTokens, 1.0, pattern},
                           {Quantity::kMemory, 1e9, pattern}};
      patterns.step = {pattern};
      patterns.loss = {pattern};
    }
    patterns.ends_step = {pattern};
    patterns.skipped = {pattern};
  } catch (const std::invalid_argument&) {
    return 0;
  }
  trials::LogScanner scanner(patterns, {64.0, 4096.0, 8.0}, 0.0);
  trials::LossWatch loss(patterns);
  trials::ErrorLine error;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    error.Read(lines[i]);
    loss.Read(lines[i]);
    try {
      for (const trials::TrialReport& report :
           scanner.Read(lines[i], static_cast<double>(i))) {
        if (report.step_time_s &&
            !(*report.step_time_s >= trials::kLeastStepSeconds &&
              *report.step_time_s <= trials::kMostStepSeconds)) {
          std::abort();
        }
      }
      (void)trials::ReadLog(patterns, {64.0, 4096.0, 8.0}, lines[i]);
    } catch (const std::invalid_argument&) {  // not settled: it says so
    }
  }
  (void)error.text();
  return error.lines() < lines.size() ? 0 : (std::abort(), 0);
}
