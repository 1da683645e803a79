// Memoization by the whole input of a function.

#ifndef TRIALS_SIMULATOR_MEMO_H_
#define TRIALS_SIMULATOR_MEMO_H_

#include <cstddef>
#include <cstdint>

#include "trials/parallel_config.h"

namespace trials {

// memo[key], computed as compute(key) at the first use of a key. The function
// gets the key and nothing else that varies, so a result cannot depend on a
// value that the key lacks. References stay valid as the map grows, and no map
// is ever iterated: its order cannot reach a result.
template <typename Map, typename Compute>
const typename Map::mapped_type& Memoized(Map& memo,
                                          const typename Map::key_type& key,
                                          const Compute& compute) {
  const auto found = memo.find(key);
  if (found != memo.end()) {
    return found->second;
  }
  return memo.emplace(key, compute(key)).first->second;
}

// Spreads the configurations of a space. Equality compares every knob, so a
// knob that is missing here costs time only.
struct ParallelConfigHash {
  std::size_t operator()(const ParallelConfig& c) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
    for (const int value :
         {c.dp, c.tp, c.pp, c.cp, c.ep, c.microbatches, c.model_chunks,
          c.zero_stage, c.zero_bucket_mb, c.dp_bucket_mb, c.grad_checkpoint,
          8 * (c.sp > 1 ? 1 : 0) + 4 * c.overlap_p2p + 2 * c.overlap_zero_comm +
              c.overlap_zero_allgather}) {
      hash = (hash ^ static_cast<std::uint32_t>(value)) * 0xff51afd7ed558ccdULL;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MEMO_H_
