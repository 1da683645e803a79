#include "trials/simulator/stage_balance.h"

#include <utility>

#include <fmt/format.h>

#include "trials/plan.h"

namespace trials {

double BlocksInHead(const Model& model) {
  const double query = static_cast<double>(model.attention_heads) *
                       static_cast<double>(model.head_size);
  const double key = static_cast<double>(model.kv_heads) *
                     static_cast<double>(model.head_size);
  const double ffn = (model.gated_ffn ? 3.0 : 2.0) * model.ffn_size;
  return model.vocab_size / (2.0 * query + 2.0 * key + ffn);
}

std::vector<int> BalanceLayers(int layers, double head, int virtual_stages) {
  std::vector<int> blocks(virtual_stages, 0);
  const double share = (layers + head) / virtual_stages;
  int stage = 0;
  // Where the next module goes, after one that brings the sum to `cost`.
  const auto advance = [&](double cost) {
    if (stage < virtual_stages - 1 && cost >= share * (stage + 1)) {
      ++stage;
    }
  };
  for (int block = 1; block <= layers; ++block) {
    ++blocks[stage];
    advance(block);
  }
  advance(layers);  // the final norm
  const int head_stage = stage;
  advance(layers + head);
  advance(layers + head);  // the cast to fp32; the loss comes last
  if (stage != virtual_stages - 1) {
    throw InvalidPlan(
        "stages balanced by cost",
        fmt::format("{} stages are more than the {} blocks and the head fill",
                    virtual_stages, layers));
  }
  std::swap(blocks[head_stage], blocks.back());
  return blocks;
}

}  // namespace trials
