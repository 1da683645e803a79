// The part of NCCL's interface that the trainer uses, for ranks that are
// processes of one machine with emulated devices: messages are files below
// TMPDIR. A call returns when its result is there, and waits for ever for a
// rank that does not come, as blocking communicators of NCCL do for the first
// call.

#ifndef TRAINER_TESTS_NCCL_STAND_IN_NCCL_H_
#define TRAINER_TESTS_NCCL_STAND_IN_NCCL_H_

#include <cstddef>

using cudaStream_t = void*;  // that of the emulation
using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t { ncclSuccess, ncclUnhandledCudaError };
enum ncclDataType_t { ncclInt8, ncclFloat32, ncclFloat64, ncclBfloat16 };
enum ncclRedOp_t { ncclSum, ncclMax };

const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id,
                              int rank);
#define NCCL_SPLIT_NOCOLOR -1
struct ncclConfig_t;
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                           ncclComm_t* part, ncclConfig_t* config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);

#endif  // TRAINER_TESTS_NCCL_STAND_IN_NCCL_H_
