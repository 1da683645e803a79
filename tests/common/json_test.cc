#include "common/json.h"

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace common::json_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Run {
  int repeat = 0;
  std::uint64_t seed = 0;
};

void VisitFields(FieldsOf<Run> auto& run, const auto& visit) {
  visit("repeat", run.repeat);
  visit("seed", run.seed);
}

Run Parse(const std::string& repeat, const std::string& seed) {
  return ParseJsonAs<Run>(
      R"({"repeat": )" + repeat + R"(, "seed": )" + seed + "}", "run.json");
}

TEST(JsonTest, AnIntegerIsReadExactlyUpToTheBoundsOfItsType) {
  EXPECT_EQ(Parse("2147483647", "18446744073709551615").repeat, 2147483647);
  EXPECT_EQ(Parse("-2147483648", "18446744073709551615").repeat,
            -2147483647 - 1);
  EXPECT_EQ(Parse("1", "18446744073709551615").seed, UINT64_MAX);
  EXPECT_EQ(Parse("3.0", "9007199254740992.0").repeat, 3);
  EXPECT_EQ(Parse("3.0", "18446744073709549568.0").seed, 18446744073709549568U);
}

TEST(JsonTest, ANumberThatItsFieldDoesNotHoldIsRefusedByName) {
  for (const char* repeat :
       {"2147483648", "-2147483649", "2147483648.0", "18446744073709551615",
        "1e300", "0.5", "true", "null", "\"1\""}) {
    EXPECT_THAT(
        [&] { (void)Parse(repeat, "0"); },
        ThrowsMessage<InputError>(HasSubstr("run.json: repeat: it must be")))
        << repeat;
  }
  for (const char* seed :
       {"18446744073709551616", "1.98431e19", "-1", "-0.5"}) {
    EXPECT_THAT([&] { (void)Parse("0", seed); },
                ThrowsMessage<InputError>(
                    HasSubstr("run.json: seed: it must be an integer from 0 to "
                              "18446744073709551615, not ")))
        << seed;
  }
}

}  // namespace common::json_test
