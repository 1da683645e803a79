#include "trials/usual_host.h"

#include <string>

#include <gtest/gtest.h>

namespace trials::usual_host_test {

TEST(UsualHost, IsThatOfTheMostSpecificNameInTheProduct) {
  const auto cluster = [](const std::string& product) {
    return UsualHostOf(product).value_or(UsualHost()).cluster;
  };
  EXPECT_EQ(cluster("NVIDIA H100 80GB HBM3"), "h100-infiniband");
  EXPECT_EQ(cluster("NVIDIA H100 PCIe"), "pcie5-8");
  EXPECT_EQ(cluster("NVIDIA A100-SXM4-80GB"), "a100-selene");
  EXPECT_EQ(cluster("NVIDIA A100-SXM4-40GB"), "a100-40gb-roce");
  EXPECT_EQ(cluster("NVIDIA A100 80GB PCIe"), "pcie4-8");
  EXPECT_EQ(cluster("Tesla V100-SXM2-32GB"), "v100-dgx1");
  EXPECT_EQ(cluster("NVIDIA GeForce RTX 4090"), "pcie4-geforce-8");
  EXPECT_EQ(cluster("h200"), "h200-infiniband");
  EXPECT_EQ(cluster("NVIDIA X9000"), "");
  EXPECT_EQ(cluster(""), "");
}

}  // namespace trials::usual_host_test
