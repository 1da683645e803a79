// The published tables that this project uses, and which of them are here.

#ifndef STUDIES_PUBLISHED_DATA_H_
#define STUDIES_PUBLISHED_DATA_H_

#include <string>

#include "common/error.h"
#include "plots/table.h"

namespace studies {

struct PublishedData {
  // Of each table: where it is, who uses it, its publisher and licence.
  plots::Table table;
  std::string conclusion;  // what is missing, and the remedy
  bool any_differs = false;
};

// Reads the list experiments/tables/published.csv, and each table in the folder
// that OPPA_DATA names or in experiments/; its check value is common::Hash.
// Errors: throws InputError for a list that is damaged.
[[nodiscard]] PublishedData FindPublishedData();

}  // namespace studies

#endif  // STUDIES_PUBLISHED_DATA_H_
