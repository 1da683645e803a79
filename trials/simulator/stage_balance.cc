#include "trials/simulator/stage_balance.h"

#include <cstddef>
#include <stdexcept>

#include <fmt/format.h>

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
  std::vector<int> blocks(static_cast<std::size_t>(virtual_stages), 0);
  const double share = (layers + head) / virtual_stages;
  int stage = 0;
  for (int block = 1; block <= layers; ++block) {
    while (stage < virtual_stages - 1 && block > share * (stage + 1)) {
      ++stage;
    }
    ++blocks[static_cast<std::size_t>(stage)];
  }
  // The last stage has the head in any case.
  for (int s = 0; s + 1 < virtual_stages; ++s) {
    if (blocks[static_cast<std::size_t>(s)] == 0) {
      throw std::invalid_argument(fmt::format(
          "stages dealt out by cost: one of {} stages would have none of the "
          "{} blocks",
          virtual_stages,
          layers));
    }
  }
  return blocks;
}

}  // namespace trials
