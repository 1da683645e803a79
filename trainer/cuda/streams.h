// Streams and events of CUDA that release themselves.

#pragma once

#include <memory>

#include "trainer/cuda/platform.h"

namespace trainer::cuda {

class Stream {
 public:
  Stream() {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A place in a stream. CUDA releases an event that a stream still waits for
// when it is no longer needed.
class Mark {
 public:
  explicit Mark(cudaStream_t stream) {
    Check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    Check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  ~Mark() { cudaEventDestroy(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  [[nodiscard]] bool Reached() const {
    const cudaError_t error = cudaEventQuery(event_);
    if (error != cudaErrorNotReady) {
      Check(error, "cudaEventQuery");
    }
    return error == cudaSuccess;
  }
  // Work that is added to `stream` from now on follows this place.
  void Precede(cudaStream_t stream) const {
    Check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }

 private:
  cudaEvent_t event_ = nullptr;
};
using MarkPtr = std::shared_ptr<const Mark>;

}  // namespace trainer::cuda
