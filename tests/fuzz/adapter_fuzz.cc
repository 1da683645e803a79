// Any adapter is read, or refused with an InputError.

#include "common/error.h"
#include "tests/fuzz/input_file.h"
#include "trials/adapters/adapter.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "adapter.toml";
  fuzz::Write(path, fuzz::Text(data, size));
  try {
    (void)trials::Adapter::Find(path.string(), fuzz::Folder());
  } catch (const common::InputError&) {
  }
  return 0;
}
