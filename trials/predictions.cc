#include "trials/predictions.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace trials {

std::vector<int> Order(const Predictions& predictions, double capacity_bytes) {
  std::vector<int> order(predictions.step_time_s.size());
  std::iota(order.begin(), order.end(), 0);
  const auto memory = [&](int i) {
    return predictions.peak_memory_bytes[static_cast<std::size_t>(i)];
  };
  const auto others =
      std::stable_partition(order.begin(), order.end(), [&](int i) {
        return memory(i) <= capacity_bytes;
      });
  std::stable_sort(order.begin(), others, [&](int a, int b) {
    return predictions.step_time_s[static_cast<std::size_t>(a)] <
           predictions.step_time_s[static_cast<std::size_t>(b)];
  });
  std::stable_sort(
      others, order.end(), [&](int a, int b) { return memory(a) < memory(b); });
  return order;
}

}  // namespace trials
