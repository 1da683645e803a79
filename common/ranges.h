// Questions about lists, and lists from lists.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <ranges>
#include <type_traits>
#include <vector>

namespace common {

// Whether one of the things, or what the projection returns of it, is equal.
template <typename Things, typename Value, typename Projection = std::identity>
[[nodiscard]] bool Contains(const Things& things, const Value& value,
                            const Projection& projection = {}) {
  return std::ranges::find(things, value, projection) !=
         std::ranges::end(things);
}

// What `of` returns for each thing, or the member that it points to.
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
