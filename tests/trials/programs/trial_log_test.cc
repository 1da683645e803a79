#include "trials/programs/trial_log.h"

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/fakes/temporary_folder.h"

namespace trials::trial_log_test {

// The file of a log of 10 bytes to which these pieces were added.
std::string FileOf(const std::vector<std::string>& pieces) {
  const fakes::TemporaryFolder folder;
  const auto path = folder.path() / "logs" / "trial.log";
  {
    TrialLog log(path, 10);
    for (const std::string& piece : pieces) {
      log.Append(piece);
    }
  }
  return fakes::ReadFile(path);
}

TEST(TrialLog, KeepsWhatFits) {
  EXPECT_EQ(FileOf({}), "");
  EXPECT_EQ(FileOf({"abc"}), "abc");
  EXPECT_EQ(FileOf({"abcde", "fghij"}), "abcdefghij");
  EXPECT_EQ(FileOf({"abcdefghij"}), "abcdefghij");
  EXPECT_EQ(FileOf({"a", "bcdefgh", "ij"}), "abcdefghij");
}

TEST(TrialLog, KeepsTheFirstAndTheLastHalfOfMore) {
  EXPECT_EQ(FileOf({"abcdefghijk"}),
            "abcde\n[... 1 bytes left out ...]\nghijk");
  EXPECT_EQ(FileOf({"abcdefghijklmnopqrstuvwxyz"}),
            "abcde\n[... 16 bytes left out ...]\nvwxyz");
  std::vector<std::string> letters;
  for (char c = 'a'; c <= 'z'; ++c) {
    letters.emplace_back(1, c);
  }
  EXPECT_EQ(FileOf(letters), "abcde\n[... 16 bytes left out ...]\nvwxyz");
}

TEST(TrialLog, TheFirstHalfIsInTheFileAtOnce) {
  const fakes::TemporaryFolder folder;
  TrialLog log(folder.path() / "trial.log", 10);
  log.Append("abcdefg");
  EXPECT_EQ(fakes::ReadFile(folder.path() / "trial.log"), "abcde");
}

// What cannot be written ends the log, not the trial.
TEST(TrialLog, WithoutSpaceTheTrialContinues) {
  const fakes::TemporaryFolder folder;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{2, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  TrialLog log(folder.path() / "trial.log", 10);
  log.Append("one\n");
  EXPECT_NO_THROW(log.Append("two\n"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(fakes::ReadFile(folder.path() / "trial.log"), "on");
}

TEST(TrialLog, IsNoDevice) {
  TrialLog log("/dev/full", 10);
  EXPECT_NO_THROW(log.Append("one\n"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace trials::trial_log_test
