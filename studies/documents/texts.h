// Texts with values of records.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace studies {

// A row of a CSV file: column -> text.
using Record = std::map<std::string, std::string, std::less<>>;
using Records = std::vector<const Record*>;

// The text of a column; "" where there is none.
[[nodiscard]] std::string_view TextIn(const Record& record,
                                      std::string_view column);

// Whether all conditions hold, which & separates: COLUMN=TEXT|TEXT,
// COLUMN!=TEXT, COLUMN~PATTERN, COLUMN>=NUMBER or COLUMN>=COLUMN. None holds of
// a record without the column.
[[nodiscard]] bool Meets(const Record& record, std::string_view conditions);

// The first of several texts whose values are all known; otherwise the last
// one, or "" if it knows none. A placeholder {COLUMN[:FORMAT][?CONDITIONS]} is
// the value of the first record that meets the conditions and has a text in the
// column; COLUMN=max and COLUMN=min are conditions, too. Formats:
//
//   2, 1%, 2k  a number with so many decimals, in percent, in thousandths
//   i1%        the same with its interval, COLUMN_low to COLUMN_high
//   m3         the mean over all these records
//   p          a probability, "< 0.001" if it is small
//   #          the number of these records
//   ,          the texts of all of them
//   ~          a text that may be unknown
struct Filled {
  std::string text;
  int known = 0;  // of the values
  int unknown = 0;
};
[[nodiscard]] Filled Fill(const std::vector<std::string>& patterns,
                          const Records& records);

}  // namespace studies
