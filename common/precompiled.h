// Precompiled for every layer (CMakeLists.txt): the headers that take longest
// to parse. No source relies on it: each one includes what it uses, and the
// fuzz and clang-tidy builds do without it.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/LU>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
