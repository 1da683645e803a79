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
#include "methods/sampling/evolutionary.h"
#include "methods/sampling/grid.h"
#include "methods/sampling/hierarchical.h"
#include "methods/sampling/random.h"
#include "methods/surrogate_pair.h"
#include "planners/aceso/aceso.h"
#include "planners/amp/amp.h"
#include "planners/astra/astra.h"
#include "planners/nnscaler/nnscaler.h"
#include "planners/textbook/textbook.h"

namespace planners::option_ranges_test {

// Calls check(options) for the options of each method.
template <typename Check>
void ForEachMethod(const Check& check) {
  const auto each = [&](auto options) { check(OptionsOf(options)); };
  each(methods::OppaOptions());
  each(methods::CostModelOptions());
  each(methods::XgboostOptions());
  each(TextbookOptions());
  each(methods::PredictedOrderOptions());
  each(AcesoMethodOptions());
  each(AmpOptions());
  each(AstraMethodOptions());
  each(NnScalerOptions());
  each(methods::RandomOptions());
  each(methods::GridOptions());
  each(methods::HierarchicalOptions());
  each(methods::EvolutionaryOptions());
}

bool Accepts(const methods::Option& option, const std::string& value) {
  const auto table =
      common::TomlTable::ParseString(option.key + " = " + value, "m.toml");
  methods::Problem problem;
  problem.q_max = 1000000;
  try {
    methods::ReadOptions(table, problem, std::vector<methods::Option>{option});
    return true;
  } catch (const common::InputError&) {
    return false;
  }
}

TEST(OptionRanges, IncludeTheirEndsAndNothingBeyond) {
  ForEachMethod([&](const std::vector<methods::Option>& options) {
    for (const methods::Option& option : options) {
      if (const auto* integer = std::get_if<methods::Integer>(&option.value)) {
        EXPECT_FALSE(Accepts(option, std::to_string(integer->least - 1)))
            << option.key;
        EXPECT_TRUE(Accepts(option, std::to_string(integer->least)))
            << option.key;
      }
      if (const auto* number = std::get_if<methods::Number>(&option.value)) {
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

}  // namespace planners::option_ranges_test
