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
struct NearestHost {
  UsualHost host;
  // Words of the product that make it another one: "nvl" of "H100 NVL" or
  // "16gb" of "V100-SXM2-16GB" where the host has GPUs with 32 GB.
  std::vector<std::string> differs;
};
[[nodiscard]] std::optional<NearestHost> NearestHostOf(
    const std::string& product);
// The same; nothing if it differs.
[[nodiscard]] std::optional<UsualHost> UsualHostOf(const std::string& product);

}  // namespace trials
