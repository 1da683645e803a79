#include "trainer/cuda/nccl_connection.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace trainer::cuda {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

// The id of a group: its first rank makes it, the others read it.
ncclUniqueId ShareId(NcclFabric& fabric, const std::string& name, int rank) {
  const std::string path = fabric.rendezvous() + "." + name;
  ncclUniqueId id{};
  if (rank == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
      throw std::runtime_error(
          fmt::format("ncclGetUniqueId: {}", ncclGetErrorString(result)));
    }
    const std::string part = path + ".part";
    std::ofstream out(part, std::ios::binary);
    out.write(id.internal, sizeof(id.internal));
    out.close();
    if (!out) {
      throw std::runtime_error("could not write " + part);
    }
    std::filesystem::rename(part, path);
    return id;
  }
  PollUntil(fabric, "the first rank of group " + name, [&] {
    std::ifstream in(path, std::ios::binary);
    return static_cast<bool>(in.read(id.internal, sizeof(id.internal)));
  });
  return id;
}

}  // namespace

void PollUntil(NcclFabric& fabric, const std::string& what,
               const std::function<bool()>& ready) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(fabric.timeout_s());
  while (!ready()) {
    fabric.Check();
    if (std::chrono::steady_clock::now() > end) {
      fabric.Abort(EndReason::kFailed, fmt::format("waited for {} for {:g} s",
                                                   what, fabric.timeout_s()));
      fabric.Check();
    }
    std::this_thread::sleep_for(kPoll);
  }
}

NcclConnection::NcclConnection(NcclFabric& fabric, const std::string& name,
                               int rank, int size)
    : fabric_(fabric) {
  const ncclUniqueId id = ShareId(fabric, name, rank);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result =
      ncclCommInitRankConfig(&comm_, size, id, rank, &config);
  if (result != ncclSuccess && result != ncclInProgress) {
    throw std::runtime_error(
        fmt::format("ncclCommInitRankConfig: {}", ncclGetErrorString(result)));
  }
  Done(ncclInProgress, "ncclCommInitRankConfig");
  if (rank == 0) {  // all ranks have read it
    std::error_code error;
    std::filesystem::remove(fabric.rendezvous() + "." + name, error);
  }
}

NcclConnection::~NcclConnection() {
  if (comm_ != nullptr) {
    // Abort also ends what will never complete.
    if (fabric_.end_reason() == EndReason::kNone) {
      ncclCommDestroy(comm_);
    } else {
      ncclCommAbort(comm_);
    }
  }
}

void NcclConnection::Done(ncclResult_t result, const char* call) const {
  if (result == ncclInProgress) {
    PollUntil(fabric_, call, [&] {
      const ncclResult_t error = ncclCommGetAsyncError(comm_, &result);
      result = error == ncclSuccess ? result : error;
      return result != ncclInProgress;
    });
  }
  if (result != ncclSuccess) {
    throw std::runtime_error(
        fmt::format("{}: {}", call, ncclGetErrorString(result)));
  }
}

}  // namespace trainer::cuda
