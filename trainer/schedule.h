// Pipeline schedules as data.

#ifndef TRAINER_SCHEDULE_H_
#define TRAINER_SCHEDULE_H_

#include <vector>

namespace trainer {

struct Action {
  bool forward = true;
  int microbatch = 0;
  int chunk = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

// The actions of one stage in order: 1F1B, or the interleaved schedule for
// chunks > 1, where chunk c of stage s has the part c * stages + s of the
// model. One stage runs forward and backward of each microbatch in turn, with
// one chunk.
//
// Source: Narayanan et al. (2021), Sec. 2.2; get_schedule_table of Megatron-LM.
// Errors: throws std::invalid_argument for chunks > 1 with microbatches %
// stages != 0, which deadlocks.
[[nodiscard]] std::vector<Action> Schedule(int stages, int stage,
                                           int microbatches, int chunks);

}  // namespace trainer

#endif  // TRAINER_SCHEDULE_H_
