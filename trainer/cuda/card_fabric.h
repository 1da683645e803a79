// Ranks that are threads of this process and share one card.

#pragma once

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

  [[nodiscard]] std::unique_ptr<Communicator> Group(
      int rank, const std::string& name, const std::vector<int>& members,
      bool own_stream, Device& device) override;

  struct Meeting;  // of the ranks of a group

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace trainer::cuda
