#include "trials/usual_host.h"

#include <optional>
#include <string>
#include <vector>

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
  EXPECT_EQ(cluster("NVIDIA GH200 480GB"), "gh200-slingshot");
  EXPECT_EQ(cluster("Tesla V100-SXM2-16GB"), "v100-16gb-dlperf");
}

// Of another form, with another memory or of a model of its own.
TEST(UsualHost, IsNoneOfAnotherProductWithTheSameWords) {
  for (const char* product :
       {"NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100-PCIE-40GB",
        "Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB", "NVIDIA H800 PCIe",
        "NVIDIA A100-SXM-64GB", "NVIDIA H20-3e", "NVIDIA GH200 144G HBM3e",
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 3080 12GB",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}) {
    EXPECT_FALSE(UsualHostOf(product).has_value()) << product;
    EXPECT_TRUE(NearestHostOf(product).has_value()) << product;
  }
  EXPECT_EQ(NearestHostOf("NVIDIA H100 NVL")->differs,
            std::vector<std::string>{"nvl"});
  EXPECT_EQ(NearestHostOf("NVIDIA H100 NVL")->host.gpu, "h100-sxm");
}

}  // namespace trials::usual_host_test
