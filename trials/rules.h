// Rules that drop configurations, as expressions over their fields.

#ifndef TRIALS_RULES_H_
#define TRIALS_RULES_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trials/parallel_config.h"

namespace trials {

// One rule in Astra's format: expressions over $variables joined by && and ||
// (&& binds tighter); a configuration for which it is true is dropped.
//
//   $zero_stage > 1 && $pp > 1
//   $num_gpus % ($pp * $tp) != 0
//
// Operators: + - * / % == != < <= > >= && || ! and parentheses; `=` and `≠`
// are read as == and !=. `%` is the remainder of whole numbers. Variables: the
// fields of ParallelConfig (and their aliases), num_gpus, and the workload's
// numbers (layers, heads, kv_heads, batch_size, sequence_length, hidden_size).
//
// Source: Astra Sec. 3.3, Eqs. 10-19.
// Errors: Parse throws InputError naming the place, the expression, the
// position in it and the known variables.
class Rule {
 public:
  // `where` is "file:line:column" or "file:line" for messages; `origin` is the
  // rule set's name, or "manifest".
  [[nodiscard]] static Rule Parse(const std::string& expression,
                                  const std::string& origin,
                                  const std::string& where);

  // Values of the variables that do not come from the configuration.
  using Context = std::map<std::string, double, std::less<>>;

  [[nodiscard]] bool Matches(const ParallelConfig& config,
                             const Context& context) const;

  [[nodiscard]] const std::string& expression() const { return expression_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }

 private:
  struct Compiled;
  std::string expression_;
  std::string origin_;
  std::shared_ptr<Compiled> compiled_;
};

// Reads a rule set: a text file, one rule a line, `#` starts a comment.
[[nodiscard]] std::vector<Rule> ReadRuleSet(const std::filesystem::path& path);

}  // namespace trials

#endif  // TRIALS_RULES_H_
