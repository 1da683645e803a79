// The reflection that generic readers and writers use: the fields of a type and
// its text form.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace common {

// A struct lists the fields that are read and written:
//
//   struct Point {
//     double x = 0.0;
//     double y = 0.0;
//
//     OPPA_FIELDS(Point, x, y);
//   };
//
// VisitFields(point, visit) then calls visit("x", point.x), visit("y",
// point.y). Where names differ from those of members, a function next to the
// struct, found by ADL, does the same:
//
//   void VisitFields(common::FieldsOf<Point> auto& point, const auto& visit);
//
// A struct with many fields declares each where it is listed, with its default
// value and what else visitors need:
//
//   struct Circle {
//     OPPA_FIELD_LIST(Circle);
//     OPPA_FIELD(double, radius_m, 1.0, kAbove0);
//   };
//
// VisitFields(circle, visit) then calls visit("radius_m", circle.radius_m,
// kAbove0). A list has at most kListLines lines.
#define OPPA_FIELDS(Struct, ...)                                       \
  friend void VisitFields(common::FieldsOf<Struct> auto& of,           \
                          const auto& visit) {                         \
    of.VisitOwnFields(visit);                                          \
  }                                                                    \
  void VisitOwnFields(const auto& visit) {                             \
    common::VisitNamed(common::SplitNames(#__VA_ARGS__).data(), visit, \
                       __VA_ARGS__);                                   \
  }                                                                    \
  void VisitOwnFields(const auto& visit) const {                       \
    common::VisitNamed(common::SplitNames(#__VA_ARGS__).data(), visit, \
                       __VA_ARGS__);                                   \
  }

#define OPPA_FIELD_LIST(Struct)                                         \
  friend void VisitFields(common::FieldsOf<Struct> auto& of,            \
                          const auto& visit) {                          \
    common::VisitLines(of, visit,                                       \
                       std::make_index_sequence<common::kListLines>()); \
  }                                                                     \
  friend bool operator==(const Struct&, const Struct&) = default;       \
  static constexpr std::size_t kListBegin = __LINE__

#define OPPA_FIELD(Type, name, initial, ...)                               \
  static void VisitLine(common::ListLine<__LINE__ - kListBegin>, auto& of, \
                        const auto& visit) {                               \
    visit(#name, of.name __VA_OPT__(, ) __VA_ARGS__);                      \
  }                                                                        \
  static_assert(__LINE__ - kListBegin < common::kListLines,                \
                "the list is too long: see kListLines");                   \
  Type name = initial

template <typename S, typename T>  // S: T or const T
concept FieldsOf = std::is_same_v<std::remove_const_t<S>, T>;

// "a, b" as two texts, each with its end.
template <std::size_t N>
[[nodiscard]] constexpr std::array<char, N> SplitNames(const char (&list)[N]) {
  std::array<char, N> names{};
  std::ranges::replace_copy(list, names.begin(), ',', '\0');
  return names;
}

// For OPPA_FIELDS; `names` is what SplitNames returns.
template <typename... Fields>
void VisitNamed(const char* names, const auto& visit, Fields&... fields) {
  const auto next = [&names] {
    const char* name = names + (*names == ' ' ? 1 : 0);
    names = name + std::char_traits<char>::length(name) + 1;
    return name;
  };
  (visit(next(), fields), ...);
}

// For OPPA_FIELD_LIST: a field is found by the line on which it is declared.
inline constexpr std::size_t kListLines = 160;
template <std::size_t kLine>
struct ListLine {};

template <std::size_t... kLines>
void VisitLines(auto& of, const auto& visit, std::index_sequence<kLines...>) {
  const auto visit_line = [&](auto line) {
    if constexpr (requires { of.VisitLine(line, of, visit); }) {
      of.VisitLine(line, of, visit);
    }
  };
  (visit_line(ListLine<kLines>()), ...);
}

template <typename T>
concept HasFields = requires(T& value) {
  VisitFields(value, [](const char*, auto&) {});
};

// An enum whose values are named once, in their order, by a function next to it
// (found by ADL):
//
//   constexpr std::array<std::string_view, 2> NamesOf(Colour) {
//     return {"red", "green"};
//   }
template <typename E>
concept Named = std::is_enum_v<E> && requires(E value) {
  NamesOf(value);
};

template <Named E>
[[nodiscard]] constexpr std::string_view ToString(E value) {
  return NamesOf(value).at(static_cast<std::size_t>(value));
}

// The inverse of ToString.
// Errors: throws InputError for a text that is not the name of a value.
template <Named E>
void FromText(std::string_view text, E& value) {
  constexpr auto kNames = NamesOf(E{});
  const auto found = std::ranges::find(kNames, text);
  if (found == kNames.end()) {
    throw InputError(fmt::format("unknown name '{}': expected '{}'", text,
                                 fmt::join(kNames, "', '")));
  }
  value = static_cast<E>(found - kNames.begin());
}

// A type with a text form and its inverse.
template <typename T>
concept HasText = requires(T& value) {
  std::string(ToString(value));
  FromText(std::string_view(), value);
};

}  // namespace common
