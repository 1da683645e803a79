// Hashes that are the same on every machine: seeds and checksums.

#pragma once

#include <cstdint>
#include <string_view>

namespace common {

// 64-bit FNV-1a. It finds damage, not forgery.
[[nodiscard]] std::uint64_t Hash(std::string_view text);

// Mixes parts of a run's identity into one seed (64-bit FNV-1a of the text,
// then splitmix64), the same on every machine.
[[nodiscard]] std::uint64_t DeriveSeed(std::string_view text,
                                       std::uint64_t index = 0);

// The check value at the end of every row of a record: 32-bit FNV-1a of the
// text before it. Any change of a single byte changes it, because each of its
// steps is a bijection.
[[nodiscard]] std::uint32_t RowCheck(std::string_view row);

}  // namespace common
