#include "trials/programs/command_words.h"

#include <algorithm>
#include <cstddef>

namespace trials {
namespace {

using Words = std::vector<std::string>;

bool IsBoolean(std::string_view word) {
  return word == "True" || word == "true" || word == "False" || word == "false";
}

bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_'));
         });
}

// The words [begin, end) of a flag, of which the value is in the first one if
// it follows '='.
struct FlagValueSpan {
  std::size_t begin;
  std::size_t end;
  std::size_t equals;  // npos: there is none
};

std::optional<FlagValueSpan> Find(const Words& words, std::string_view flag,
                                  bool has_value) {
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::string_view word = words[i];
    if (!word.starts_with('-')) {
      continue;
    }
    const std::size_t equals = word.find('=');
    if (!SameName(word.substr(0, equals), flag)) {
      continue;
    }
    const bool next = equals == std::string::npos && i + 1 < words.size() &&
                      (has_value || IsBoolean(words[i + 1]));
    return FlagValueSpan{i, i + (next ? 2 : 1), equals};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FlagValue(const Words& words, std::string_view flag,
                                     bool has_value) {
  const std::optional<FlagValueSpan> span = Find(words, flag, has_value);
  if (!span) {
    return std::nullopt;
  }
  if (span->equals != std::string::npos) {
    return words[span->begin].substr(span->equals + 1);
  }
  const bool next = span->end - span->begin == 2;
  if (!has_value) {  // "--flag False" is a flag that is off
    const bool off = next && (words[span->begin + 1] == "False" ||
                              words[span->begin + 1] == "false");
    return off ? std::nullopt : std::optional<std::string>("");
  }
  return next ? words[span->begin + 1] : "";
}

void SetFlagWord(Words& words, std::string_view flag, bool has_value,
                 const std::string& value) {
  const FlagValueSpan span =
      Find(words, flag, has_value)
          .value_or(
              FlagValueSpan{words.size(), words.size(), std::string::npos});
  const bool exists = span.begin < words.size();
  Words set = {exists ? words[span.begin].substr(0, span.equals)
                      : std::string(flag)};
  if (has_value && span.equals != std::string::npos) {
    set.front() += "=" + value;
  } else if (has_value) {
    set.push_back(value);
  }
  words.erase(words.begin() + span.begin, words.begin() + span.end);
  words.insert(words.begin() + span.begin, set.begin(), set.end());
}

void RemoveFlag(Words& words, std::string_view flag, bool has_value) {
  while (const auto span = Find(words, flag, has_value)) {
    words.erase(words.begin() + span->begin, words.begin() + span->end);
  }
}

}  // namespace trials
