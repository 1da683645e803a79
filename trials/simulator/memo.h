// Remembers what was computed, by a small key of whole numbers.

#ifndef TRIALS_SIMULATOR_MEMO_H_
#define TRIALS_SIMULATOR_MEMO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace trials {

template <std::size_t N>
struct MemoHash {
  std::size_t operator()(const std::array<int, N>& key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
    for (const int part : key) {
      hash = (hash ^ static_cast<std::uint32_t>(part)) * 0xff51afd7ed558ccdULL;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

// A map that is only ever looked up, never iterated: its order cannot reach a
// result. References stay valid as it grows.
template <std::size_t N, typename Value>
class Memo {
 public:
  template <typename Compute>
  const Value& Get(const std::array<int, N>& key, const Compute& compute) {
    const auto found = values_.find(key);
    if (found != values_.end()) {
      return found->second;
    }
    return values_.emplace(key, compute()).first->second;
  }

 private:
  std::unordered_map<std::array<int, N>, Value, MemoHash<N>> values_;
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MEMO_H_
