#include "trials/config_expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"

namespace trials {
namespace {

using common::Json;

// An operator, or a function of one or two numbers. Of two signs that begin
// alike, the longer one is first.
struct Operation {
  std::string_view sign;
  int level;  // higher binds tighter; 0: a function
  double (*apply)(double, double);
};
constexpr int kFactors = 6;  // above all operators
// clang-format off
constexpr auto kOperations = std::to_array<Operation>({
    {"||", 1, [](double a, double b) -> double { return a != 0.0 || b != 0.0; }},
    {"&&", 2, [](double a, double b) -> double { return a != 0.0 && b != 0.0; }},
    {"==", 3, [](double a, double b) -> double { return a == b; }},
    {"!=", 3, [](double a, double b) -> double { return a != b; }},
    {"<=", 3, [](double a, double b) -> double { return a <= b; }},
    {">=", 3, [](double a, double b) -> double { return a >= b; }},
    {"<", 3, [](double a, double b) -> double { return a < b; }},
    {">", 3, [](double a, double b) -> double { return a > b; }},
    {"+", 4, [](double a, double b) { return a + b; }},
    {"-", 4, [](double a, double b) { return a - b; }},
    {"*", 5, [](double a, double b) { return a * b; }},
    {"/", 5, [](double a, double b) { return a / b; }},
    {"%", 5, [](double a, double b) { return std::fmod(a, b); }},
    {"floor", 0, [](double a, double /*b*/) { return std::floor(a); }},
    {"ceil", 0, [](double a, double /*b*/) { return std::ceil(a); }},
    {"min", 0, [](double a, double b) { return std::min(a, b); }},
    {"max", 0, [](double a, double b) { return std::max(a, b); }},
});
// clang-format on

// Evaluates an expression while it is parsed. A value that lacks a key is 0,
// and missing_ names the key.
class Parser {
 public:
  Parser(const ConfigExpression& context, std::string_view text,
         std::size_t at = 0)
      : context_(context), text_(text), at_(at) {}

  std::optional<double> Value(std::string* missing) {
    const double value = Choice(/*rest=*/false);
    if (missing_.empty()) {
      return value;
    }
    if (!Takes("") || at_ < text_.size()) {
      Fail("an operator is needed");
    }
    if (missing != nullptr) {
      *missing = missing_;
    }
    return std::nullopt;
  }

 private:
  [[noreturn]] void Fail(std::string_view what) const {
    context_.file.Fail(fmt::format("types.toml: \"{}\", character {}: {}",
                                   text_, at_ + 1, what));
  }
  // Whether the sign is next, which is then skipped.
  bool Takes(std::string_view sign) {
    at_ = std::min(text_.find_first_not_of(' ', at_), text_.size());
    const bool next = text_.substr(at_).starts_with(sign);
    at_ += next ? sign.size() : 0;
    return next;
  }
  void Expect(std::string_view sign) {
    if (!Takes(sign)) {
      Fail(fmt::format("'{}' is needed", sign));
    }
  }
  // The text up to one of these characters, or that consists of others.
  std::string Until(std::size_t end) {
    const std::size_t from = at_;
    at_ = std::min(end, text_.size());
    return std::string(text_.substr(from, at_ - from));
  }
  std::string Word() {
    Takes("");
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 ||
            text_[end] == '_' || text_[end] == '.')) {
      ++end;
    }
    return Until(end);
  }
  // Whether the file has null, which is the library's None and no default, and
  // another alternative follows.
  bool IsNone(const std::string& key) {
    Takes("");
    return text_.substr(at_).starts_with("| ") && context_.file.IsNull(key);
  }
  double Missing(const std::string& key) {
    missing_ = missing_.empty() ? key : missing_;
    return 0.0;
  }

  // NOLINTBEGIN(misc-no-recursion)
  // The first alternative that has a value; reads the rest only if needed.
  double Choice(bool rest) {
    const std::string outer = missing_;
    std::string first;
    std::optional<double> chosen;
    do {
      missing_.clear();
      const double value = Binary(1);
      if (missing_.empty() && !chosen) {
        chosen = value;
      }
      first = first.empty() ? missing_ : first;
    } while ((rest || !chosen) && Takes("|"));
    missing_ = outer.empty() && !chosen ? first : outer;
    return chosen.value_or(0.0);
  }
  double Binary(int level) {
    if (level == kFactors) {
      return Factor();
    }
    double value = Binary(level + 1);
    while (true) {
      const auto* const next =
          std::ranges::find_if(kOperations, [&](const Operation& each) {
            return each.level == level && Takes(each.sign);
          });
      if (next == kOperations.end()) {
        return value;
      }
      const double other = Binary(level + 1);
      if (next->sign == "%" && other == 0.0 && missing_.empty()) {
        context_.file.Fail(
            fmt::format("\"{}\": a period must not be 0", text_));
      }
      value = next->apply(value, other);
    }
  }
  double Factor() {
    if (Takes("!")) {
      return static_cast<double>(Factor() == 0.0);
    }
    if (Takes("-")) {
      return -Factor();
    }
    if (Takes("(")) {
      const double value = Choice(/*rest=*/true);
      Expect(")");
      return value;
    }
    return Takes("$") ? Field(Word()) : Named(Word());
  }
  double Named(const std::string& word) {
    if (word.empty()) {
      Fail("a key, a number or a function is needed");
    }
    if (const double number = common::NumberOrNan(word); !std::isnan(number)) {
      return number;
    }
    return word == "true"                       ? 1.0
           : word == "false"                    ? 0.0
           : word == "i" && context_.block >= 0 ? context_.block
           : !Takes("(")                        ? Key(word)
           : word == "count" || word == "share" ? Count(word == "share")
                                                : Function(word);
  }
  double Function(const std::string& name) {
    const auto* const numeric =
        std::ranges::find_if(kOperations, [&](const Operation& each) {
          return each.level == 0 && each.sign == name;
        });
    if (numeric == kOperations.end()) {
      return OfKey(name);
    }
    const double value = Choice(/*rest=*/true);
    const double other = Takes(",") ? Choice(/*rest=*/true) : 0.0;
    Expect(")");
    return numeric->apply(value, other);
  }
  double OfKey(const std::string& name) {
    const std::string key = Word();
    std::vector<std::string> texts;
    while (Takes(",")) {
      Takes("");
      texts.push_back(Until(text_.find_first_of(",)", at_)));
    }
    Expect(")");
    const Json* json = context_.file.Find(key);
    if (json != nullptr && json->is_array() && json->empty()) {
      json = nullptr;
    }
    if (name == "has" || name == "size") {
      return json == nullptr ? 0.0
             : name == "has" ? 1.0
                             : static_cast<double>(json->size());
    }
    if (name != "is" && name != "in") {
      Fail(fmt::format("there is no function '{}'", name));
    }
    if (json == nullptr) {
      return Missing(key);
    }
    return static_cast<double>(
        std::ranges::any_of(texts, [&](const std::string& text) {
          return name == "is" ? Is(key, *json, text) : In(key, *json, text);
        }));
  }
  [[nodiscard]] bool In(const std::string& key, const Json& list,
                        const std::string& text) const {
    const double number = Parser(context_, text).Binary(1);
    return std::ranges::any_of(list, [&](const Json& each) {
      if (each.is_number() && each >= context_.model.layers) {
        context_.file.Fail(fmt::format("{} has block {} of {} layers", key,
                                       common::ToText(each),
                                       context_.model.layers));
      }
      return each.is_number() && each == number;
    });
  }
  double Count(bool share) {
    constexpr int kMost = 10000;  // a model with more layers is refused
    const int layers = std::clamp(context_.model.layers, 1, kMost);
    const std::size_t from = at_;
    double sum = 0.0;
    for (int i = 0; i < layers; ++i) {
      const ConfigExpression context{context_.file, context_.model, i};
      Parser one(context, text_, from);
      sum += static_cast<double>(one.Binary(1) != 0.0);
      at_ = one.at_;
      missing_ = one.missing_.empty() ? missing_ : one.missing_;
    }
    Expect(")");
    return share ? sum / layers : sum;
  }
  // NOLINTEND(misc-no-recursion)

  // A list has an element for each block.
  void RequireLength(const std::string& key, std::size_t size) const {
    if (size != static_cast<std::size_t>(context_.model.layers)) {
      context_.file.Fail(fmt::format("{} has {} elements for {} layers", key,
                                     size, context_.model.layers));
    }
  }
  // Of a list, and of a text of letters, the element of the block.
  bool Is(const std::string& key, const Json& json, const std::string& text) {
    const bool letters = json.is_string() && text.size() == 1;
    if (context_.block < 0 || (!letters && !json.is_array())) {
      return json.is_string() ? json == text : common::ToText(json) == text;
    }
    const auto block = static_cast<std::size_t>(context_.block);
    const std::string all = letters ? json.get<std::string>() : "";
    const std::size_t size = letters ? all.size() : json.size();
    RequireLength(key, size);
    const Json element = letters ? Json(all.substr(block, 1)) : json[block];
    return element.is_string() ? element == text
                               : common::ToText(element) == text;
  }
  double Field(const std::string& name) {
    std::optional<double> value;
    VisitFields(context_.model, [&](const char* field, const auto& is) {
      if (name == field) {
        value = static_cast<double>(is);
      }
    });
    return value ? *value : (Fail(fmt::format("no field '{}'", name)), 0.0);
  }
  // The value of a key, or that of a list in which all are alike.
  const Json* OfAllBlocks(const std::string& key) {
    const Json* json = context_.file.Find(key);
    if (json == nullptr || !json->is_array() || json->empty()) {
      return json;
    }
    if (std::ranges::any_of(*json, [json](const Json& each) {
          return each != json->front();
        })) {
      context_.file.Fail(fmt::format(
          "{} differs from block to block: it is not simulated", key));
    }
    RequireLength(key, json->size());
    return &json->front();
  }
  double Key(const std::string& key) {
    const bool defaults = text_.substr(at_).starts_with(':') && Takes(":");
    const double otherwise = defaults ? Factor() : 0.0;
    const Json* json = OfAllBlocks(key);
    if (json == nullptr || *json == "auto") {
      return defaults && !IsNone(key) ? otherwise : Missing(key);
    }
    if (!json->is_number() && !json->is_boolean()) {
      context_.file.Fail(
          fmt::format("{} must be a number, true or false, not {}", key,
                      common::ToText(*json)));
    }
    return json->is_boolean() ? static_cast<double>(json->get<bool>())
                              : json->get<double>();
  }

  const ConfigExpression& context_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::string missing_;
};

}  // namespace

std::optional<double> ConfigExpression::Value(std::string_view text,
                                              std::string* missing) const {
  return Parser(*this, text).Value(missing);
}

}  // namespace trials
