#include "methods/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"

namespace methods {
namespace {

std::string RangeOf(const Integer& option) {
  return fmt::format("an integer >= {}", option.least);
}
std::string RangeOf(const Number& option) {
  return option.most < std::numeric_limits<double>::max()
             ? fmt::format("a number from {} to {}", option.least, option.most)
             : fmt::format("a number >= {}", option.least);
}
std::string RangeOf(const Boolean& /*option*/) { return "true or false"; }
std::string RangeOf(const Text& option) { return option.range; }
std::string RangeOf(const CsvFile& /*option*/) {
  return "the path of a CSV file";
}
std::string RangeOf(const Choice& option) {
  const auto last = option.names.end() - 1;
  return fmt::format("\"{}\" or \"{}\"",
                     fmt::join(option.names.begin(), last, "\", \""), *last);
}

std::string ValueOf(const Integer& option) {
  return std::to_string(*option.value);
}
std::string ValueOf(const Number& option) {
  return fmt::format("{}", *option.value);
}
std::string ValueOf(const Boolean& option) {
  return *option.value ? "true" : "false";
}
std::string ValueOf(const Text& option) {
  return fmt::format("\"{}\"", *option.value);
}
std::string ValueOf(const CsvFile& option) {
  return fmt::format("\"{}\"", *option.path);
}
std::string ValueOf(const Choice& option) {
  return fmt::format("\"{}\"", option.names[option.chosen]);
}

// Reads the value of a key.
struct Reader {
  const common::TomlTable& table;
  const std::string& key;

  void operator()(const Integer& option) const {
    *option.value = table.GetIntIn(key, *option.value, option.least);
  }
  void operator()(const Number& option) const {
    const double value = table.GetDouble(key, *option.value);
    if (!(value >= option.least && value <= option.most)) {
      Fail(common::ExactText(value), "", RangeOf(option));
    }
    *option.value = value;
  }
  void operator()(const Boolean& option) const {
    *option.value = table.GetBool(key, *option.value);
  }
  void operator()(const Text& option) const {
    *option.value = table.GetString(key, *option.value);
  }
  void operator()(const CsvFile& option) const {
    *option.path = table.GetString(key, *option.path);
  }
  void operator()(const Choice& option) const {
    const auto& names = option.names;
    const std::string name = table.GetString(key, names[option.chosen]);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      Fail(name, common::DidYouMean(name, names), RangeOf(option));
    }
    option.choose(static_cast<std::size_t>(found - names.begin()));
  }

  [[noreturn]] void Fail(const std::string& value, const std::string& hint,
                         const std::string& range) const {
    table.Fail(key, fmt::format("invalid value '{}' for {}{}: must be {}",
                                value, key, hint, range));
  }
};

}  // namespace

Option PredictionsOption(std::string& source) {
  return {"predictions",
          Text{&source, "\"\" or the name of a table [predictions.NAME]"},
          "Source of the predictions; \"\" is the table [predictions] itself.",
          ""};
}

std::vector<Option> OptionsOf(trials::ThroughputOptions& o) {
  return {
      {"outlier_iqr", Number{&o.outlier_iqr, 0.0},
       "Steps at least this many interquartile ranges from the median are "
       "outliers; 0: none.",
       "App. F.2"},
      {"warmup_steps", Integer{&o.warmup_steps, 0},
       "Steps at the start of a trial that do not count.", "App. F.2"},
      {"variance_of_mean", Boolean{&o.variance_of_mean},
       "Let the variance of a throughput be that of the mean over its steps; "
       "as printed it is that of one step.",
       "Eq. 28"}};
}

void ReadOptions(const common::TomlTable& table, const Problem& problem,
                 const std::vector<Option>& options) {
  const std::vector<std::string> keys = table.Keys();
  const auto given = [&keys](const std::string& key) {
    return common::Contains(keys, key);
  };
  for (const Option& option : options) {
    std::visit(Reader{table, option.key}, option.value);
    const std::string error =
        option.check && given(option.key) ? option.check(problem) : "";
    if (!error.empty()) {
      table.Fail(option.key, error);
    }
  }
}

std::vector<std::filesystem::path> FilesOf(const std::vector<Option>& options) {
  std::vector<std::filesystem::path> files;
  for (const Option& option : options) {
    const auto* file = std::get_if<CsvFile>(&option.value);
    if (file != nullptr && !file->path->empty()) {
      files.emplace_back(*file->path);
    }
  }
  return files;
}

std::vector<OptionText> Describe(const std::vector<Option>& options) {
  std::vector<OptionText> texts;
  for (const Option& option : options) {
    std::visit(
        [&](const auto& value) {
          texts.push_back({option.key, ValueOf(value), RangeOf(value),
                           option.meaning, option.reference});
        },
        option.value);
  }
  return texts;
}

}  // namespace methods
