// Ranks that are threads of this process and share one card.

#ifndef TRAINER_CUDA_CARD_FABRIC_H_
#define TRAINER_CUDA_CARD_FABRIC_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/communicator.h"
#include "trainer/cuda/streams.h"

namespace trainer::cuda {

// The last rank that enters an operation gives its work to a stream of the
// group, behind what every rank had given to its own stream before; each rank's
// stream continues behind that work. Kernels read the buffers of all ranks and
// sum in the order of the ranks, so results are bitwise reproducible.
//
// Errors: a rank that waits longer than timeout_s for others to enter an
// operation aborts the trial with kFailed and a message that names it.
class CardFabric final : public Fabric {
 public:
  CardFabric(int world_size, double timeout_s);
  ~CardFabric() override;
  CardFabric(const CardFabric&) = delete;
  CardFabric& operator=(const CardFabric&) = delete;

  [[nodiscard]] int world_size() const override { return world_size_; }
  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override;
  void Abort(EndReason reason, const std::string& message) override;
  [[nodiscard]] EndReason end_reason() const override { return reason_.load(); }
  [[nodiscard]] std::string end_message() const override;

  // Throws Aborted if the trial has ended.
  void Check() const;
  // Waits until ready() holds; `lock` protects what it reads.
  // Errors: throws Aborted, after timeout_s also by itself.
  void WaitFor(std::unique_lock<std::mutex>& lock,
               std::condition_variable& changed, const std::string& what,
               const std::function<bool()>& ready);

  struct Meeting;  // of the ranks of a group

 private:
  int world_size_;
  double timeout_s_;
  mutable std::mutex mutex_;
  std::atomic<EndReason> reason_ = EndReason::kNone;
  std::string message_;
  std::map<std::string, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace trainer::cuda

#endif  // TRAINER_CUDA_CARD_FABRIC_H_
