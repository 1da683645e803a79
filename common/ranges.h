// Lists from lists.

#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <type_traits>
#include <vector>

namespace common {

// Of each thing what `of` returns, or the member that it points to.
template <typename Things, typename Of>
[[nodiscard]] auto Map(const Things& things, const Of& of) {
  std::vector<std::decay_t<decltype(std::invoke(of, *things.begin()))>> mapped;
  for (const auto& thing : things) {
    mapped.push_back(std::invoke(of, thing));
  }
  return mapped;
}

// 0, 1, ..., count - 1.
template <typename Index = int>
[[nodiscard]] std::vector<Index> Indices(std::size_t count) {
  std::vector<Index> indices(count);
  std::iota(indices.begin(), indices.end(), Index{0});
  return indices;
}

}  // namespace common
