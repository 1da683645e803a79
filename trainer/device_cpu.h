// The CPU as a device: one thread per rank, oneDNN or OpenBLAS for matrix
// products where they were found, own loops for the rest.

#pragma once

#include <memory>
#include <string>

#include "trainer/device.h"

namespace trainer {

enum class CpuPrecision { kFloat, kDouble };

// Functions run on the calling thread and are done when they return. Weights
// and wide numbers have the same type. Reserve maps memory without touching it.
// Call it from the thread that will use the device.
[[nodiscard]] std::unique_ptr<Device> MakeCpuDevice(CpuPrecision precision);

// "oneDNN and OpenBLAS", "own loops", ...
[[nodiscard]] std::string CpuLibraries();

}  // namespace trainer
