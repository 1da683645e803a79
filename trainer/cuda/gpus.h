// The GPUs that this process can use.

#ifndef TRAINER_CUDA_GPUS_H_
#define TRAINER_CUDA_GPUS_H_

#include <cstdint>
#include <string>

namespace trainer::cuda {

// Why there is none; "" if there is one.
[[nodiscard]] std::string NoGpuMessage();
[[nodiscard]] int GpuCount();
[[nodiscard]] std::string GpuName(int gpu);
[[nodiscard]] std::int64_t FreeBytes(int gpu);
// The number of this process among those of its host (SLURM_LOCALID); 0 outside
// of Slurm.
[[nodiscard]] int LocalRank();

}  // namespace trainer::cuda

#endif  // TRAINER_CUDA_GPUS_H_
