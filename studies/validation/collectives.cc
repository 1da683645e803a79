// Times of collectives: nccl-tests as vTrain published them, and those of
// Aceso's profiler.

#include <string>

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"
#include "studies/validation/table_kind.h"

namespace studies {
namespace {

using common::kMebi;
constexpr double kFailedMs = 1e6;  // Aceso's profiler's value for a failure

}  // namespace

// One row per size: gpu, ngpus, bytes, out_of_place_us.
RowFacts ReadNccl(const TableRow& row) {
  RowFacts read(row);
  const std::string gpu = row.Cell("gpu");
  const std::string gpus = row.Cell("ngpus");
  read.part.name = "all-reduce";
  read.part.bytes = row.Number("bytes");
  read.facts.Add("scenario", fmt::format("{}-{}", gpu, gpus));
  read.facts.Add("gpus", gpus);
  read.facts.Add("status", "ok");
  read.facts.Add("step_time_s",
                 common::ExactText(1e-6 * row.Number("out_of_place_us")));
  read.tokens = {gpu};
  return read;
}

// Lines "prim_<model>_<collective>_<n>gpus, MB, ms" (MB of 2^20 bytes), each
// kind after a line of titles. Lines of messages between two GPUs have a
// different form.
RowFacts ReadAcesoCollectives(const TableRow& row) {
  RowFacts read(row);
  const std::string& name = row.csv.cells[0];
  if (!name.starts_with("prim_")) {
    read.left_out = "messages: see the [intra] and [inter] of the cluster";
    return read;
  }
  if (row.csv.cells[1].starts_with("data_size")) {
    read.left_out = "a line of titles";
    return read;
  }
  struct Form {
    std::string_view name;  // in the table
    std::string_view part;  // in the simulator
    bool gathers;           // the size is that of one rank's share
    double copies;          // of the whole buffer, reading and writing
  };
  // PyTorch's all_gather and reduce_scatter copy lists of tensors from and to
  // one buffer.
  constexpr Form kForms[] = {{"_all_gather_", "all-gather", true, 2.0},
                             {"_all_reduce_", "all-reduce", false, 0.0},
                             {"_reduce_scatter_", "reduce-scatter", false, 2.0},
                             {"_all_to_all_", "all-to-all", false, 0.0}};
  for (const Form& form : kForms) {
    const std::size_t at = name.find(form.name);
    if (at == std::string::npos) {
      continue;
    }
    const std::size_t digits = at + form.name.size();
    const std::string gpus = name.substr(digits, name.find("gpus") - digits);
    const double megabytes = common::ParseDouble(row.csv.cells[1]);
    read.part.name = form.part;
    read.part.bytes =
        kMebi * megabytes * (form.gathers ? common::ParseDouble(gpus) : 1.0);
    read.part.copied_bytes = form.copies * read.part.bytes;
    read.facts.Add("scenario", name.substr(0, at));
    read.facts.Add("gpus", gpus);
    read.facts.Add("status", "ok");
    const double time_ms = common::ParseDouble(row.csv.cells[2]);
    if (megabytes < 1.0) {
      read.left_out = "less than the MiB that sizes are rounded to";
    } else if (time_ms < kFailedMs) {
      read.facts.Add("step_time_s", common::ExactText(1e-3 * time_ms));
    } else {
      read.left_out = "did not run";
    }
    return read;
  }
  read.left_out = "another collective";
  return read;
}

}  // namespace studies
