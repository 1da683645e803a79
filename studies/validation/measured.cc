// Tables of measured configurations (docs/replay_tables.md): columns have the
// names of the facts.

#include <utility>

#include "studies/validation/table_kind.h"
#include "trials/tables/row_training.h"

namespace studies {

RowFacts ReadMeasured(const TableRow& row) {
  RowFacts read(row);
  read.facts = trials::MeasuredFacts(row);
  read.tokens = trials::TokensOf(read.facts.Text("scenario"));
  return read;
}

}  // namespace studies
