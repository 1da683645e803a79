#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nccl.h>
#include <unistd.h>

struct ncclComm {
  std::string prefix;  // of the names of its messages
  int rank = 0, size = 1;
  int splits = 0;
  std::map<std::pair<int, bool>, int>
      messages;  // so far, by peer and direction
};

namespace {

using Bytes = std::vector<char>;

struct Group {
  int depth = 0;
  std::vector<std::function<void()>> sends, receives;
};
thread_local Group group;

std::string Name(ncclComm& comm, int from, int to, bool sends) {
  const int number = comm.messages[{sends ? to : from, sends}]++;
  return comm.prefix + "." + std::to_string(from) + "-" + std::to_string(to) +
         "-" + std::to_string(number);
}

void Put(ncclComm& comm, int to, const void* data, std::size_t bytes) {
  const std::string name = Name(comm, comm.rank, to, true);
  std::ofstream(name + ".part", std::ios::binary)
      .write(static_cast<const char*>(data),
             static_cast<std::streamsize>(bytes));
  std::filesystem::rename(name + ".part", name);
}

void Take(ncclComm& comm, int from, void* data, std::size_t bytes) {
  const std::string name = Name(comm, from, comm.rank, false);
  while (!std::filesystem::exists(name)) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::ifstream(name, std::ios::binary)
      .read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  std::filesystem::remove(name);
}

// The data of all ranks, in their order.
std::vector<Bytes> Exchange(ncclComm& comm, const void* data,
                            std::size_t bytes) {
  std::vector<Bytes> all(comm.size, Bytes(bytes));
  std::memcpy(all[comm.rank].data(), data, bytes);
  for (int peer = 0; peer < comm.size; ++peer) {
    if (peer != comm.rank) {
      Put(comm, peer, data, bytes);
    }
  }
  for (int peer = 0; peer < comm.size; ++peer) {
    if (peer != comm.rank) {
      Take(comm, peer, all[peer].data(), bytes);
    }
  }
  return all;
}

std::size_t Width(ncclDataType_t type) {
  return type == ncclInt8 ? 1 : type == ncclFloat32 ? 4 : 8;
}

// Elements begin ... of the results of all ranks.
template <typename T>
void Reduce(const std::vector<Bytes>& all, std::size_t begin, std::size_t count,
            ncclRedOp_t op, void* to) {
  auto* out = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const T x = reinterpret_cast<const T*>(all[rank].data())[begin + i];
      out[i] = rank == 0 ? x : op == ncclMax ? std::max(out[i], x) : out[i] + x;
    }
  }
}

void ReduceType(const std::vector<Bytes>& all, std::size_t begin,
                std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                void* to) {
  (type == ncclFloat32 ? Reduce<float> : Reduce<double>)(all, begin, count, op,
                                                         to);
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t /*result*/) { return "error"; }
const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return "Cuda failure 2 'out of memory'";  // the only one it has
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number = 0;
  const char* folder = std::getenv("TMPDIR");
  std::snprintf(id->internal, sizeof(id->internal), "%s/nccl-%d-%d",
                folder == nullptr ? "/tmp" : folder, ::getpid(), number++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id,
                              int rank) {
  *comm = new ncclComm{id.internal, rank, size, 0, {}};
  Exchange(**comm, "", 1);
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                           ncclComm_t* part, ncclConfig_t* /*config*/) {
  if (std::getenv("NCCL_STAND_IN_HAS_NO_MEMORY") != nullptr) {
    return ncclUnhandledCudaError;
  }
  const std::array<int, 2> own = {color, key};
  std::vector<int> keys;  // of this color
  for (const Bytes& other : Exchange(*comm, own.data(), sizeof(own))) {
    std::array<int, 2> value{};
    std::memcpy(value.data(), other.data(), sizeof(value));
    if (value[0] == color) {
      keys.push_back(value[1]);
    }
  }
  std::sort(keys.begin(), keys.end());
  const std::string name = comm->prefix + "." + std::to_string(comm->splits++) +
                           "." + std::to_string(color);
  const auto place = std::find(keys.begin(), keys.end(), key) - keys.begin();
  *part = color == NCCL_SPLIT_NOCOLOR
              ? nullptr
              : new ncclComm{name,
                             static_cast<int>(place),
                             static_cast<int>(keys.size()),
                             0,
                             {}};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t /*comm*/) { return ncclSuccess; }

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0) {
    return ncclSuccess;
  }
  const Group ended = std::exchange(group, {});
  for (const auto* calls : {&ended.sends, &ended.receives}) {
    for (const auto& call : *calls) {
      call();
    }
  }
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t /*stream*/) {
  ncclGroupStart();
  group.sends.push_back([=] { Put(*comm, peer, from, count * Width(type)); });
  return ncclGroupEnd();
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t /*stream*/) {
  ncclGroupStart();
  group.receives.push_back([=] { Take(*comm, peer, to, count * Width(type)); });
  return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t /*stream*/) {
  ReduceType(Exchange(*comm, from, count * Width(type)), 0, count, type, op,
             to);
  return ncclSuccess;
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t /*stream*/) {
  ReduceType(Exchange(*comm, from, comm->size * count * Width(type)),
             comm->rank * count, count, type, op, to);
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t /*stream*/) {
  const std::size_t bytes = count * Width(type);
  const std::vector<Bytes> all = Exchange(*comm, from, bytes);
  for (int rank = 0; rank < comm->size; ++rank) {
    std::memcpy(static_cast<char*>(to) + rank * bytes, all[rank].data(), bytes);
  }
  return ncclSuccess;
}
