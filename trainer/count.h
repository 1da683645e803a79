// The memory of a configuration, counted without running it.

#pragma once

#include "trainer/device.h"
#include "trainer/job.h"
#include "trainer/trial.h"

namespace trainer {

// What the first rank of each stage of the pipeline allocates and sends in a
// step: the rank runs as always, but on a device that computes nothing and has
// no memory, and in groups that exchange nothing. Bytes equal those of a trial
// (first ranks are the fullest), and so does what does not fit memory_bytes of
// the job; 0: no limit. `device` has the width of its numbers and the memory of
// attention, and is not used otherwise.
//
// Note: experts get the same number of tokens each. In a trial their loads
// depend on the data.
[[nodiscard]] TrialResult CountMemory(Job job, const Device& device);

}  // namespace trainer
