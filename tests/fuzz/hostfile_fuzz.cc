// Any hostfile is read as words that name hosts, or refused with an InputError.

#include <cstdlib>

#include "common/error.h"
#include "tests/fuzz/input_file.h"
#include "trials/programs/rank_launch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "hostfile";
  fuzz::Write(path, fuzz::Text(data, size));
  try {
    const auto hosts = trials::ReadHosts(path);
    if (hosts.empty()) {
      std::abort();
    }
    for (const std::string& host : hosts) {  // it is a word of ssh
      if (host.empty() || host.front() == '-' ||
          host.find_first_of(" \t\r\n'\"`$;&|<>()\\") != std::string::npos) {
        std::abort();
      }
    }
  } catch (const common::InputError&) {
  }
  return 0;
}
