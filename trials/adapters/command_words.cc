#include "trials/adapters/command_words.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/ranges.h"
#include "common/text.h"

namespace trials {
namespace {

using Words = std::vector<std::string>;

bool IsBoolean(std::string_view word) {
  return word == "True" || word == "true" || word == "False" || word == "false";
}

bool IsKey(std::string_view flag) {
  return !flag.starts_with('-') && !flag.starts_with('_');
}

// "flag:value" instead of "flag=value".
char SeparatorOf(std::string_view flag) {
  return flag.ends_with(':') ? ':' : '=';
}

// Whether the value follows '=' in the same word, whatever the words show.
bool IsJoined(std::string_view flag) {
  return flag.ends_with('=') || IsKey(flag);
}

std::string_view NameOf(std::string_view flag) {
  return flag.substr(0, flag.find(SeparatorOf(flag)));
}

// The words [begin, end) of a flag, of which the value is in the first one if
// it follows a separator.
struct FlagValueSpan {
  std::size_t begin;
  std::size_t end;
  std::size_t separator;  // npos: there is none
  bool negated = false;   // "--noflag"
};

bool IsNegation(std::string_view word, std::string_view name) {
  if (!name.starts_with("--")) {
    return false;
  }
  const std::size_t dot = name.rfind('.');
  return SameName(word, fmt::format("--no{}", name.substr(2))) ||
         SameName(word, fmt::format("--no{}", name.substr(1))) ||
         (dot != std::string::npos &&
          SameName(word, fmt::format("{}.no-{}", name.substr(0, dot),
                                     name.substr(dot + 1))));
}

std::optional<FlagValueSpan> Find(const Words& words, std::string_view flag,
                                  bool has_value) {
  const std::string_view wanted = NameOf(flag);
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::string_view word = words[i];
    const std::size_t separator = word.find(SeparatorOf(flag));
    const bool joined = separator != std::string::npos;
    std::string_view name = word.substr(0, separator);
    if (IsKey(flag) && joined) {  // "++key=value"
      name.remove_prefix(std::min(name.find_first_not_of('+'), name.size()));
    }
    if (IsKey(flag) ? !joined : !word.starts_with('-')) {
      continue;
    }
    if (!joined && IsNegation(word, wanted)) {
      return FlagValueSpan{i, i + 1, separator, true};
    }
    if (SameName(name, wanted)) {
      const bool next = !joined && !IsJoined(flag) && i + 1 < words.size() &&
                        (has_value || IsBoolean(words[i + 1]));
      return FlagValueSpan{i, i + (next ? 2U : 1U), separator};
    }
  }
  return std::nullopt;
}

// Whether some option of the program, after the words of its launcher, is
// written "--flag=value", and none "--flag value".
bool ShowsJoinedOptions(const Words& words) {
  auto word = std::ranges::find_if(words, [](const std::string& each) {
    return each == "-m" || each.ends_with(".py");
  });
  word = word == words.end() ? words.begin() : word;
  bool joined = false;
  for (; word != words.end(); ++word) {
    if (!word->starts_with("--")) {
      continue;
    }
    if (word->find('=') != std::string::npos) {
      joined = true;
    } else if (word + 1 != words.end() && !(word + 1)->starts_with('-')) {
      return false;
    }
  }
  return joined;
}

// Whether a value of the option is in its word or follows it.
bool ShowsValue(const Words& words, const FlagValueSpan& span) {
  return span.separator != std::string::npos || span.negated ||
         (span.end - span.begin == 2 &&
          (!words[span.begin + 1].starts_with('-') ||
           !std::isnan(common::NumberOrNan(words[span.begin + 1]))));
}

}  // namespace

bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_'));
         });
}

std::optional<std::string> FlagValue(const Words& words, std::string_view flag,
                                     bool has_value) {
  const std::optional<FlagValueSpan> span = Find(words, flag, has_value);
  if (!span) {
    return std::nullopt;
  }
  const bool next = span->end - span->begin == 2;
  std::string value;
  if (span->separator != std::string::npos) {
    value = words[span->begin].substr(span->separator + 1);
  } else if (next) {
    value = words[span->begin + 1];
  } else if (span->negated || IsJoined(flag)) {
    value = span->negated ? "false" : "true";
  }
  if (has_value) {
    return value;
  }
  // "--flag False" is a flag that is off.
  return value == "False" || value == "false" ? std::nullopt
                                              : std::optional<std::string>("");
}

void SetFlagWord(Words& words, std::string_view flag, bool has_value,
                 const std::string& value) {
  const bool joined = IsJoined(flag) || ShowsJoinedOptions(words);
  const FlagValueSpan span =
      Find(words, flag, has_value)
          .value_or(
              FlagValueSpan{words.size(), words.size(), std::string::npos});
  const bool exists = span.begin < words.size() && !span.negated;
  Words set = {exists ? words[span.begin].substr(0, span.separator)
                      : std::string(NameOf(flag))};
  if (has_value && (span.separator != std::string::npos || IsJoined(flag) ||
                    (!exists && joined))) {
    set.front() += SeparatorOf(flag) + value;
  } else if (has_value) {
    set.push_back(value);
  }
  words.erase(words.begin() + span.begin, words.begin() + span.end);
  words.insert(words.begin() + span.begin, set.begin(), set.end());
}

void RemoveFlag(Words& words, std::string_view flag, bool has_value) {
  while (const auto span = Find(words, flag, has_value)) {
    if (span->negated) {
      return;
    }
    words.erase(words.begin() + span->begin, words.begin() + span->end);
  }
}

std::optional<std::string> OptionValue(const Words& words,
                                       std::string_view option) {
  const std::optional<FlagValueSpan> span = Find(words, option, true);
  return span && !ShowsValue(words, *span) ? "true"
                                           : FlagValue(words, option, true);
}

void RemoveOption(Words& words, std::string_view option) {
  while (const auto span = Find(words, option, true)) {
    const std::size_t end =
        ShowsValue(words, *span) ? span->end : span->begin + 1;
    words.erase(words.begin() + span->begin, words.begin() + end);
  }
}

std::optional<double> AsNumber(const std::string& text) {
  try {
    return text.empty() ? std::nullopt
                        : std::optional<double>(common::ParseDouble(text));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

bool SameText(const std::string& a, const std::string& b) {
  const std::optional<double> x = AsNumber(a);
  const std::optional<double> y = AsNumber(b);
  return x && y ? *x == *y : common::Lower(a) == common::Lower(b);
}

Words OptionNames(const Words& words) {
  static const common::Pattern option(
      R"(^(?:(--[A-Za-z][^=]*)|\+{0,2}([a-z_][\w.]*)=))");
  Words names;
  for (const std::string& word : words) {
    const auto found = option.Find(word);
    const std::string name(found.empty()      ? ""
                           : found[1].empty() ? found[2]
                                              : found[1]);
    if (!name.empty() && !common::Contains(names, name)) {
      names.push_back(name);
    }
  }
  return names;
}

Words TakeSubcommand(Words& words, std::string_view subcommand) {
  const std::optional<FlagValueSpan> span = Find(words, subcommand, true);
  const auto begin = span ? words.begin() + span->begin : words.end();
  Words taken(std::make_move_iterator(begin),
              std::make_move_iterator(words.end()));
  words.erase(begin, words.end());
  return taken;
}

}  // namespace trials
