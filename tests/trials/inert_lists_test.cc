#include "trials/inert_lists.h"

#include <gtest/gtest.h>

namespace trials::inert_lists_test {

std::string Inert(const SearchSpaceOptions& options) {
  Workload workload;
  workload.model.layers = 4;
  workload.model.attention_heads = workload.model.kv_heads = 4;
  workload.batch_size = 8;
  workload.sequence_length = 8;
  return InertLists(options, SearchSpace::Enumerate(workload, 4, options));
}

TEST(InertLists, AListThatNoConfigurationUsesIsNamed) {
  SearchSpaceOptions options;
  options.values = {{"pp", {1}}, {"model_chunks", {1, 2}}};
  EXPECT_EQ(Inert(options),
            "the list of model_chunks has no effect: no configuration has pp > "
            "1");
  options.values["pp"] = {1, 2};
  EXPECT_EQ(Inert(options), "");
  options.values = {{"pp", {1}}, {"model_chunks", {1}}};
  EXPECT_EQ(Inert(options), "");
}

TEST(InertLists, NamesEveryListAndLeavesUnknownNamesOut) {
  SearchSpaceOptions options;
  options.values = {{"pp", {1}}, {"tp", {1}}};
  Workload workload;
  workload.model.layers = 4;
  workload.model.attention_heads = workload.model.kv_heads = 4;
  workload.batch_size = 8;
  workload.sequence_length = 8;
  const SearchSpace space = SearchSpace::Enumerate(workload, 4, options);
  options.values["another"] = {3};
  EXPECT_EQ(InertLists(options, space), "");
  options.values["model_chunks"] = {2};
  options.values["sp"] = {2};
  EXPECT_EQ(InertLists(options, space),
            "the list of model_chunks has no effect: no configuration has pp > "
            "1; the list of sp has no effect: no configuration has tp > 1");
}

}  // namespace trials::inert_lists_test
