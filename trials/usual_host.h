// The host that a GPU usually comes in.

#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trials {

// A GPU of experiments/machines/machines.toml.
struct UsualHost {
  std::string gpu;                 // the name of its file
  std::vector<std::string> names;  // that and its aliases
  std::string cluster;             // the name of its file
};

// Errors: throws InputError with file:line:column.
[[nodiscard]] std::vector<UsualHost> UsualHosts();

// That of a product, such as "NVIDIA H100 80GB HBM3" (nvidia-smi): of the GPUs
// all words of whose name or alias occur in it, the one with the most words.
// Nothing if there is none.
[[nodiscard]] std::optional<UsualHost> UsualHostOf(const std::string& product);

}  // namespace trials
