// Any rule is compiled and evaluated, or refused with an InputError.

#include <string>

#include "common/error.h"
#include "tests/fuzz/input_file.h"
#include "trials/rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const trials::Rule::Context context = trials::RuleContext({}, 8);
  trials::ParallelConfig config;
  config.dp = 2;
  config.pp = 4;
  try {
    const trials::Rule rule =
        trials::Rule::Parse(std::string(fuzz::Text(data, size)), "fuzz", "1");
    (void)rule.Matches(config, context);
  } catch (const common::InputError&) {
  }
  return 0;
}
