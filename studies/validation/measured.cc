// Tables of measured configurations (docs/replay_tables.md): columns have the
// names of the facts.

#include <fmt/format.h>

#include "common/text.h"
#include "studies/validation/table_kind.h"

namespace studies {

RowFacts ReadMeasured(const TableRow& row) {
  RowFacts read(row);
  read.facts.Add(row);
  const std::string status = read.facts.RequireText("status");
  if (status != "ok" && status != "oom") {
    read.facts.Fail(fmt::format("status must be ok or oom, not '{}'", status));
  }
  if (status == "ok") {
    (void)read.facts.RequireText("step_time_s");
  }
  // "ultrascale-1b-128" names a model: 1b.
  const std::string scenario = read.facts.RequireText("scenario");
  for (const std::string_view token : common::Split(scenario, '-')) {
    read.tokens.emplace_back(token);
  }
  return read;
}

}  // namespace studies
