#include "common/files.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/csv_table.h"
#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace common::files_test {

namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    fakes::WriteFile(file_, "text");
    fs::create_directory(folder_);
    fs::create_symlink(loop_, loop_);
    EXPECT_EQ(::mkfifo(fifo_.c_str(), 0600), 0);
  }

  fakes::TemporaryFolder work_;
  fs::path file_ = work_.path() / "file";
  fs::path folder_ = work_.path() / "folder";
  fs::path loop_ = work_.path() / "loop";  // to itself: cannot be read
  fs::path fifo_ = work_.path() / "fifo";  // without a writer
  fs::path missing_ = work_.path() / "missing";
};

TEST_F(FilesTest, OnlyAMissingFileIsNothing) {
  EXPECT_EQ(ReadFileIfExists(file_), "text");
  EXPECT_EQ(ReadFileIfExists(missing_), std::nullopt);
  EXPECT_EQ(ReadFileIfExists(file_ / "below"), std::nullopt);
  for (const fs::path& path : {folder_, loop_, fifo_}) {
    EXPECT_THROW((void)ReadFileIfExists(path), InputError) << path;
    EXPECT_THROW((void)CsvTable::Read(path), InputError) << path;
  }
  EXPECT_THROW((void)ReadFile(missing_), InputError);
}

TEST_F(FilesTest, ALinkToNothingIsAnEntry) {
  const fs::path link = folder_ / "link";
  EXPECT_FALSE(EntryExists(link));
  fs::create_symlink(missing_, link);
  for (const fs::path& path : {link, loop_, file_, folder_}) {
    EXPECT_TRUE(EntryExists(path)) << path;
  }
  EXPECT_THROW((void)EntryExists(loop_ / "below"), InputError);
}

TEST_F(FilesTest, WhatCannotBeLookedAtIsNotMissing) {
  EXPECT_TRUE(IsFile(file_));
  for (const fs::path& path : {folder_, fifo_, missing_, file_ / "below"}) {
    EXPECT_FALSE(IsFile(path)) << path;
  }
  EXPECT_THROW((void)IsFile(loop_), InputError);
}

TEST_F(FilesTest, AFolderIsListedInOrderOrAnError) {
  EXPECT_THAT(ListFolder(work_.path()),
              testing::ElementsAre(fifo_, file_, folder_, loop_));
  EXPECT_TRUE(ListFolder(missing_).empty());
  EXPECT_THROW((void)ListFolder(file_), InputError);
  EXPECT_THROW((void)ListFolder(loop_), InputError);
}

// Others may have put links into the folder under names that they foresee.
TEST_F(FilesTest, ATemporaryFileHasANewNameEveryTime) {
  fs::path first;
  fs::path second;
  const Descriptor one = CreateTemporary(folder_ / "a", O_WRONLY, first);
  const Descriptor two = CreateTemporary(folder_ / "a", O_WRONLY, second);
  EXPECT_NE(first, second);
  EXPECT_EQ(first.parent_path(), folder_);
}

TEST_F(FilesTest, OnlyTemporaryFilesThatNobodyWritesAreAbandoned) {
  fs::path used;
  fs::path used_folder;
  fs::path left;
  fs::path left_folder;
  const Descriptor file = CreateTemporary(folder_ / "a", O_WRONLY, used);
  const Descriptor in = CreateTemporaryFolder(folder_ / "a", used_folder);
  (void)CreateTemporary(folder_ / "a", O_WRONLY, left);
  (void)CreateTemporaryFolder(folder_ / "a", left_folder);
  fakes::WriteFile(left_folder / "b", "text");
  fakes::WriteFile(folder_ / "a.json", "text");
  RemoveAbandoned(folder_);
  EXPECT_THAT(ListFolder(folder_), testing::UnorderedElementsAre(
                                       used, used_folder, folder_ / "a.json"));
}

TEST_F(FilesTest, WhatIsBeingCreatedIsNotAbandoned) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
      RemoveAbandoned(folder_);
    }
  });
  int lost = 0;
  for (int i = 0; i < 5000; ++i) {
    fs::path path;
    const Descriptor file = CreateTemporary(folder_ / "a", O_WRONLY, path);
    lost += ::unlink(path.c_str()) == 0 ? 0 : 1;
  }
  stop = true;
  other.join();
  EXPECT_EQ(lost, 0);
}

TEST_F(FilesTest, StoreFirstKeepsWhatIsThere) {
  StoreFirst(missing_, "one");
  StoreFirst(missing_, "two");
  EXPECT_EQ(ReadFile(missing_), "one");
  EXPECT_EQ(ListFolder(work_.path()).size(), 5);
}

TEST_F(FilesTest, ANewFileWritesIntoNothingThatHadItsName) {
  const fs::path path = folder_ / "log";
  for (const auto& plant : std::vector<std::function<void()>>{
           [&] { fs::create_symlink(file_, path); },
           [&] { fs::create_hard_link(file_, path); },
           [&] { fs::create_symlink(missing_, path); },
           [&] { EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0); }, [] {}}) {
    fs::remove(path);
    plant();
    const Descriptor log = CreateFile(path, O_WRONLY);
    WriteAll(log.get(), path, "new");
    EXPECT_EQ(ReadFile(path), "new");
    EXPECT_EQ(ReadFile(file_), "text");
    EXPECT_FALSE(fs::exists(missing_));
  }
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THROW((void)CreateFile(path, O_WRONLY), std::runtime_error);
}

// Everything that writes, with a link in the place of a folder.
TEST_F(FilesTest, NothingLeadsOutOfAGuardedFolder) {
  GuardFolder(folder_);
  CreateFolders(folder_ / "a/b");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b"));
  const fs::path out = work_.path() / "elsewhere";
  fs::create_directories(out / "d");
  fakes::WriteFile(out / "file", "text");
  fs::create_directory_symlink(out, folder_ / "c");
  fs::create_directory_symlink("../elsewhere", folder_ / "relative");
  fs::create_directory_symlink(work_.path() / "no", folder_ / "dangling");
  fs::path temporary;
  for (const fs::path& in :
       {folder_ / "c", folder_ / "c/d", folder_ / "relative",
        folder_ / "dangling", folder_ / "./c", folder_ / "a/../c",
        folder_ / "a/../../elsewhere"}) {
    const fs::path path = in / "file";
    for (const auto& write : std::vector<std::function<void()>>{
             [&] { CreateFolders(in); }, [&] { CreateFolders(in / "new"); },
             [&] { (void)CreateFile(path, O_WRONLY); },
             [&] { (void)OpenFile(path, O_WRONLY); },
             [&] { (void)CreateTemporary(path, O_WRONLY, temporary); },
             [&] { (void)CreateTemporaryFolder(path, temporary); },
             [&] { RemoveAbandoned(in); }, [&] { Rename(path, folder_ / "x"); },
             [&] { Rename(folder_ / "a", in / "x"); },
             [&] { ReplaceFile(path, "x"); }, [&] { StoreFile(path, "x"); },
             [&] { StoreFirst(in / "x", "x"); }}) {
      EXPECT_THAT(fakes::ErrorOf(write), testing::HasSubstr("out of the res"));
    }
    EXPECT_FALSE(Remove(path));
  }
  EXPECT_EQ(ReadFile(out / "file"), "text");
  EXPECT_EQ(ListFolder(out).size(), 2);
  EXPECT_TRUE(fs::is_empty(out / "d"));
  EXPECT_FALSE(fs::exists(work_.path() / "no"));
}

TEST_F(FilesTest, AGuardedFolderMayItselfBeALink) {
  const fs::path root = work_.path() / "root";
  fs::create_directory_symlink(folder_, root);
  GuardFolder(root / "");
  StoreFile(root / "e/file", "text");
  EXPECT_EQ(ReadFile(folder_ / "e/file"), "text");
}

TEST_F(FilesTest, ALinkInTheWayIsReplacedAndNotFollowed) {
  GuardFolder(folder_);
  fs::create_symlink(file_, folder_ / "a");
  ReplaceFile(folder_ / "a", "new", 0600);
  EXPECT_FALSE(fs::is_symlink(folder_ / "a"));
  EXPECT_EQ(fs::status(folder_ / "a").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(ReadFile(file_), "text");
  fs::create_symlink(file_, folder_ / "b");
  fs::create_hard_link(file_, folder_ / "c");
  EXPECT_EQ(::mkfifo((folder_ / "d").c_str(), 0600), 0);
  for (const char* name : {"b", "c", "d"}) {
    EXPECT_FALSE(OpenFile(folder_ / name, O_WRONLY | O_CREAT).ok()) << name;
  }
}

}  // namespace common::files_test
