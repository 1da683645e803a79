#include "trials/adapters/log_patterns.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/fields.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

using Quantity = LogPatterns::Quantity;

constexpr std::size_t kLongestShown = 240;
// What precedes the label of a bar: the rank, the container, the time.
constexpr const char* kBarHead =
    R"(^(?:\[[^\]]*\]:? ?|\d+: ?|[A-Za-z][\w.-]* *\| ?|[\d-]{10}[T ][\d:.,]+Z? ?)*)";
// What follows it.
constexpr const char* kBar =
    R"( *[0-9]+%\|.*\| *(\d+)/(\d+) \[([0-9:]+)<[^,\]]*, *([0-9.]+)(s/it|it/s))";

// The keys of [log] that hold a pattern for a number.
struct Key {
  std::string_view name;
  Quantity quantity;
  double factor;
  bool is_mean_of_run = false;
  bool is_allocated = false;
};
constexpr std::array<Key, 16> kKeys = {{
    {"step_time_s", Quantity::kStepTime, 1.0},
    {"step_time_ms", Quantity::kStepTime, 1e-3},
    {"steps_per_s", Quantity::kSteps, 1.0},
    {"samples_per_s", Quantity::kSamples, 1.0},
    {"run_samples_per_s", Quantity::kSamples, 1.0, true},
    {"tokens_per_s", Quantity::kTokens, 1.0},
    {"tokens_per_s_per_gpu", Quantity::kTokensOfGpu, 1.0},
    {"memory_bytes", Quantity::kMemory, 1.0},
    {"memory_mib", Quantity::kMemory, common::kMebi},
    {"memory_gib", Quantity::kMemory, common::kGibi},
    {"memory_mb", Quantity::kMemory, 1e6},
    {"memory_gb", Quantity::kMemory, 1e9},
    {"memory_kib", Quantity::kMemory, 1024.0},
    {"allocated_bytes", Quantity::kMemory, 1.0, false, true},
    {"allocated_mib", Quantity::kMemory, common::kMebi, false, true},
    {"allocated_gib", Quantity::kMemory, common::kGibi, false, true},
}};

// Errors: throws std::invalid_argument.
common::Pattern Compiled(const std::string& text) {
  try {
    return common::Pattern(text);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(
        fmt::format("'{}' is not a regular expression: {}", text, e.what()));
  }
}

common::Pattern ReadExpression(const common::TomlTable& table,
                               std::string_view key, const std::string& text,
                               int groups) {
  const common::Pattern expression =
      table.At(key, [&text] { return Compiled(text); });
  if (expression.groups() < groups) {
    table.Fail(
        key,
        fmt::format("'{}' has no group: put the number in parentheses", text));
  }
  return expression;
}

// Up to three lines of a log, those first that have most of the words in `text`
// and of what lines of steps have; of lines that differ in numbers, the first.
std::vector<std::string> SimilarLines(std::string_view log,
                                      const std::string& text) {
  std::set<std::string> words = {"time",    "step",    "iter", "sec",  "tokens",
                                 "samples", "elapsed", "took", "loss", "."};
  std::string word;
  for (const char c : common::Lower(text) + " ") {
    if (c >= 'a' && c <= 'z') {
      word += c;
    } else if (std::string whole = std::exchange(word, ""); whole.size() > 2) {
      words.insert(std::move(whole));
    }
  }
  std::map<std::string, std::pair<std::ptrdiff_t, std::string>> lines;
  for (const std::string_view line : common::Split(log, '\n')) {
    std::string kind = common::Lower(line.substr(0, kLongestShown));
    if (std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; }) > 0) {
      const auto lacks = [&kind](const std::string& each) {
        return kind.find(each) == std::string::npos;
      };
      lines.try_emplace(kind, std::ranges::count_if(words, lacks),
                        common::Printable(line.substr(0, kLongestShown)));
    }
  }
  std::set<std::pair<std::ptrdiff_t, std::string>> similar;
  for (const auto& [kind, line] : lines) {
    if (line.first < std::ssize(words)) {
      similar.insert(line);
    }
  }
  std::vector<std::string> found =
      common::Map(similar, &std::pair<std::ptrdiff_t, std::string>::second);
  found.resize(std::min<std::size_t>(found.size(), 3));
  return found;
}

// `patterns` with those that the table has.
LogPatterns Read(const common::TomlTable& table, LogPatterns patterns) {
  for (const Key& key : kKeys) {
    for (const std::string& text : table.GetStrings(key.name)) {
      patterns.patterns.push_back({key.quantity, key.factor,
                                   ReadExpression(table, key.name, text, 1),
                                   key.is_mean_of_run, key.is_allocated});
    }
  }
  struct List {
    const char* key;
    LogPatterns::Expressions LogPatterns::*expressions;
    int groups;
    const char* before = "";
    const char* after = "";
  };
  for (const List& list : std::initializer_list<List>{
           {"step", &LogPatterns::step, 1},
           {"no_step_time", &LogPatterns::no_step_time, 0},
           {"other_step", &LogPatterns::other_step, 0},
           {"microbatch", &LogPatterns::microbatch, 0},
           {"ends_step", &LogPatterns::ends_step, 0},
           {"progress_bar", &LogPatterns::progress_bar, 5, kBarHead, kBar},
           {"batch_size", &LogPatterns::batch_size, 1},
           {"sequence_length", &LogPatterns::sequence_length, 1},
           {"gpus", &LogPatterns::gpus, 1},
           {"loss", &LogPatterns::loss, 1},
           {"not_finite", &LogPatterns::not_finite, 0},
           {"skipped", &LogPatterns::skipped, 0}}) {
    if (table.Has(list.key)) {
      patterns.*list.expressions =
          common::Map(table.GetStrings(list.key), [&](const std::string& text) {
            return ReadExpression(table, list.key,
                                  list.before + text + list.after, list.groups);
          });
    }
  }
  if (table.Has("comma")) {
    table.At("comma", [&] {
      common::FromText(table.RequireString("comma"), patterns.comma);
    });
  }
  if (table.Has("out_of_memory")) {
    patterns.out_of_memory = table.GetStrings("out_of_memory");
  }
  table.RejectUnknownKeys();
  return patterns;
}

}  // namespace

const LogPatterns& UsualLogPatterns() {
  static const LogPatterns usual = Read(
      common::TomlTable::ParseFile(FindDataFile("adapters/log", "usual")), {});
  return usual;
}

LogPatterns ReadLogPatterns(const common::TomlTable& table) {
  LogPatterns usual = UsualLogPatterns();
  // These are less than a pattern of the table.
  usual.step.clear();
  usual.progress_bar.clear();
  return Read(table, std::move(usual));
}

std::vector<std::string_view> Find(const LogPatterns::Expressions& expressions,
                                   std::string_view text) {
  for (const common::Pattern& expression : expressions) {
    if (auto match = expression.Find(text); !match.empty()) {
      return match;
    }
  }
  return {};
}

std::string_view WithoutBarHead(std::string_view line) {
  static const common::Pattern head(kBarHead);
  return line.substr(head.Find(line)[0].size());
}

std::string WhatWasTried(const LogPatterns& patterns, std::string_view log) {
  std::string tried;
  const auto add = [&tried](const common::Pattern& pattern) {
    tried += fmt::format("{}'{}'", tried.empty() ? "" : ", ", pattern.text());
  };
  for (const LogPatterns::Pattern& pattern : patterns.patterns) {
    if (pattern.quantity != Quantity::kMemory) {
      add(pattern.expression);
    }
  }
  for (const auto* list : {&patterns.ends_step, &patterns.progress_bar}) {
    std::ranges::for_each(*list, add);
  }
  const std::vector<std::string> similar = SimilarLines(log, tried);
  std::string text = "tried " + (tried.empty() ? "no pattern" : tried) +
                     (similar.empty() ? "; no line looks like one of a step"
                                      : "; the most similar lines of the log:");
  for (const std::string& line : similar) {
    text += "\n  " + line;
  }
  return text;
}

}  // namespace trials
