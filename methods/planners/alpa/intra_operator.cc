#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "methods/planners/alpa/alpa.h"

namespace methods {
namespace {

using surrogates::OperatorChoice;
using surrogates::OperatorModel;
using surrogates::OperatorProfile;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// All choices of an operator on so many GPUs.
std::vector<OperatorChoice> ChoicesOf(const OperatorModel& model, int gpus) {
  std::vector<OperatorChoice> choices;
  int log2 = 0;
  while ((1 << log2) < gpus) {
    ++log2;
  }
  for (int tp_log2 = 0; tp_log2 <= log2; ++tp_log2) {
    for (int variant = 0; variant < model.table().variants(); ++variant) {
      choices.push_back({static_cast<std::uint8_t>(tp_log2),
                         static_cast<std::uint8_t>(log2 - tp_log2),
                         static_cast<std::uint8_t>(variant),
                         0});
    }
  }
  return choices;
}

// Time of an operator for one microbatch; infinite where it is not profiled.
double OperatorUs(const OperatorModel& model,
                  int op,
                  int micro_batch,
                  const OperatorChoice& choice,
                  bool recompute) {
  const OperatorProfile* profile = model.Profile(op, micro_batch, choice);
  if (profile == nullptr) {
    return kInfinity;
  }
  return (recompute && model.TraitsOf(op).recomputable ? 2.0 : 1.0) *
             profile->forward_us +
         profile->backward_us;
}

}  // namespace

std::vector<OperatorChoice> IntraOperator(const OperatorModel& model,
                                          int begin,
                                          int end,
                                          int micro_batch,
                                          int gpus,
                                          bool recompute) {
  const std::vector<OperatorChoice> all = ChoicesOf(model, gpus);
  const auto count = static_cast<std::size_t>(end - begin);
  // By operator and choice: the choice of the operator before.
  std::vector<std::vector<std::size_t>> before(
      count, std::vector<std::size_t>(all.size(), 0));
  std::vector<double> us(all.size(), 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    const int op = begin + static_cast<int>(i);
    std::vector<double> next(all.size(), kInfinity);
    for (std::size_t b = 0; b < all.size(); ++b) {
      const double own = OperatorUs(model, op, micro_batch, all[b], recompute);
      for (std::size_t a = 0; std::isfinite(own) && a < all.size(); ++a) {
        if ((i == 0 && a != b) || !std::isfinite(us[a])) {
          continue;
        }
        const double sum =
            us[a] + own +
            (i == 0 ? 0.0
                    : model.ConversionUs(op, micro_batch, all[a], all[b]));
        if (sum < next[b]) {
          next[b] = sum;
          before[i][b] = a;
        }
      }
    }
    us = std::move(next);
  }
  const auto best = std::min_element(us.begin(), us.end());
  if (!std::isfinite(*best)) {
    return {};
  }
  std::vector<OperatorChoice> choices(count);
  auto at = static_cast<std::size_t>(best - us.begin());
  for (std::size_t i = count; i > 0; --i) {
    OperatorChoice& choice = choices[i - 1];
    choice = all[at];
    choice.recomputed = static_cast<std::uint8_t>(
        recompute &&
                model.TraitsOf(begin + static_cast<int>(i) - 1).recomputable
            ? 1
            : 0);
    at = before[i - 1][at];
  }
  return choices;
}

}  // namespace methods
