#include "harness/records/lease_file.h"

#include <cstddef>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.h"

namespace harness::lease_file_test {

TEST(LeaseFile, NamesAProcessThatIsHere) {
  const fakes::TemporaryFolder folder;
  const auto path = LeasePath(folder.path(), 3);
  fakes::WriteFile(path, Holder::Self().Text());
  const std::optional<Holder> holder = ReadHolder(path);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->count, "0");
  EXPECT_TRUE(holder->IsHere());
  EXPECT_FALSE(holder->IsGone());
  EXPECT_EQ(HighestEpoch(folder.path()), 3);
}

TEST(LeaseFile, SaysNothingWhereverItWasCutOff) {
  const fakes::TemporaryFolder folder;
  const auto path = folder.path() / "lease";
  const std::string text = Holder::Self().Text();
  for (std::size_t size = 0; size < text.size(); ++size) {
    fakes::WriteFile(path, text.substr(0, size));
    EXPECT_FALSE(ReadHolder(path)) << size;
  }
}

TEST(LeaseFile, AProcessOfAnotherPidNamespaceMayBeAlive) {
  Holder holder = Holder::Self();
  holder.pid = "999999999";  // there is none here
  EXPECT_TRUE(holder.IsGone());
  holder.boot = holder.boot.substr(0, holder.boot.find(' ')) + " pid:[1]";
  EXPECT_FALSE(holder.IsHere());
  EXPECT_FALSE(holder.IsGone());
}

TEST(LeaseFile, NamesThatNoWriterGivesAreNoLeases) {
  EXPECT_EQ(EpochOf(".lease-7abc", kLeasePrefix), std::nullopt);
  EXPECT_EQ(EpochOf(".lease--7", kLeasePrefix), std::nullopt);
  EXPECT_EQ(EpochOf(".lease-9223372036854775807", kLeasePrefix), std::nullopt);
}

TEST(LeaseFile, EpochsAreReadFromNamesOfTheirPrefixOnly) {
  EXPECT_EQ(EpochOf(".lease-12", kLeasePrefix), 12);
  EXPECT_EQ(EpochOf(".publish-7-trials.csv", kPublishPrefix), 7);
  EXPECT_EQ(EpochOf(".lease-", kLeasePrefix), std::nullopt);
  EXPECT_EQ(EpochOf("trials.csv", kLeasePrefix), std::nullopt);
}

}  // namespace harness::lease_file_test
