// Values that a paper prints: results/published/PAPER.csv.

#ifndef STUDIES_PLANNERS_PUBLISHED_H_
#define STUDIES_PLANNERS_PUBLISHED_H_

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/csv_table.h"
#include "common/error.h"
#include "trials/data_folder.h"

namespace studies {

class Published {
 public:
  // Errors: throws InputError for a file that cannot be read.
  explicit Published(const std::string& paper)
      : table_(
            common::CsvTable::Read(trials::ExperimentsFolder().parent_path() /
                                   "results/published" / (paper + ".csv"))) {}

  // As printed; "" where the paper has no value.
  [[nodiscard]] std::string Text(std::string_view place,
                                 std::string_view series,
                                 std::string_view x) const {
    for (const common::CsvTable::Row& row : table_.rows()) {
      if (table_.Cell(row, "figure_or_table") == place &&
          table_.Cell(row, "series") == series && table_.Cell(row, "x") == x) {
        return std::string(table_.Cell(row, "value"));
      }
    }
    return "";
  }

  // NaN where the paper has no value.
  [[nodiscard]] double Value(std::string_view place, std::string_view series,
                             std::string_view x) const {
    const std::string text = Text(place, series, x);
    return text.empty() ? std::nan("") : std::strtod(text.c_str(), nullptr);
  }

 private:
  common::CsvTable table_;
};

}  // namespace studies

#endif  // STUDIES_PLANNERS_PUBLISHED_H_
