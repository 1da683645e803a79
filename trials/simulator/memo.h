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

struct ParallelConfigHash {
  std::size_t operator()(const ParallelConfig& config) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
    for (const ConfigField& field : ConfigFields()) {
      hash ^= static_cast<std::uint32_t>(field.get(config));
      hash *= 0xff51afd7ed558ccdULL;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MEMO_H_
