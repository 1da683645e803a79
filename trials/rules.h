// Rules that drop configurations, as expressions over their fields.

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace trials {

// One rule in Astra's format: expressions over $variables joined by && and ||
// (&& binds tighter); a configuration for which it is true is dropped.
//
//   $zero_stage > 1 && $pp > 1
//   $num_gpus % ($pp * $tp) != 0
//
// Operators: + - * / % == != < <= > >= && || ! and parentheses, min(a, b) and
// max(a, b); `=` is read as ==, and the signs for "not equal", "at most" and
// "at least" as !=, <= and >=. `%` is the remainder of integers. Flags are 0
// and 1; `false` and `true` mean the same. Variables: the knobs (and their
// aliases), and those of the problem (see Context). A micro_batch_size
// of 0 has the value it is derived as, batch_size / (dp * microbatches).
//
// Copies share the compiled expression; any number of threads may use them.
//
// Source: Astra Sec. 3.3, Eqs. 10-19.
// Errors: Parse throws InputError naming the place, the expression, the
// position in it and the known variables. Matches throws InputError when the
// context lacks a variable or a remainder is taken of a division by zero.
class Rule {
 public:
  // `where` is "file:line:column" or "file:line" for messages; `origin` is the
  // rule set's name, or "manifest".
  [[nodiscard]] static Rule Parse(const std::string& expression,
                                  const std::string& origin,
                                  const std::string& where,
                                  const KnobSet& knobs = BuiltInKnobs());

  // Values of the variables that do not come from the configuration: num_gpus,
  // heads, batch_size, sequence_length, precision_bits, the fields of Model
  // (layers, kv_heads, experts, ...) and others that a command which trains it
  // needs. `rare_parts`: the number of RareParts.
  using Context = std::map<std::string, double, std::less<>>;

  [[nodiscard]] bool Matches(const ParallelConfig& config,
                             const Context& context) const;
  // The value of the expression; it matches if this is not 0.
  // Errors: as Matches.
  [[nodiscard]] double Value(const ParallelConfig& config,
                             const Context& context) const;
  // The names of the knobs that the expression reads.
  [[nodiscard]] std::vector<std::string> KnobNames() const;
  // Whether it reads this variable of Context.
  [[nodiscard]] bool Reads(std::string_view variable) const;

  [[nodiscard]] const std::string& expression() const { return expression_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  // Why there is the rule, a sentence; the expression where nothing says it.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  void SetReason(std::string reason) { reason_ = std::move(reason); }

 private:
  struct Compiled;
  std::string expression_;
  std::string origin_;
  std::string reason_;
  std::shared_ptr<Compiled> compiled_;
};

// Reads a rule set: a text file, one rule a line, `#` starts a comment. The
// set's name is the file's without its extension. The reason of a rule is the
// first sentence of the comment above it, up to an empty line.
// Errors: throws InputError for a missing file, and "file:line: ..." for a rule
// that cannot be understood.
[[nodiscard]] std::vector<Rule> ReadRuleSet(
    const std::filesystem::path& path, const KnobSet& knobs = BuiltInKnobs());

// The values of these variables for a problem.
[[nodiscard]] Rule::Context RuleContext(const Workload& workload, int gpus);

}  // namespace trials
