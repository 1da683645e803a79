#include "harness/local_pool.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/files.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::local_pool_test {

using State = JobReport::State;

class LocalPoolTest : public testing::Test {
 protected:
  Job Shell(int id, const std::string& script) {
    return {id,
            "job " + std::to_string(id),
            {"/bin/sh", "-c", script},
            folder_.path() / std::to_string(id) / "log.txt"};
  }

  // Polls until `count` jobs have ended; the reports of their ends, by id.
  static std::map<int, JobReport> Finish(Dispatcher& pool, std::size_t count) {
    std::map<int, JobReport> ended;
    for (int i = 0; ended.size() < count && i < 1000; ++i) {
      for (const JobReport& report : pool.Poll(0.1)) {
        if (report.state != State::kStarted) {
          ended[report.id] = report;
        }
      }
    }
    return ended;
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(LocalPoolTest, RunsEveryJobAndOneFailureStopsNoOther) {
  LocalPool pool(2);
  pool.Submit({Shell(0, "true"),
               Shell(1, "echo no luck; echo at all >&2; exit 3"),
               Shell(2, "true"), Shell(3, "kill -9 $$"), Shell(4, "true")});
  const auto ended = Finish(pool, 5);
  ASSERT_EQ(ended.size(), 5U);
  for (const int id : {0, 2, 4}) {
    EXPECT_EQ(ended.at(id).state, State::kSucceeded);
  }
  EXPECT_EQ(ended.at(1).state, State::kFailed);
  EXPECT_EQ(ended.at(1).detail, "exit code 3: at all");
  EXPECT_EQ(ended.at(3).state, State::kFailed);
  EXPECT_THAT(ended.at(3).detail, testing::HasSubstr("killed by signal 9"));
  EXPECT_EQ(fakes::ReadFile(folder_.path() / "1/log.txt"), "no luck\nat all\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "0/log.txt"));
}

TEST_F(LocalPoolTest, ReportsAProgramThatIsNotThere) {
  LocalPool pool(1);
  pool.Submit({{0, "x", {"/no/such/program"}, folder_.path() / "x/log.txt"}});
  const auto ended = Finish(pool, 1);
  EXPECT_EQ(ended.at(0).state, State::kFailed);
  EXPECT_THAT(ended.at(0).detail, testing::HasSubstr("/no/such/program"));
}

TEST_F(LocalPoolTest, ALogReplacesAFifoOrALink) {
  const auto fifo = folder_.path() / "0/log.txt";
  const auto link = folder_.path() / "1/log.txt";
  const auto target = folder_.path() / "target";
  std::filesystem::create_directories(fifo.parent_path());
  std::filesystem::create_directories(link.parent_path());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fakes::WriteFile(target, "kept");
  std::filesystem::create_symlink(target, link);
  LocalPool pool(1);
  pool.Submit({Shell(0, "true"), Shell(1, "echo lost")});
  const auto ended = Finish(pool, 2);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended.at(0).state, State::kSucceeded);
  EXPECT_EQ(ended.at(1).state, State::kSucceeded);
  EXPECT_EQ(fakes::ReadFile(target), "kept");
  EXPECT_EQ(fakes::ReadFile(link), "lost\n");
}

TEST_F(LocalPoolTest, NoLogIsWrittenThroughALinkBelowTheResults) {
  const auto elsewhere = folder_.path() / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, folder_.path() / "oppa");
  common::GuardFolder(folder_.path());
  LocalPool pool(1);
  pool.Submit({{.id = 0,
                .name = "x",
                .command = {"/bin/true"},
                .log = folder_.path() / "oppa/1/log.txt"}});
  EXPECT_THAT(fakes::ErrorOf([&] { (void)pool.Poll(1.0); }),
              testing::HasSubstr("oppa is a symbolic link"));
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST_F(LocalPoolTest, NeverRunsMoreThanItsWorkers) {
  // Each job notes its start and its end in one file.
  const std::string note = (folder_.path() / "notes").string();
  const std::string script =
      fmt::format("echo + >> {0}; sleep 0.05; echo - >> {0}", note);
  std::vector<Job> jobs;
  jobs.reserve(6);
  for (int id = 0; id < 6; ++id) {
    jobs.push_back(Shell(id, script));
  }
  LocalPool pool(2);
  pool.Submit(jobs);
  ASSERT_EQ(Finish(pool, 6).size(), 6U);
  int running = 0;
  int most = 0;
  for (const char c : fakes::ReadFile(note)) {
    running += c == '+' ? 1 : c == '-' ? -1 : 0;
    most = std::max(most, running);
  }
  EXPECT_EQ(most, 2);
}

TEST_F(LocalPoolTest, WorkersUseOneThreadForNumericsAndSomeForSuggestions) {
  for (const int threads : {1, 3}) {
    LocalPool pool(1, threads);
    pool.Submit({Shell(0, fmt::format("test $OMP_NUM_THREADS = 1 && "
                                      "test $OPPA_THREADS = {}",
                                      threads))});
    EXPECT_EQ(Finish(pool, 1).at(0).state, State::kSucceeded);
  }
}

TEST_F(LocalPoolTest, EndsItsWorkersAndTheirChildrenWhenItGoes) {
  const std::string note = (folder_.path() / "pids").string();
  {
    LocalPool pool(1);
    pool.Submit({Shell(0, "sleep 60 & echo $$ $! > " + note + "; wait")});
    for (int i = 0; i < 500 && fakes::ReadFile(note).empty(); ++i) {
      (void)pool.Poll(0.01);
    }
  }
  const std::string pids = fakes::ReadFile(note);
  const pid_t shell = std::stoi(pids);
  const pid_t child = std::stoi(pids.substr(pids.find(' ')));
  EXPECT_NE(::kill(shell, 0), 0);
  // The child is reaped by init, which may take its time.
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  const auto gone = [&stat] {
    const std::string text = common::ReadProcFile(stat);
    return text.empty() || text.find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 100 && !gone(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone());
}

TEST(Tail, GivesTheLastLines) {
  const fakes::TemporaryFolder folder;
  const auto log = folder.path() / "log";
  EXPECT_EQ(Tail(log, 1), "");
  fakes::WriteFile(log, "a\nb\nc\n\n");
  EXPECT_EQ(Tail(log, 1), "c");
  EXPECT_EQ(Tail(log, 2), "b\nc");
  EXPECT_EQ(Tail(log, 9), "a\nb\nc");
}

}  // namespace harness::local_pool_test
