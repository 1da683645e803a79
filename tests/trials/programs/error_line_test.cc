#include "trials/programs/error_line.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "common/text.h"

namespace trials::error_line_test {

ErrorLine Read(std::string_view log) {
  ErrorLine error;
  for (const std::string_view line : common::Split(log, '\n')) {
    error.Read(line);
  }
  return error;
}

// The last lines of torchrun of PyTorch 2.15, of which rank 1 failed first.
std::string Footer(const std::string& exit_code) {
  return R"(W1124 17:33:15.201000 28845 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 307 closing signal SIGTERM
E1124 17:33:15.347000 28845 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 312) of binary: python3
Traceback (most recent call last):
  File "torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
fail.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-24_17:33:15
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 307)  (SIGTERM)
  traceback : Signal 15 (SIGTERM) received by PID 307
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-24_17:33:15
  rank      : 1 (local_rank: 1)
  exitcode  : )" +
         exit_code + R"(
  error_file: <N/A>
============================================================
)";
}

constexpr std::string_view kRank0 =
    R"([rank0]: Traceback (most recent call last):
[rank0]:   File "fail.py", line 13, in <module>
[rank0]:     dist.all_reduce(torch.zeros(4))
[rank0]:            ^^^^^^^^^^^^^^^^^^^^^
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer
)";

TEST(ErrorLine, IsThatOfTheRankThatFailedFirst) {
  const std::string log = std::string(R"(rank 0 loads data
[rank1]: Traceback (most recent call last):
[rank1]:   File "fail.py", line 7, in <module>
[rank1]:     raise ValueError("the dataset has no column 'text'")
step 3 loss: 4.0
[rank1]: ValueError: the dataset has no column 'text'
)") + std::string(kRank0) +
                          Footer("1 (pid: 312) ");
  const ErrorLine error = Read(log);
  EXPECT_EQ(error.text(), "ValueError: the dataset has no column 'text'");
  EXPECT_EQ(error.lines(), 6U);
}

// The others fail because its connection is closed.
TEST(ErrorLine, OfARankWithoutATracebackIsWhatTorchrunSays) {
  EXPECT_EQ(Read("no GPU for this rank\n" + std::string(kRank0) +
                 Footer("3 (pid: 13512) "))
                .text(),
            "no GPU for this rank; rank 1 failed first: exit code 3");
  EXPECT_EQ(Read("loading\n\n" + Footer("-9 (pid: 6439)  (SIGKILL)")).text(),
            "loading; rank 1 failed first: exit code -9 (SIGKILL)");
}

TEST(ErrorLine, ReadsThePrefixesOfLaunchers) {
  for (const char* prefix :
       {"", "[default1]:", "[1,1]<stderr>:", "1: ", "[default1]:[rank1]: "}) {
    std::string log = "loading\n";
    for (const char* line :
         {"Traceback (most recent call last):", "  File \"a.py\", line 1",
          "torch.OutOfMemoryError: CUDA out of memory."}) {
      log += std::string(prefix) + line + "\n";
    }
    log +=
        "[2026-11-24 17:00:00,123] [ERROR] [launch.py:325:sigkill_handler] "
        "['python', 'train.py'] exits with return code = 1\n";
    EXPECT_EQ(Read(log).text(), "torch.OutOfMemoryError: CUDA out of memory.")
        << prefix;
  }
  // accelerate launch.
  EXPECT_EQ(Read("Traceback (most recent call last):\n  File \"a.py\"\n"
                 "KeyError: 'lr'\nTraceback (most recent call last):\n"
                 "subprocess.CalledProcessError: Command '['python']' returned "
                 "non-zero exit status 1.\n")
                .text(),
            "KeyError: 'lr'");
}

TEST(ErrorLine, IsWhatTheLauncherSaysThatStartsNothing) {
  for (const char* line :
       {"ssh to host n2: n2: Permission denied (publickey).",
        "srun: error: Unable to create step for job 17: More processors "
        "requested than permitted",
        "There are not enough slots available in the system to satisfy the 8",
        "mpirun was unable to launch the specified application as it could not",
        "ssh: Could not resolve hostname n9: Name or service not known"}) {
    EXPECT_EQ(Read("-----\n" + std::string(line) + "\n-----").text(), line);
  }
  // How a task ended is no such line.
  EXPECT_EQ(
      Read("no data\nsrun: error: n1: task 0: Exited with exit code 3").text(),
      "no data");
  ErrorLine error = Read("ssh: a warning of git");
  error.Forget();
  error.Read("killed");
  EXPECT_EQ(error.text(), "killed");
}

TEST(ErrorLine, WithoutATracebackIsTheLastOneWithText) {
  EXPECT_EQ(Read("").text(), "");
  EXPECT_EQ(Read("one\ntwo words \n\n  \noppa {\"step_time_s\": 1}").text(),
            "two words");
}

TEST(ErrorLine, ATracebackBeforeTheFirstStepIsForgotten) {
  ErrorLine error =
      Read("Traceback (most recent call last):\nImportError: x\n");
  EXPECT_EQ(error.text(), "ImportError: x");
  error.Forget();
  error.Read("disk full");
  EXPECT_EQ(error.text(), "disk full");
}

}  // namespace trials::error_line_test
