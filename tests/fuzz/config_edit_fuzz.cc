// A key of any configuration file is changed, or refused with
// std::invalid_argument; a key that was set has that value.

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/fuzz/input_file.h"
#include "trials/adapters/config_edit.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using trials::ConfigFormat;
  constexpr std::array kFormats = {ConfigFormat::kJson, ConfigFormat::kToml,
                                   ConfigFormat::kYaml};
  if (size == 0) {
    return 0;
  }
  const ConfigFormat format = kFormats[data[0] % kFormats.size()];
  const std::string text(fuzz::Text(data + 1, size - 1));
  for (const std::string path : {"a", "t.a", "t.u.a"}) {
    try {
      const std::string set = trials::SetConfigKey(
          format, text, path, {trials::ConfigValue::Type::kNumber, "7"});
      if (trials::GetConfigKey(format, set, path) != "7") {
        std::abort();
      }
      (void)trials::RemoveConfigKey(format, set, path);
    } catch (const std::invalid_argument&) {
    }
  }
  return 0;
}
