#include "common/hash.h"

namespace common {

std::uint32_t RowCheck(std::string_view row) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char c : row) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  }
  return hash;
}

std::uint64_t Hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

std::uint64_t DeriveSeed(std::string_view text, std::uint64_t index) {
  std::uint64_t z = Hash(text) + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace common
