#include "harness/records/lease.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::lease_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::WriteFile;

constexpr double kTimeout = 0.3;

class LeaseTest : public testing::Test {
 protected:
  // Does `work` in a child that lives until it is killed.
  pid_t Child(const std::function<void()>& work) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      work();
      WriteFile(folder_.path() / "child-is-ready", "");
      while (true) {
        ::pause();
      }
    }
    for (int i = 0; i < 1000 && !fs::exists(folder_.path() / "child-is-ready");
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return pid;
  }

  static void Kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(LeaseTest, IsFreeAfterItWasReleased) {
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const double begin_s = common::SteadySeconds();
    const Lease lease(folder_.path());  // with the long patience
    EXPECT_EQ(lease.epoch(), epoch);
    EXPECT_LT(common::SteadySeconds() - begin_s, Lease::kTimeoutSeconds / 2.0);
  }
}

TEST_F(LeaseTest, IsFreeAtOnceWhenItsHoldersProcessIsGone) {
  Kill(Child([this] { new Lease(folder_.path()); }));
  const double begin_s = common::SteadySeconds();
  const Lease lease(folder_.path());
  EXPECT_EQ(lease.epoch(), 2);
  EXPECT_LT(common::SteadySeconds() - begin_s, Lease::kTimeoutSeconds / 2.0);
}

TEST_F(LeaseTest, StaysWithAHolderThatIsAlive) {
  const pid_t child = Child([this] { new Lease(folder_.path(), kTimeout); });
  EXPECT_TRUE(IsLeased(folder_.path()));
  EXPECT_THROW(Lease(folder_.path(), kTimeout), LeaseLost);
  Kill(child);
  EXPECT_FALSE(IsLeased(folder_.path()));
}

TEST_F(LeaseTest, IsTakenFromAHolderThatIsStopped) {
  const pid_t child = Child([this] { new Lease(folder_.path(), kTimeout); });
  ::kill(child, SIGSTOP);
  const Lease lease(folder_.path(), kTimeout);
  EXPECT_EQ(lease.epoch(), 2);
  EXPECT_TRUE(lease.IsHeld());
  ::kill(child, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(lease.IsHeld()) << "the old holder took it back";
  Kill(child);
}

TEST_F(LeaseTest, OfAnotherHostIsTakenWhenItsCountStandsStill) {
  WriteFile(folder_.path() / ".lease-7", "3                   |far|b|1|1|99\n");
  EXPECT_TRUE(IsLeased(folder_.path()));
  const Lease lease(folder_.path(), kTimeout);
  EXPECT_EQ(lease.epoch(), 8);
}

TEST_F(LeaseTest, OfAnotherHostIsLeftToItWhileItsCountRises) {
  std::thread far([this] {
    for (int i = 0; i < 40; ++i) {
      WriteFile(folder_.path() / ".lease-7",
                std::to_string(i) + "                   |far|b|1|1|99\n");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THROW(Lease(folder_.path(), 1.0), LeaseLost);
  far.join();
}

TEST_F(LeaseTest, ThatWasCutOffWhenItWasWrittenIsTakenAfterAWhile) {
  WriteFile(folder_.path() / ".lease-2", "");
  EXPECT_EQ(Lease(folder_.path(), kTimeout).epoch(), 3);
}

TEST_F(LeaseTest, ThatWasLostPublishesNothing) {
  const Lease old(folder_.path(), kTimeout);
  old.Publish("file", "old");
  WriteFile(folder_.path() / ".lease-2", "1                   |far|b|1|1|9\n");
  EXPECT_FALSE(old.IsHeld());
  EXPECT_THROW(old.Publish("file", "late"), LeaseLost);
  EXPECT_EQ(ReadFile(folder_.path() / "file"), "old");
  // Nor when a third has come and the second's lease is gone.
  fs::remove(folder_.path() / ".lease-2");
  fs::remove(folder_.path() / ".lease-1");
  WriteFile(folder_.path() / ".lease-3", "1                   |far|b|1|1|9\n");
  EXPECT_FALSE(old.IsHeld());
  // Nor when the epochs have restarted.
  fs::remove(folder_.path() / ".lease-3");
  WriteFile(folder_.path() / ".lease-1", "1                   |far|b|1|1|9\n");
  EXPECT_FALSE(old.IsHeld());
}

TEST_F(LeaseTest, PublishesThroughNoLinkThatSomebodyPlanted) {
  const fs::path target = folder_.path() / "target";
  WriteFile(target, "mine");
  for (const char* name : {".publish-1-run.json", ".publish-2-run.json"}) {
    fs::create_symlink(target, folder_.path() / name);
  }
  const Lease lease(folder_.path(), kTimeout);
  lease.Publish("run.json", "{}");
  EXPECT_EQ(ReadFile(target), "mine");
  EXPECT_EQ(ReadFile(folder_.path() / "run.json"), "{}");
  EXPECT_FALSE(fs::is_symlink(folder_.path() / "run.json"));
}

TEST_F(LeaseTest, NewHolderDeletesWhatAnOlderOneWasAboutToPublish) {
  WriteFile(folder_.path() / ".lease-4", "released            |far|b|1|1|9\n");
  WriteFile(folder_.path() / ".publish-4-trials.csv", "late");
  const Lease lease(folder_.path(), kTimeout);
  EXPECT_FALSE(fs::exists(folder_.path() / ".publish-4-trials.csv"));
  EXPECT_FALSE(fs::exists(folder_.path() / ".lease-4"));
}

TEST_F(LeaseTest, LateWritesOfAnOlderHolderGoNowhere) {
  const Lease old(folder_.path(), kTimeout);
  const common::Descriptor file = old.PublishOpen("file", "one\n");
  // Another host takes over and publishes what it has read.
  WriteFile(folder_.path() / ".lease-2", "released            |far|b|1|1|9\n");
  const Lease next(folder_.path(), kTimeout);
  next.Publish("file", "one\ntwo\n");
  ASSERT_EQ(::write(file.get(), "late\n", 5), 5);
  EXPECT_EQ(ReadFile(folder_.path() / "file"), "one\ntwo\n");
}

TEST_F(LeaseTest, OfManyThatWantItAtOnceOneGetsIt) {
  WriteFile(folder_.path() / ".lease-1", "released            |far|b|1|1|9\n");
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        const Lease lease(folder_.path(), 1.0);
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        ::_exit(lease.IsHeld() ? 1 : 2);
      } catch (const LeaseLost&) {
        ::_exit(0);
      }
    }
    children.push_back(pid);
  }
  int holders = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 2) << "it was lost while its holder lived";
    holders += WEXITSTATUS(status) == 1 ? 1 : 0;
  }
  EXPECT_EQ(holders, 1);
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

TEST(LeaseFile, EpochsAreReadFromNamesThatAWriterGivesOnly) {
  EXPECT_EQ(EpochOf(".lease-12", kLeasePrefix), 12);
  EXPECT_EQ(EpochOf(".publish-7-trials.csv", kPublishPrefix), 7);
  for (const char* name : {".lease-", "trials.csv", ".lease-7abc", ".lease--7",
                           ".lease-9223372036854775807"}) {
    EXPECT_EQ(EpochOf(name, kLeasePrefix), std::nullopt) << name;
  }
}

}  // namespace harness::lease_test
