#include "cli/tone.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "common/output.h"

namespace cli {

Option ColorOption() {
  return Choice(
      "--color WHEN",
      "colors: auto (default: on a terminal, unless NO_COLOR is set), "
      "always or never",
      {"auto", "always", "never"}, [](const std::string& when) {
        if (when != "auto") {
          common::ChooseColor(when == "always");
        }
      });
}

void PrintIn(jobs::Tone tone, const std::string& text) {
  constexpr std::array<std::string_view, 4> kColors = {"", "\x1b[32m",
                                                       "\x1b[31m", "\x1b[2m"};
  const bool in_color =
      tone != jobs::Tone::kPlain && common::StandardDisplay().colored;
  if (in_color) {
    common::WriteControl(stdout, kColors.at(static_cast<std::size_t>(tone)));
  }
  fmt::print("{}", text);
  if (in_color) {
    common::WriteControl(stdout, "\x1b[0m");
  }
}

}  // namespace cli
