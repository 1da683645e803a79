#include "trials/workload.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"

namespace trials {
namespace {

Precision ReadPrecision(const common::TomlTable& table) {
  const std::string name = table.GetString("precision", "bf16");
  const std::vector<std::string> known = {"fp32", "fp16", "bf16", "fp8"};
  constexpr std::array kPrecisions = {Precision::kFp32, Precision::kFp16,
                                      Precision::kBf16, Precision::kFp8};
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) {
      return kPrecisions.at(i);
    }
  }
  table.Fail("precision", fmt::format("unknown precision '{}'{}; known: {}",
                                      name, common::DidYouMean(name, known),
                                      fmt::join(known, ", ")));
}

}  // namespace

Workload ReadWorkload(const common::TomlTable& table) {
  Workload workload;
  const std::string path = table.RequireString("model");
  try {
    workload.model = ReadModel(table.Folder() / path);
  } catch (const common::InputError& e) {
    table.Fail("model", fmt::format("model \"{}\": {}", path, e.what()));
  }
  workload.name = workload.model.name;
  workload.batch_size = table.RequireIntIn("batch_size", 1);
  const int positions = workload.model.max_positions;
  const bool images = workload.model.patch_size > 0;
  workload.sequence_length = images && !table.Has("sequence_length")
                                 ? positions
                                 : table.RequireIntIn("sequence_length", 1);
  workload.precision = ReadPrecision(table);
  if (images && workload.sequence_length != positions) {
    table.Fail(
        "sequence_length",
        fmt::format("sequence_length {}: an image is {} tokens for {} "
                    "(its patches and the class token); leave the key "
                    "out",
                    workload.sequence_length, positions, workload.model.name));
  }
  if (positions > 0 && workload.sequence_length > positions) {
    table.Fail("sequence_length",
               fmt::format("sequence_length {} is more than the {} positions "
                           "that {} has learned; use at most {}",
                           workload.sequence_length, positions,
                           workload.model.name, positions));
  }
  return workload;
}

}  // namespace trials
