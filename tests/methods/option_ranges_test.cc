// The ranges of the options of all methods.

#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "methods/guided/cost_model.h"
#include "methods/guided/predicted_order.h"
#include "methods/guided/xgboost.h"
#include "methods/oppa/oppa.h"
#include "methods/options.h"
#include "methods/planners/aceso/aceso.h"
#include "methods/planners/amp/amp.h"
#include "methods/planners/astra/astra.h"
#include "methods/planners/nnscaler/nnscaler.h"
#include "methods/planners/textbook/textbook.h"
#include "methods/sampling/evolutionary.h"
#include "methods/sampling/grid.h"
#include "methods/sampling/hierarchical.h"
#include "methods/sampling/random.h"
#include "methods/surrogate_pair.h"

namespace methods::option_ranges_test {

// Calls check(options) for the options of each method.
template <typename Check>
void ForEachMethod(const Check& check) {
  const auto each = [&](auto options) { check(OptionsOf(options)); };
  each(OppaOptions());
  each(CostModelOptions());
  each(XgboostOptions());
  each(TextbookOptions());
  each(PredictedOrderOptions());
  each(AcesoMethodOptions());
  each(AmpOptions());
  each(AstraMethodOptions());
  each(NnScalerOptions());
  each(RandomOptions());
  each(GridOptions());
  each(HierarchicalOptions());
  each(EvolutionaryOptions());
}

bool Accepts(const Option& option, const std::string& value) {
  const auto table =
      common::TomlTable::ParseString(option.key + " = " + value, "m.toml");
  Problem problem;
  problem.q_max = 1000000;
  try {
    ReadOptions(table, problem, std::vector<Option>{option});
    return true;
  } catch (const common::InputError&) {
    return false;
  }
}

TEST(OptionRanges, IncludeTheirEndsAndNothingBeyond) {
  ForEachMethod([&](const std::vector<Option>& options) {
    for (const Option& option : options) {
      if (const auto* integer = std::get_if<Integer>(&option.value)) {
        EXPECT_FALSE(Accepts(option, std::to_string(integer->least - 1)))
            << option.key;
        EXPECT_TRUE(Accepts(option, std::to_string(integer->least)))
            << option.key;
      }
      if (const auto* number = std::get_if<Number>(&option.value)) {
        EXPECT_TRUE(Accepts(option, fmt::format("{}", number->least)))
            << option.key;
        EXPECT_FALSE(
            Accepts(option, fmt::format("{}", number->least - 1e-3 - 1e-9)))
            << option.key;
        if (number->most < 1e300) {
          EXPECT_TRUE(Accepts(option, fmt::format("{}", number->most)))
              << option.key;
          EXPECT_FALSE(
              Accepts(option, fmt::format("{}", number->most * 1.001 + 1e-3)))
              << option.key;
        }
      }
    }
  });
}

}  // namespace methods::option_ranges_test
