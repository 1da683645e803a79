#include "cli/verb.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"

namespace cli {

using common::InputError;

int ParseInteger(const std::string& text, int low, int high) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < low || number > high) {
    throw InputError(
        high == INT_MAX
            ? fmt::format("must be an integer >= {}", low)
            : fmt::format("must be an integer from {} to {}", low, high));
  }
  return number;
}

namespace {

std::string WithDefault(std::string help, const std::string& fallback) {
  return fallback.empty() || fallback == "0"
             ? std::move(help)
             : fmt::format("{} (default: {})", help, fallback);
}

// `item` for each part of a value that is separated by commas.
template <typename Item>
Option ListOf(std::string name,
              std::string value,
              std::string help,
              Item item) {
  Option option{.name = std::move(name),
                .value = std::move(value),
                .help = std::move(help)};
  option.repeated = true;
  option.set = [item](const std::string& text) {
    for (const std::string_view part : common::Split(text, ',')) {
      item(std::string(part));
    }
  };
  return option;
}

}  // namespace

Option Flag(std::string name, std::string help, bool& target) {
  return {.name = std::move(name),
          .value = "",
          .help = std::move(help),
          .set = [&target](const std::string&) { target = true; }};
}

Option Text(std::string name,
            std::string value,
            std::string help,
            std::string& target) {
  return {.name = std::move(name),
          .value = std::move(value),
          .help = WithDefault(std::move(help), target),
          .set = [&target](const std::string& text) { target = text; }};
}

Option Path(std::string name,
            std::string value,
            std::string help,
            std::filesystem::path& target) {
  return {.name = std::move(name),
          .value = std::move(value),
          .help = WithDefault(std::move(help), target.string()),
          .set = [&target](const std::string& text) { target = text; }};
}

Option Integer(std::string name,
               std::string value,
               std::string help,
               int& target,
               int low,
               int high) {
  return {.name = std::move(name),
          .value = std::move(value),
          .help = WithDefault(std::move(help), std::to_string(target)),
          .set = [&target, low, high](const std::string& text) {
            target = ParseInteger(text, low, high);
          }};
}

Option Seconds(std::string name, std::string help, double& target) {
  return {.name = std::move(name),
          .value = "SECONDS",
          .help = WithDefault(std::move(help), fmt::format("{:g}", target)),
          .set = [&target](const std::string& text) {
            try {
              target = common::ParseDouble(text);
            } catch (const std::invalid_argument&) {
              target = 0.0;
            }
            if (!(target > 0.0) || !std::isfinite(target)) {
              throw InputError("must be a number > 0");
            }
          }};
}

Option Choice(std::string name,
              std::string value,
              std::string help,
              const Words& choices,
              std::function<void(const std::string&)> set) {
  Option option{.name = std::move(name),
                .value = std::move(value),
                .help = std::move(help)};
  option.choices = choices;
  option.set = [choices, set = std::move(set)](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      throw InputError(fmt::format("must be {}{}",
                                   fmt::join(choices, " or "),
                                   common::DidYouMean(text, choices)));
    }
    set(text);
  };
  return option;
}

Option List(std::string name,
            std::string value,
            std::string help,
            std::vector<std::string>& target) {
  return ListOf(
      std::move(name),
      std::move(value),
      std::move(help),
      [&target](std::string part) { target.push_back(std::move(part)); });
}

Option List(std::string name,
            std::string value,
            std::string help,
            std::vector<int>& target) {
  return ListOf(std::move(name),
                std::move(value),
                std::move(help),
                [&target](const std::string& part) {
                  target.push_back(ParseInteger(part));
                });
}

Option Required(Option option) {
  option.required = true;
  return option;
}

Option Repeated(Option option) {
  option.repeated = true;
  return option;
}

Options operator+(Options a, Options b) {
  std::move(b.begin(), b.end(), std::back_inserter(a));
  return a;
}

}  // namespace cli
