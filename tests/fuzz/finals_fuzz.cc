// Any finals.json is refused with an InputError, or compared.

#include <cmath>
#include <cstdlib>

#include "common/error.h"
#include "common/json.h"
#include "jobs/tune/finals.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "finals.json";
  try {
    common::Json json = common::ParseJson(fuzz::Text(data, size), "input");
    if (!json.is_object()) {
      return 0;
    }
    fuzz::Write(path, common::SealedText(json));
    const jobs::Finals finals = jobs::ReadFinals(path);
    for (const jobs::Finalist& one : finals.finalists) {
      const auto time = jobs::MeanStepTime(one);
      (void)jobs::Contends(one, finals.finalists, 1);
      if (time && !(std::isfinite(time->mean_s) && time->mean_s > 0.0)) {
        std::abort();
      }
    }
  } catch (const common::InputError&) {
  }
  return 0;
}
