#include "trainer/cuda/nccl_connection.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "trainer/arena.h"

namespace trainer::cuda {

NcclConnection::NcclConnection(NcclFabric& fabric, int rank, int size)
    : fabric_(fabric), rank_(rank) {
  const WaitPtr wait = fabric.BeginWait("the ranks of the trial");
  const std::string path = fabric.rendezvous() + ".id";
  ncclUniqueId id{};
  if (rank == 0) {
    Done(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::string part = path + ".part";
    std::ofstream out(part, std::ios::binary);
    out.write(id.internal, sizeof(id.internal));
    out.close();
    if (!out) {
      throw std::runtime_error("could not write " + part);
    }
    std::filesystem::rename(part, path);
  }
  while (rank > 0) {
    std::ifstream in(path, std::ios::binary);
    if (in.read(id.internal, sizeof(id.internal))) {
      break;
    }
    fabric.Check();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  Done(ncclCommInitRank(&comm_, size, id, rank), "ncclCommInitRank");
  if (rank == 0) {  // all ranks have read it
    std::error_code error;
    std::filesystem::remove(path, error);
  }
}

NcclConnection::NcclConnection(NcclFabric& fabric, const NcclConnection& world,
                               int color)
    : fabric_(fabric), rank_(world.rank_) {
  const WaitPtr wait = fabric.BeginWait("the ranks of a group");
  Done(ncclCommSplit(world.get(), color, rank_, &comm_, nullptr),
       "ncclCommSplit");
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
  if (result == ncclSuccess) {
    return;
  }
  const std::string detail = ncclGetLastError(comm_);
  const std::string message =
      fmt::format("{}: {}: {}", call, ncclGetErrorString(result), detail);
  if (detail.find("out of memory") != std::string::npos) {
    throw OutOfMemory(message);
  }
  throw std::runtime_error(message);
}

}  // namespace trainer::cuda
