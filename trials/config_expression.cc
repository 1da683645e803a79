#include "trials/config_expression.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "common/text.h"

namespace trials {
namespace {

using common::Json;

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '.';
}

// Evaluates one expression while it is parsed, by recursive descent.
class Parser {
 public:
  Parser(const ConfigExpression& context, std::string_view text)
      : context_(context), text_(text) {}

  std::optional<double> Alternatives(std::string* missing) {
    const double value = Choice(/*rest=*/false);
    if (missing_.empty()) {
      return value;
    }
    SkipSpace();
    if (at_ < text_.size()) {
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

  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  // Whether the sign is next, which is then skipped; "|" is not part of "||".
  bool Takes(std::string_view sign) {
    SkipSpace();
    const std::string_view rest = text_.substr(at_);
    const bool longer =
        sign.size() == 1 && rest.size() > 1 &&
        ((rest[1] == '=' &&
          std::string_view("<>!").find(sign[0]) != std::string_view::npos) ||
         (sign == "|" && rest[1] == '|'));
    if (!rest.starts_with(sign) || longer) {
      return false;
    }
    at_ += sign.size();
    return true;
  }
  void Expect(std::string_view sign) {
    if (!Takes(sign)) {
      Fail(fmt::format("'{}' is needed", sign));
    }
  }
  std::string Word() {
    SkipSpace();
    const std::size_t from = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) {
      ++at_;
    }
    return std::string(text_.substr(from, at_ - from));
  }

  // NOLINTBEGIN(misc-no-recursion)
  // The first alternative that has a value; reads the rest only if needed.
  double Choice(bool rest) {
    const std::string outer = missing_;
    std::string first;
    std::optional<double> chosen;
    do {
      missing_.clear();
      const double value = Or();
      if (missing_.empty() && !chosen) {
        chosen = value;
      }
      first = first.empty() ? missing_ : first;
    } while ((rest || !chosen) && Takes("|"));
    missing_ = outer.empty() && !chosen ? first : outer;
    return chosen.value_or(0.0);
  }
  double Or() {
    double value = And();
    while (Takes("||")) {
      value = static_cast<double>((And() != 0.0) | (value != 0.0));
    }
    return value;
  }
  double And() {
    double value = Comparison();
    while (Takes("&&")) {
      value = static_cast<double>((Comparison() != 0.0) & (value != 0.0));
    }
    return value;
  }
  double Comparison() {
    const double left = Sum();
    return Takes("==")   ? Sum() == left
           : Takes("!=") ? Sum() != left
           : Takes("<=") ? Sum() >= left
           : Takes(">=") ? Sum() <= left
           : Takes("<")  ? Sum() > left
           : Takes(">")  ? Sum() < left
                         : left;
  }
  double Sum() {
    double value = Product();
    while (true) {
      if (Takes("+")) {
        value += Product();
      } else if (Takes("-")) {
        value -= Product();
      } else {
        return value;
      }
    }
  }
  double Product() {
    double value = Factor();
    while (true) {
      if (Takes("*")) {
        value *= Factor();
      } else if (Takes("/")) {
        value /= Factor();
      } else if (Takes("%")) {
        value = std::fmod(value, Factor());
      } else {
        return value;
      }
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
    if (Takes("$")) {
      return Field(Word());
    }
    const std::string word = Word();
    if (word.empty()) {
      Fail("a key, a number or a function is needed");
    }
    if (const double number = common::NumberOrNan(word); !std::isnan(number)) {
      return number;
    }
    if (word == "true" || word == "false") {
      return static_cast<double>(word == "true");
    }
    if (word == "i" && context_.block >= 0) {
      return context_.block;
    }
    return Takes("(") ? Function(word) : Key(word);
  }
  double Function(const std::string& name) {
    double value = 0.0;
    if (name == "count" || name == "share") {
      value = Count(name == "share");
    } else if (name == "floor" || name == "ceil") {
      value = name == "floor" ? std::floor(Or()) : std::ceil(Or());
    } else if (name == "min" || name == "max") {
      value = Or();
      Expect(",");
      const double other = Or();
      value = name == "min" ? std::min(value, other) : std::max(value, other);
    } else {
      const std::string key = Word();
      const Json* json = context_.file.Find(key);
      if (json != nullptr && json->is_array() && json->empty()) {
        json = nullptr;
      }
      if (name == "has") {
        value = static_cast<double>(json != nullptr);
      } else if (name == "size") {
        value = json == nullptr ? 0.0 : static_cast<double>(json->size());
      } else if (name == "in") {
        Expect(",");
        const double number = Or();
        value = json == nullptr
                    ? Missing(key)
                    : std::ranges::any_of(*json, [number](const Json& each) {
                        return each.is_number() && each == number;
                      });
      } else if (name == "is") {
        value = json == nullptr ? Missing(key) : 0.0;
        while (Takes(",")) {
          SkipSpace();
          const std::string text = Letters();
          value = std::max(value, static_cast<double>(json != nullptr &&
                                                      Is(key, *json, text)));
        }
      } else {
        Fail(fmt::format("there is no function '{}'", name));
      }
    }
    Expect(")");
    return value;
  }
  double Count(bool share) {
    const int layers = std::max(1, context_.model.layers);
    const std::size_t from = at_;
    double sum = 0.0;
    for (int i = 0; i < layers; ++i) {
      const ConfigExpression context{context_.file, context_.model, i};
      Parser one(context, text_);
      one.at_ = from;
      sum += static_cast<double>(one.Or() != 0.0);
      at_ = one.at_;
      if (!one.missing_.empty()) {
        missing_ = one.missing_;
      }
    }
    return share ? sum / layers : sum;
  }
  // NOLINTEND(misc-no-recursion)

  std::string Letters() {  // up to the end of an argument
    const std::size_t from = at_;
    at_ = std::min(text_.find_first_of(",)", at_), text_.size());
    return std::string(text_.substr(from, at_ - from));
  }

  bool Is(const std::string& key, const Json& json, const std::string& text) {
    const auto block = static_cast<std::size_t>(context_.block);
    const bool letters =
        context_.block >= 0 && json.is_string() && text.size() == 1;
    const std::string& all = letters ? json.get_ref<const std::string&>() : "";
    if (context_.block >= 0 && (letters || json.is_array()) &&
        block >= (letters ? all.size() : json.size())) {
      context_.file.Fail(fmt::format("{} has {} elements for {} layers", key,
                                     letters ? all.size() : json.size(),
                                     context_.model.layers));
    }
    if (letters) {
      return all[block] == text[0];
    }
    const Json& value =
        context_.block >= 0 && json.is_array() ? json[block] : json;
    return value.is_string() ? value == text : common::ToText(value) == text;
  }

  double Missing(const std::string& key) {
    missing_ = missing_.empty() ? key : missing_;
    return 0.0;
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

  double Key(const std::string& key) {
    const bool defaults = at_ < text_.size() && text_[at_] == ':';
    std::optional<double> otherwise;
    if (defaults) {
      ++at_;
      otherwise = Factor();
    }
    const Json* json = context_.file.Find(key);
    if (json != nullptr && json->is_array() && !json->empty()) {
      json = &json->front();  // a list with a number for each block
    } else if (json != nullptr && *json == "auto") {
      json = nullptr;  // as if it were left out
    }
    if (json == nullptr) {
      return otherwise ? *otherwise : Missing(key);
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
  return Parser(*this, text).Alternatives(missing);
}

}  // namespace trials
