#include "trials/programs/rank_launch.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::rank_launch_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kFailed = 255 << 8;  // as by waitpid(2)

std::vector<std::string> Hosts(const std::string& text) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "hosts", text);
  return ReadHosts(folder.path() / "hosts");
}

TEST(ReadHosts, TakesTheHostsOfOtherLaunchers) {
  EXPECT_THAT(
      Hosts("\xEF\xBB\xBF# two\r\nn1 slots=8\r\n\r\nme@n2.lan  slots = 8 "
            "max_slots=8 # last\r\nfe80::1%eth0\r\n"),
      ElementsAre("n1", "me@n2.lan", "fe80::1%eth0"));
}

TEST(ReadHosts, NamesTheLineOfAMistake) {
  const auto error = [](const std::string& text) {
    return fakes::ErrorOf([&] { return Hosts("n0\n" + text + "\n"); });
  };
  EXPECT_THAT(error("n1:2222"),
              HasSubstr("hosts:2: 'n1:2222' is not 'HOST', 'USER@HOST' or "
                        "'HOST slots=N'; a port belongs into ~/.ssh/config"));
  EXPECT_THAT(error("n0 slots=2"),
              HasSubstr("hosts:2: the host 'n0' is that of line 1"));
  EXPECT_THAT(error("me@n0"), HasSubstr("'n0' is that of line 1"))
      << "another user is on the same host";
  for (const char* line :
       {"n1 lots=8", "n1 slots=", "n1 slots=0", "n1 slots=x", "n1 8", "n1 n2",
        "n1,n2", "-n1", "n1;id", "[::1]:22", "@n1", "me@", "n1$"}) {
    EXPECT_THAT(error(line), HasSubstr("hosts:2: ")) << line;
  }
  EXPECT_THAT(fakes::ErrorOf([] { return Hosts("# none\n"); }),
              HasSubstr("no hosts"));
}

std::string Refusal(const CommandOptions& options, const std::string& said) {
  try {
    (void)LostNodes(options, kFailed, said);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(LostNodes, AreRefusedWhereAnotherTryDoesNotHelp) {
  CommandOptions options;
  options.hosts = {"n1"};
  for (const char* reason :
       {"me@n1: Permission denied (publickey,password).",
        "ssh: Could not resolve hostname n1: Name or service not known",
        "Host key verification failed."}) {
    const std::string said = std::string("ssh to host n1: ") + reason;
    EXPECT_THAT(Refusal(options, said), HasSubstr(said));
  }
  for (const char* said :
       {"ssh to host n1: ssh: connect to host n1 port 22: Connection timed out",
        "ssh to host n1: client_loop: send disconnect: Broken pipe"}) {
    EXPECT_EQ(LostNodes(options, kFailed, said), said);
  }
  EXPECT_NE(LostNodes(options, kFailed, ""), "");
  EXPECT_EQ(LostNodes(options, 1 << 8, "ssh: Permission denied (publickey)"),
            "");  // of the program
}

TEST(LostNodes, AreThoseOfSrunWhereItSaysSo) {
  ::setenv("SLURM_JOB_ID", "17", 1);
  CommandOptions options;
  options.ranks = CommandOptions::Ranks::kPerNode;
  EXPECT_THAT(Refusal(options,
                      "srun: error: Unable to create step for job 17: More "
                      "processors requested than permitted"),
              HasSubstr("More processors requested than permitted; compare "
                        "--gpus with the nodes of job 17"));
  EXPECT_NE(LostNodes(options, 1 << 8,
                      "srun: error: Unable to create step for job 17: Job/step "
                      "already completing or completed"),
            "");
  EXPECT_EQ(LostNodes(options, 1 << 8, ""), "");
  ::unsetenv("SLURM_JOB_ID");
}

}  // namespace trials::rank_launch_test
