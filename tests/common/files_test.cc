#include "common/files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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
  const fs::path path = folder_ / "a.json";
  const fs::path first = WriteTemporaryFile(path, "one");
  const fs::path second = WriteTemporaryFile(path, "two");
  EXPECT_NE(first, second);
  EXPECT_EQ(ReadFile(first), "one");
  EXPECT_EQ(ReadFile(second), "two");
  EXPECT_EQ(first.parent_path(), folder_);
}

TEST_F(FilesTest, FoldersBelowARootAreNotReachedByLinks) {
  CreateFoldersBelow(folder_, folder_ / "a/b");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b"));
  const fs::path elsewhere = work_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_directory_symlink(elsewhere, folder_ / "c");
  for (const fs::path& folder : {folder_ / "c", folder_ / "c/d"}) {
    EXPECT_THAT(fakes::ErrorOf([&] { CreateFoldersBelow(folder_, folder); }),
                testing::HasSubstr("c is a symbolic link"));
  }
  EXPECT_TRUE(fs::is_empty(elsewhere));
  fs::create_directory_symlink(folder_,
                               work_.path() / "root");  // the user's own
  CreateFoldersBelow(work_.path() / "root", work_.path() / "root/e");
  EXPECT_TRUE(fs::is_directory(folder_ / "e"));
}

}  // namespace common::files_test
