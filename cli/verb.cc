#include "cli/verb.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/text.h"

namespace cli {

using common::InputError;

Option MakeOption(std::string_view term, std::string help,
                  std::function<void(const std::string&)> set) {
  const std::size_t space = std::min(term.find(' '), term.size());
  return {.name = std::string(term.substr(0, space)),
          .value = std::string(common::Trim(term.substr(space))),
          .help = std::move(help),
          .set = std::move(set)};
}

void Read(const std::string& text, Range range, int& target) {
  const std::optional<int> value =
      common::ParseInt(text, range.low, range.high);
  if (!value) {
    throw InputError(range.high == INT_MAX
                         ? fmt::format("must be an integer >= {}", range.low)
                         : fmt::format("must be an integer from {} to {}",
                                       range.low, range.high));
  }
  target = *value;
}

void Read(const std::string& text, Range range, double& target) {
  const bool or_zero = range.low == 0;
  try {
    target = common::ParseDouble(text);
  } catch (const std::invalid_argument&) {
    target = -1.0;
  }
  constexpr double kMost = 1e15;  // beyond what a result can be computed from
  if (!(target > 0.0 || (or_zero && target == 0.0)) || !(target <= kMost)) {
    throw InputError(fmt::format("must be a number {} 0, at most {:g}",
                                 or_zero ? ">=" : ">", kMost));
  }
}

Option Choice(std::string_view term, std::string help, const Words& choices,
              std::function<void(const std::string&)> set) {
  Option option =
      MakeOption(term, std::move(help),
                 [choices, set = std::move(set)](const std::string& text) {
                   if (!common::Contains(choices, text)) {
                     throw InputError(
                         fmt::format("must be {}{}", fmt::join(choices, " or "),
                                     common::DidYouMean(text, choices)));
                   }
                   set(text);
                 });
  option.choices = choices;
  return option;
}

Option Required(Option option) {
  option.required = true;
  return option;
}

Options operator+(Options a, Options b) {
  std::ranges::move(b, std::back_inserter(a));
  return a;
}

}  // namespace cli
