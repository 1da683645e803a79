#include "harness/provenance.h"

#include <array>
#include <filesystem>

#include <Eigen/Core>
#include <fmt/format.h>
#include <unistd.h>

namespace harness {

std::string ProgramVersion() { return "oppa " OPPA_VERSION; }

std::string BuildTools() {
  return fmt::format("g++ {}, Eigen {}.{}.{}, fmt {}", __VERSION__,
                     EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
                     EIGEN_MINOR_VERSION, FMT_VERSION);
}

std::string Version() { return ProgramVersion() + ", " + BuildTools(); }

std::string HostName() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string ProgramPath() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace harness
