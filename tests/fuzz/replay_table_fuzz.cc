// Any table of measurements is read, or refused with an InputError.

#include "common/error.h"
#include "tests/fuzz/input_file.h"
#include "trials/tables/replay_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "table.csv";
  fuzz::Write(path, fuzz::Text(data, size));
  try {
    const auto scenarios = trials::ScenarioNames(path);
    if (!scenarios.empty()) {
      (void)trials::ReplayTable::Read(path, scenarios.back());
    }
  } catch (const common::InputError&) {
  }
  return 0;
}
