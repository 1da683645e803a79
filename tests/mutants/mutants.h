// The run-time part of mutant schemata: a source file with all its mutants at
// once, of which the environment selects one. tests/mutants/schemata.py
// rewrites
//
//   a < b          as  a < mutants::Site{7} < b           mutants 7 (a <= b)
//   and 8 (a > b) a += b         as  a += mutants::Site{9} += b         mutant
//   9 (a -= b) std::min(a, b) as  mutants::Min{10}(a, b)             mutant 10
//   (the maximum) 3              as  mutants::Number(11, 3, 4, 2)       mutants
//   11 (4) and 12 (2) a && b         as  (mutants::On(13) ? (a || b) : (a &&
//   b))
//
// The operators below have the precedence of those that they replace, so
// operands need not be found. Nothing is constexpr: what must be constant fails
// to compile and is left as it was.
//
// OPPA_MUTANT is the number of the selected mutant. OPPA_MUTANTS_REACHED is a
// file with one byte per number; that of the first mutant of each site that is
// evaluated is set to 1.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mutants {

inline int selected = -1;
inline unsigned char* reached = nullptr;

// Before any other initialization, in each file.
[[gnu::constructor(101)]] static void ReadEnvironment() {
  if (const char* mutant = std::getenv("OPPA_MUTANT")) {
    selected = std::atoi(mutant);
  }
  const char* path = std::getenv("OPPA_MUTANTS_REACHED");
  if (reached != nullptr || path == nullptr) {
    return;
  }
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    std::abort();
  }
  void* bytes = ::mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE,
                       MAP_SHARED, fd, 0);
  ::close(fd);
  if (bytes == MAP_FAILED) {
    std::abort();
  }
  reached = static_cast<unsigned char*>(bytes);
}

inline void Reach(int site) {
  if (reached != nullptr) {
    reached[site] = 1;
  }
}

// The place of the selected mutant among those of a site; negative or too large
// if it is another's.
inline int Choice(int site) {
  Reach(site);
  return selected - site;
}

inline bool On(int mutant) { return Choice(mutant) == 0; }

template <class T, class... Others>
T Number(int site, T value, Others... others) {
  const T values[] = {static_cast<T>(others)...};
  const int choice = Choice(site);
  return choice >= 0 && choice < int{sizeof...(others)} ? values[choice]
                                                        : value;
}

// An expression template refers to its operands, so it is evaluated.
template <class T>
auto Value(T&& value) {
  if constexpr (requires { value.eval(); }) {
    return value.eval();
  } else {
    return std::decay_t<T>(std::forward<T>(value));
  }
}

struct Site {
  int first;
};

// `a OP Site{n}` holds a; that `OP b` applies the operator or one of two
// others.
#define MUTANTS_OPERATOR(NAME, OP, OTHER, ANOTHER)                           \
  template <class A>                                                         \
  struct NAME {                                                              \
    A&& a;                                                                   \
    int first;                                                               \
  };                                                                         \
  template <class A>                                                         \
  NAME<A> operator OP(A&& a, Site site) {                                    \
    return {std::forward<A>(a), site.first};                                 \
  }                                                                          \
  template <class A, class B>                                                \
  auto operator OP(NAME<A>&& left, B&& b) {                                  \
    static_assert(                                                           \
        requires { std::forward<A>(left.a) OTHER std::forward<B>(b); },      \
        "not valid");                                                        \
    using Result =                                                           \
        decltype(Value(std::forward<A>(left.a) OP std::forward<B>(b)));      \
    switch (Choice(left.first)) {                                            \
      case 0:                                                                \
        return Result(                                                       \
            Value(std::forward<A>(left.a) OTHER std::forward<B>(b)));        \
      case 1:                                                                \
        return Result(                                                       \
            Value(std::forward<A>(left.a) ANOTHER std::forward<B>(b)));      \
      default:                                                               \
        return Result(Value(std::forward<A>(left.a) OP std::forward<B>(b))); \
    }                                                                        \
  }

MUTANTS_OPERATOR(Sum, +, -, +)
MUTANTS_OPERATOR(Difference, -, +, -)
MUTANTS_OPERATOR(Product, *, /, *)
MUTANTS_OPERATOR(Quotient, /, *, /)
MUTANTS_OPERATOR(Less, <, <=, >)
MUTANTS_OPERATOR(NotMore, <=, <, <=)
MUTANTS_OPERATOR(More, >, >=, <)
MUTANTS_OPERATOR(NotLess, >=, >, >=)
MUTANTS_OPERATOR(Equal, ==, !=, ==)
MUTANTS_OPERATOR(Unequal, !=, ==, !=)
#undef MUTANTS_OPERATOR

// `Site{n} OP b` holds b, as assignments are taken from the right.
#define MUTANTS_ASSIGNMENT(NAME, OP, OTHER)                           \
  template <class B>                                                  \
  struct NAME {                                                       \
    B&& b;                                                            \
    int first;                                                        \
  };                                                                  \
  template <class B>                                                  \
  NAME<B> operator OP(Site site, B&& b) {                             \
    return {std::forward<B>(b), site.first};                          \
  }                                                                   \
  template <class A, class B>                                         \
  decltype(auto) operator OP(A&& a, NAME<B>&& right) {                \
    static_assert(                                                    \
        requires { a OTHER std::forward<B>(right.b); }, "not valid"); \
    if (On(right.first)) {                                            \
      a OTHER std::forward<B>(right.b);                               \
    } else {                                                          \
      a OP std::forward<B>(right.b);                                  \
    }                                                                 \
    return std::forward<A>(a);                                        \
  }

MUTANTS_ASSIGNMENT(Increase, +=, -=)
MUTANTS_ASSIGNMENT(Decrease, -=, +=)
MUTANTS_ASSIGNMENT(Scale, *=, /=)
MUTANTS_ASSIGNMENT(Divide, /=, *=)
#undef MUTANTS_ASSIGNMENT

#define MUTANTS_EXTREME(NAME, FUNCTION, OTHER)                                \
  struct NAME {                                                               \
    int site;                                                                 \
    template <class T, class... Order>                                        \
    const T& operator()(const T& a, const T& b, Order... order) {             \
      return On(site) ? OTHER(a, b, order...) : FUNCTION(a, b, order...);     \
    }                                                                         \
    template <class T, class... Order>                                        \
    T operator()(std::initializer_list<T> values, Order... order) {           \
      return On(site) ? OTHER(values, order...) : FUNCTION(values, order...); \
    }                                                                         \
  };

MUTANTS_EXTREME(Min, std::min, std::max)
MUTANTS_EXTREME(Max, std::max, std::min)
#undef MUTANTS_EXTREME

}  // namespace mutants
