#include "common/fields.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace common::fields_test {

struct Disk {
  OPPA_FIELD_LIST(Disk);
  // Fields are found at any distance from one another.
  OPPA_FIELD(double, radius_m, 1.5, "at least 0");

  OPPA_FIELD(bool, filled, true);
  int not_listed = 7;
  OPPA_FIELD(int, corners, 0, "at least 0");
};

std::string TextOf(auto& disk) {
  std::string text;
  VisitFields(disk, [&](const char* name, auto& value, auto... range) {
    text += fmt::format("{}={} ", name, value);
    (text.append(range).append("; "), ...);
  });
  return text;
}

TEST(Fields, AListIsVisitedInItsOrderWithWhatEachFieldAdds) {
  const Disk disk{.radius_m = 2.5};
  EXPECT_EQ(TextOf(disk),
            "radius_m=2.5 at least 0; filled=true corners=0 at least 0; ");
}

TEST(Fields, AVisitorSetsTheFieldsOfAList) {
  Disk disk;
  VisitFields(disk, [](const char*, auto& value, auto...) { value = {}; });
  EXPECT_EQ(disk, (Disk{.radius_m = 0.0, .filled = false}));
}

}  // namespace common::fields_test
