// One rank: its part of the model, its groups and the execution of steps.

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/communicator.h"
#include "trainer/context.h"
#include "trainer/data.h"
#include "trainer/job.h"
#include "trainer/parameters.h"
#include "trainer/unit.h"
#include "trials/schedule.h"

namespace trainer {

// A rank is made and used by one thread. Its device has to outlive it.
//
// Errors: the constructor and Step throw OutOfMemory, and Aborted if another
// rank has ended the trial.
class Rank {
 public:
  // `memory_bytes` of the arena: called when the groups have what they need.
  Rank(const Job& job, int world_rank,
       const std::function<std::int64_t()>& memory_bytes, Fabric& fabric,
       Device& device);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Makes the data of a step, which takes no part of its time.
  void Prepare(int step);
  // The step that was prepared; the mean loss over all ranks. The last step
  // ends with weights that all ranks have.
  double Step();
  // Waits for all ranks.
  void Barrier();

  [[nodiscard]] const Arena& arena() const { return arena_; }
  [[nodiscard]] Context& context() { return context_; }
  [[nodiscard]] ParameterStore& store() { return *store_; }
  // Of each group that has more than one rank, by name.
  [[nodiscard]] std::map<std::string, TrafficByOperation> Traffic() const;

 private:
  struct Part {
    std::unique_ptr<Unit> unit;
    int id = 0;  // in the store
  };
  struct Pending {  // a microbatch in a chunk between forward and backward
    Batch batch;
    std::vector<Saved> saved;
  };
  struct Sent {  // kept until it was received
    Array data;
    EventPtr event;
    int peer = 0;              // the stage that receives it
    std::size_t taken_at = 0;  // by the action of this place in its schedule
  };
  using Key = std::pair<int, int>;  // microbatch, chunk
  using Action = trials::Action;

  Communicator* AddGroup(const std::string& name,
                         std::unique_ptr<Communicator> group);
  // The group of the ranks for which `same` holds, and the same group or null
  // where it has one rank.
  template <typename Same>
  Communicator* AnyGroup(const std::string& name, bool own_stream, Same same);
  template <typename Same>
  Communicator* GroupOfSeveral(const std::string& name, bool own_stream,
                               Same same);
  void MakeGroups();
  void MakeModelGroups();
  void MakeReplicaGroups();
  void MakePipelineGroups();
  void MakeModel();
  void MakeRotary();
  void Forward(const Action& action);
  void Backward(const Action& action);
  // The chunk before (forward) or after (backward) one is on another rank.
  [[nodiscard]] bool Receives(const Action& action) const;
  [[nodiscard]] bool Sends(const Action& action) const;
  void PostReceive(const Action& action);
  Array TakeReceived(const Action& action);
  void Send(const Action& action, Array data);
  // The stage that an action receives from (sends to), and the place in its
  // schedule of the action that sends (receives) the same data.
  [[nodiscard]] std::pair<int, std::size_t> Peer(const Action& action,
                                                 bool sends) const;
  // Frees what `peer` has received before its action `place`.
  void FreeSent(int peer, std::size_t place);

  const Job& job_;
  Fabric& fabric_;
  Device& device_;
  Arena arena_;
  std::vector<std::pair<std::string, std::unique_ptr<Communicator>>> groups_;
  Context context_;
  ReplicaGroups replicas_;
  Communicator* world_ = nullptr;
  Communicator* forward_ = nullptr;   // between stages, activations
  Communicator* backward_ = nullptr;  // between stages, gradients
  std::unique_ptr<ParameterStore> store_;
  Array loss_, rotary_;
  std::vector<std::vector<Part>> chunks_;
  Data data_;
  int step_ = 0;                                // that was prepared
  std::map<int, HostBatch> prepared_;           // by microbatch
  std::vector<std::vector<Action>> schedules_;  // of all stages
  std::map<Key, Pending> pending_;
  std::deque<std::pair<Array, EventPtr>> received_;
  std::deque<Sent> sent_;
  std::map<int, int> backwards_left_;  // by chunk, in this step
};

}  // namespace trainer
