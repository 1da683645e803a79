#include "trials/rules.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <muParser.h>

#include "common/error.h"
#include "common/files.h"
#include "common/pattern.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/knobs.h"

namespace trials {
namespace {

struct ContextVariable {
  std::string_view name;
  double (*value)(const Workload& workload, int gpus);
};

using W = const Workload&;
// The fields of trials::Model are variables, too.
constexpr auto kContextVariables = std::to_array<ContextVariable>({
    {"num_gpus", [](W, int gpus) -> double { return gpus; }},
    {"heads", [](W w, int) -> double { return w.model.attention_heads; }},
    {"batch_size", [](W w, int) -> double { return w.batch_size; }},
    {"sequence_length", [](W w, int) -> double { return w.sequence_length; }},
    {"precision_bits",
     [](W w, int) { return w.precision == Precision::kFp32 ? 32.0 : 16.0; }},
    {"fp16",
     [](W w, int) -> double { return w.precision == Precision::kFp16; }},
    {"fp8", [](W w, int) -> double { return w.precision == Precision::kFp8; }},
    {"moe_layers",
     [](W w, int) -> double { return w.model.layers - w.model.dense_layers; }},
    {"kinds",
     [](W w, int) -> double {
       return static_cast<double>(w.model.kinds.size());
     }},
    {"towers",
     [](W w, int) -> double {
       return static_cast<double>(w.model.towers.size());
     }},
    {"rare_parts",
     [](W w, int) { return static_cast<double>(RareParts(w.model).size()); }},
    {"offload_optimizer",
     [](W w, int) -> double {
       return w.training.Offloads(Offloaded::kOptimizer);
     }},
    {"offload_parameters",
     [](W w, int) -> double {
       return w.training.Offloads(Offloaded::kParameters);
     }},
    {"fp32_gradients",
     [](W w, int) -> double { return w.training.fp32_gradients; }},
    // No cost depends on these; a config.json may say otherwise.
    {"rope_theta", [](W, int) { return 10000.0; }},
    {"rope_scaling", [](W, int) { return 1.0; }},
    {"norm_epsilon", [](W, int) { return 1e-5; }},
    {"routed_scaling", [](W, int) { return 1.0; }},
    {"llama3_scaling", [](W, int) { return 0.0; }},
    {"mscale", [](W, int) { return 1.0; }},
    {"mscale_all_dim", [](W, int) { return 0.0; }},
    {"own_type", [](W, int) { return 1.0; }},
    {"window_left", [](W w, int) { return w.model.window - 1.0; }},
});

Rule::Context ContextOf(const Workload& workload, int gpus) {
  Rule::Context context;
  for (const ContextVariable& each : kContextVariables) {
    context.emplace(each.name, each.value(workload, gpus));
  }
  VisitFields(workload.model, [&](const char* name, const auto& value) {
    context.emplace(name, static_cast<double>(value));
  });
  return context;
}

bool IsContextVariable(std::string_view name) {
  static const Rule::Context all = ContextOf({}, 0);
  return all.contains(name);
}

double Remainder(double a, double b) {
  if (b == 0.0) {
    throw std::domain_error("a remainder of a division by zero");
  }
  return std::fmod(a, b);
}

double Not(double a) { return a == 0.0 ? 1.0 : 0.0; }

// The source of a variable's value.
struct Variable {
  const Knob* knob = nullptr;  // nullptr: a flag, or from the context
  const Knob* flag = nullptr;  // the knob whose flag it is
  std::string name;
  double value = 1.0;  // read by the compiled expression
};

// Rewrites a rule for the expression library: $name -> name, = -> ==, and the
// mathematical signs. Keeps the names of the variables and, for messages, the
// place in the rule that each character came from.
class Translator {
 public:
  Translator(const std::string& expression, std::string where,
             const KnobSet& knobs)
      : expression_(expression), where_(std::move(where)), knobs_(knobs) {}

  void Run() {
    // A variable, a word, a number, a sign.
    static const common::Pattern token(
        R"(\$(\w*)|([A-Za-z_]\w*)|(\d[\w.]*)|[=!<>]=|)"
        "\u2260|\u2264|\u2265|[\\s\\S]");
    for (at_ = 0; at_ < expression_.size();) {
      const std::vector<std::string_view> match = token.Find(expression_, at_);
      const std::string word(match[0]);
      const std::string translation = word.front() == '$'
                                          ? Variable(word.substr(1))
                                      : !match[2].empty() ? Word(word)
                                      : !match[3].empty() ? Number(word)
                                                          : Sign(word);
      text_ += translation;
      origin_.insert(origin_.end(), translation.size(), at_);
      at_ += word.size();
    }
  }

  // Position (from 0) in the rule, of a position in the translation.
  [[noreturn]] void FailAtTranslated(std::size_t position,
                                     const std::string& message) const {
    Fail(position < origin_.size() ? origin_[position] : expression_.size(),
         message);
  }

  [[noreturn]] void Fail(std::size_t position,
                         const std::string& message) const {
    throw common::InputError(fmt::format("{}: rule \"{}\", character {}: {}",
                                         where_, expression_, position + 1,
                                         message));
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::string Variable(const std::string& name) {
    if (name.empty()) {
      Fail(at_, "a variable's name must follow '$'");
    }
    const Knob* knob = knobs_.Find(name);
    if (knob == nullptr && !IsContextVariable(name) &&
        knobs_.FindFlag(name) == nullptr) {
      std::vector<std::string> known = common::NamesIn(knobs_, &Knob::name);
      for (const auto& [each, value] : ContextOf({}, 0)) {
        known.push_back(each);
      }
      Fail(at_, fmt::format("unknown variable '${}'{}; known: {}", name,
                            common::DidYouMean(name, known),
                            fmt::join(known, ", ")));
    }
    std::string variable = knob == nullptr ? name : knob->name;
    if (!common::Contains(names_, variable)) {
      names_.push_back(variable);
    }
    return variable;
  }

  // A name without $: true, false or a function.
  [[nodiscard]] std::string Word(const std::string& word) const {
    static const std::map<std::string, std::string> known = {
        {"true", "1"},  {"True", "1"},  {"false", "0"},
        {"False", "0"}, {"min", "min"}, {"max", "max"}};
    if (const auto found = known.find(word); found != known.end()) {
      return found->second;
    }
    Fail(at_,
         knobs_.Find(word) != nullptr || IsContextVariable(word)
             ? fmt::format("'{0}' is a variable: write ${0}", word)
             : fmt::format("unknown word '{}'; a variable is written $name, "
                           "and true, false, min and max are known",
                           word));
  }

  [[nodiscard]] std::string Number(const std::string& number) const {
    try {
      (void)common::ParseDouble(number);
    } catch (const std::invalid_argument& e) {
      Fail(at_, e.what());
    }
    return number;
  }

  static std::string Sign(const std::string& sign) {
    return sign == "="        ? "=="
           : sign == "\u2260" ? "!="
           : sign == "\u2264" ? "<="
           : sign == "\u2265" ? ">="
                              : sign;
  }

  const std::string& expression_;
  std::string where_;
  const KnobSet& knobs_;
  std::size_t at_ = 0;  // of the token
  std::string text_;
  std::vector<std::size_t> origin_;
  std::vector<std::string> names_;
};

// The value of a knob, where 0 may mean "derived from the others".
double KnobValue(const Knob& knob, const ParallelConfig& config,
                 const Rule::Context& context) {
  const int value = knob.Get(config);
  const auto batch_size = context.find("batch_size");
  return value == 0 && knob.derived && batch_size != context.end()
             ? knob.derived(config, batch_size->second)
             : knob.Number(value);
}

}  // namespace

// The parser holds pointers to the variables, so neither ever moves; its
// evaluation writes to them and to its own stack, hence the lock.
struct Rule::Compiled {
  explicit Compiled(KnobSet set) : knobs(std::move(set)) {}
  KnobSet knobs;  // owns the rows that the variables point to
  std::vector<Variable> variables;
  mu::Parser parser;
  std::mutex mutex;
};

Rule::Context RuleContext(const Workload& workload, int gpus) {
  return ContextOf(workload, gpus);
}

Rule Rule::Parse(const std::string& expression, const std::string& origin,
                 const std::string& where, const KnobSet& knobs) {
  if (common::Trim(expression).empty()) {
    throw common::InputError(fmt::format("{}: a rule is empty", where));
  }
  Translator translator(expression, where, knobs);
  translator.Run();

  Rule rule;
  rule.expression_ = expression;
  rule.origin_ = origin;
  rule.reason_ = expression;
  rule.compiled_ = std::make_shared<Compiled>(knobs);
  Compiled& compiled = *rule.compiled_;
  for (const std::string& name : translator.names()) {
    compiled.variables.push_back(
        {knobs.Find(name), knobs.FindFlag(name), name});
  }
  try {
    compiled.parser.ClearConst();
    compiled.parser.DefineOprt("%", Remainder, mu::prMUL_DIV);
    compiled.parser.DefineInfixOprt("!", Not);
    for (Variable& variable : compiled.variables) {
      compiled.parser.DefineVar(variable.name, &variable.value);
    }
    compiled.parser.SetExpr(translator.text());
    int results = 0;
    (void)compiled.parser.Eval(results);
    if (results != 1) {
      translator.Fail(0, "a comma separates nothing here; use && or ||");
    }
  } catch (const std::domain_error&) {
    return rule;  // a matter of these values, not of the syntax
  } catch (const mu::ParserError& e) {
    translator.FailAtTranslated(static_cast<std::size_t>(e.GetPos()),
                                e.GetMsg());
  }
  return rule;
}

bool Rule::Matches(const ParallelConfig& config, const Context& context) const {
  return Value(config, context) != 0.0;
}

std::vector<std::string> Rule::KnobNames() const {
  std::vector<std::string> names;
  for (const Variable& variable : compiled_->variables) {
    const Knob* const knob =
        variable.knob != nullptr ? variable.knob : variable.flag;
    if (knob != nullptr) {
      names.push_back(knob->name);
    }
  }
  return names;
}

bool Rule::Reads(std::string_view variable) const {
  return common::Contains(compiled_->variables, variable, &Variable::name);
}

double Rule::Value(const ParallelConfig& config, const Context& context) const {
  const std::lock_guard lock(compiled_->mutex);
  for (Variable& variable : compiled_->variables) {
    if (variable.knob != nullptr) {
      variable.value = KnobValue(*variable.knob, config, context);
      continue;
    }
    if (variable.flag != nullptr) {
      variable.value =
          variable.flag->Get(config) != variable.flag->Default() ? 1.0 : 0.0;
      continue;
    }
    const auto found = context.find(variable.name);
    if (found == context.end()) {
      throw common::InputError(
          fmt::format("rule \"{}\" ({}): ${} is not known for this problem",
                      expression_, origin_, variable.name));
    }
    variable.value = found->second;
  }
  try {
    return compiled_->parser.Eval();
  } catch (const std::domain_error& e) {
    throw common::InputError(fmt::format("rule \"{}\" ({}): {} for {}",
                                         expression_, origin_, e.what(),
                                         ToString(config, compiled_->knobs)));
  }
}

std::vector<Rule> ReadRuleSet(const std::filesystem::path& path,
                              const KnobSet& knobs) {
  if (!common::IsFile(path)) {
    throw common::InputError(
        fmt::format("{}: no such rule set", path.string()));
  }
  const std::string content = common::ReadFile(path);
  std::vector<Rule> rules;
  std::string comment;
  int number = 0;
  for (const std::string_view line : common::Split(content, '\n')) {
    ++number;
    const std::string_view text = common::Trim(line.substr(0, line.find('#')));
    const std::string_view whole = common::Trim(line);
    if (!text.empty()) {
      rules.push_back(Rule::Parse(std::string(text), path.stem().string(),
                                  fmt::format("{}:{}", path.string(), number),
                                  knobs));
      if (!comment.empty()) {
        rules.back().SetReason(comment.substr(
            0, std::min(comment.find(". "), comment.size() - 1)));
      }
    } else if (whole.empty()) {
      comment.clear();
    } else {
      comment += fmt::format("{}{}", comment.empty() ? "" : " ",
                             common::Trim(whole.substr(1)));
    }
  }
  return rules;
}

}  // namespace trials
