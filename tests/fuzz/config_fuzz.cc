// Any config.json is read, or refused with an InputError.

#include "common/error.h"
#include "tests/fuzz/input_file.h"
#include "trials/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "config.json";
  fuzz::Write(path, fuzz::Text(data, size));
  try {
    (void)trials::ParameterCount(trials::ReadModel(path));
  } catch (const common::InputError&) {
  }
  return 0;
}
