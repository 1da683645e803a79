// The GPUs that this process can use.

#pragma once

#include <cstdint>
#include <string>

namespace trainer::cuda {

// Why there is none; "" if there is one.
[[nodiscard]] std::string NoGpuMessage();
[[nodiscard]] int GpuCount();
[[nodiscard]] std::string GpuName(int gpu);
[[nodiscard]] std::int64_t FreeBytes(int gpu);
// The cores of its socket, as a list of Linux; "" if it does not say.
[[nodiscard]] std::string CoresNextTo(int gpu);
// The number of this process among those of its host (SLURM_LOCALID); 0 outside
// of Slurm.
[[nodiscard]] int LocalRank();

}  // namespace trainer::cuda
