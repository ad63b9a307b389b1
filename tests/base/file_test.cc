#include "prenorm/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "prenorm/base/error.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "prenorm-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      out.push_back(entry.path().filename().string());
    }
    return out;
  }

  fs::path folder_;
};

TEST_F(File, reads_back_what_was_written_for_sizes_around_the_buffers) {
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 300000u}) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
    write_file_durably(folder_ / "x", bytes);
    EXPECT_EQ(read_file(folder_ / "x"), bytes);
    const MappedFile map(folder_ / "x");
    ASSERT_EQ(map.bytes().size(), size);
    EXPECT_TRUE(size == 0 || std::memcmp(map.bytes().data(), bytes.data(), size) == 0);
  }
}

TEST_F(File, gathers_small_writes_in_order) {
  std::string expected;
  write_file_durably(folder_ / "x", [&](FileWriter& out) {
    for (int i = 0; i < 40000; ++i) {
      const std::string piece = std::to_string(i) + (i % 1000 == 0 ? std::string(70000, '.') : ",");
      out.write(piece);
      expected += piece;
    }
  });
  EXPECT_EQ(read_file(folder_ / "x"), expected);
}

TEST_F(File, reading_names_the_path_and_what_is_wrong) {
  const std::string missing = (folder_ / "missing").string();
  EXPECT_THAT([&] { read_file(missing); },
              ThrowsMessage<IoError>(missing + ": expected a readable file, found no such file"));
  EXPECT_THAT([&] { MappedFile{missing}; },
              ThrowsMessage<IoError>(missing + ": expected a readable file, found no such file"));
  EXPECT_THAT(
      [&] { read_file(folder_); },
      ThrowsMessage<IoError>(folder_.string() + ": expected a readable file, found a folder"));
  EXPECT_THAT([&] { MappedFile{folder_}; }, ThrowsMessage<IoError>(HasSubstr("found a folder")));
}

TEST_F(File, a_pipe_is_read_to_its_end_but_not_mapped) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(200000, 'p');
  std::thread writer([&] { std::ofstream(pipe) << text; });
  EXPECT_EQ(read_file(pipe), text);
  writer.join();
  // Nobody writes to it now: opening it to read would wait for ever.
  const auto refused = ThrowsMessage<IoError>(HasSubstr("a pipe or a device"));
  EXPECT_THAT([&] { MappedFile{pipe}; }, refused);
  EXPECT_THAT([&] { read_regular_file(pipe); }, refused);
  EXPECT_THAT([] { read_regular_file("/dev/zero"); }, refused);
  // It never ends.
  EXPECT_THAT([] { read_file("/dev/zero"); }, ThrowsMessage<IoError>(HasSubstr("a device")));
}

TEST_F(File, a_file_longer_than_what_is_wanted_is_refused) {
  write_file_durably(folder_ / "five", "12345");
  EXPECT_EQ(read_file(folder_ / "five", 5), "12345");
  EXPECT_EQ(read_regular_file(folder_ / "five", 5), "12345");
  const auto refused = ThrowsMessage<IoError>(HasSubstr("expected at most 4 bytes, found"));
  EXPECT_THAT([&] { read_file(folder_ / "five", 4); }, refused);
  EXPECT_THAT([&] { read_regular_file(folder_ / "five", 4); }, refused);
  // Of a pipe the length isn't known before.
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << std::string(1000, 'p'); });
  EXPECT_THAT([&] { read_file(pipe, 999); }, ThrowsMessage<IoError>(HasSubstr("found more")));
  writer.join();
}

TEST_F(File, whether_a_file_is_there_is_told_without_an_exception) {
  write_file_durably(folder_ / "there", "");
  fs::create_symlink("nowhere", folder_ / "dangling");
  EXPECT_TRUE(file_exists(folder_ / "there"));
  EXPECT_TRUE(file_exists(folder_ / "dangling"));
  EXPECT_FALSE(file_exists(folder_ / "nowhere"));
  EXPECT_FALSE(file_exists(folder_ / "there" / "below"));
  EXPECT_FALSE(file_exists(folder_ / std::string(5000, 'x')));
}

TEST_F(File, a_name_lies_inside_a_folder_unless_it_or_a_link_leads_out) {
  const fs::path model = folder_ / "model";
  fs::create_directories(model / "sub");
  fs::create_symlink("sub", model / "in");
  fs::create_directory_symlink("/etc", model / "out");
  fs::create_symlink("../other", model / "up");
  write_file_durably(folder_ / "other", "");
  for (const char* name : {"", "sub", "sub/", "in", "not-there", "sub/../not-really"}) {
    EXPECT_EQ(lies_inside(model, name), std::string_view(name).find("..") == std::string::npos)
        << name;
  }
  for (const char* name : {"..", "../model", "/etc", "out", "out/passwd", "up", "a\\b", "a\nb"}) {
    EXPECT_FALSE(lies_inside(model, name)) << name;
  }
  EXPECT_FALSE(lies_inside(model, std::string_view("a\0b", 3)));
}

TEST_F(File, links_of_a_cache_may_lead_to_its_blobs) {
  fs::create_directories(folder_ / "blobs");
  fs::create_directories(folder_ / "snapshots/1");
  write_file_durably(folder_ / "blobs/x", "");
  fs::create_symlink("../../blobs/x", folder_ / "snapshots/1/weights");
  EXPECT_TRUE(lies_inside(folder_ / "snapshots/1", "weights"));
  fs::rename(folder_ / "snapshots", folder_ / "other");
  EXPECT_FALSE(lies_inside(folder_ / "other/1", "weights"));
}

TEST_F(File, a_stream_is_read_to_its_end_and_a_broken_one_is_an_error) {
  std::istringstream in(std::string(200000, 's'));
  EXPECT_EQ(read_stream(in, "standard input"), std::string(200000, 's'));
  std::istringstream empty;
  EXPECT_EQ(read_stream(empty, "standard input"), "");
  std::istringstream broken("x");
  broken.setstate(std::ios::badbit);
  EXPECT_THAT([&] { read_stream(broken, "standard input"); },
              ThrowsMessage<IoError>(HasSubstr("standard input: expected a readable stream")));
}

TEST_F(File, a_map_can_be_moved) {
  write_file_durably(folder_ / "x", "abc");
  MappedFile first(folder_ / "x");
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().size(), 3u);
  first = std::move(second);
  EXPECT_EQ(static_cast<char>(first.bytes()[2]), 'c');
}

TEST_F(File, an_exception_in_the_callback_leaves_the_old_file_and_nothing_else) {
  write_file_durably(folder_ / "x", "old");
  EXPECT_THROW(write_file_durably(folder_ / "x",
                                  [](FileWriter& out) {
                                    out.write(std::string(100000, 'n'));
                                    throw FormatError("no");
                                  }),
               FormatError);
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_THAT(names(), ::testing::ElementsAre("x"));
}

TEST_F(File, a_full_disk_leaves_the_old_file_and_names_the_new_one) {
  write_file_durably(folder_ / "x", "old");
  // A limit on the file's size fails a write half-way, as a full disk does.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string path = (folder_ / "x").string();
  EXPECT_THAT([&] { write_file_durably(path, std::string(300000, 'n')); },
              ThrowsMessage<IoError>(HasSubstr(path + ": expected room to write, found ")));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_THAT(names(), ::testing::ElementsAre("x"));
}

TEST_F(File, writing_into_no_folder_or_over_a_folder_is_an_error_and_leaves_nothing) {
  EXPECT_THAT([&] { write_file_durably(folder_ / "no" / "x", "a"); },
              ThrowsMessage<IoError>(HasSubstr("x: expected a writable file, found No such file")));
  fs::create_directory(folder_ / "d");
  EXPECT_THAT([&] { write_file_durably(folder_ / "d", "a"); },
              ThrowsMessage<IoError>(HasSubstr("d: expected a file that can be replaced")));
  EXPECT_THROW(write_file_durably(folder_ / "d" / "", "a"), IoError);
  EXPECT_THAT(names(), ::testing::ElementsAre("d"));
  EXPECT_THAT(fs::directory_iterator(folder_ / "d") == fs::directory_iterator(), true);
}

TEST_F(File, readers_see_the_old_or_the_new_file_while_it_is_replaced) {
  const std::string a(200000, 'a'), b(150000, 'b');
  write_file_durably(folder_ / "x", a);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write_file_durably(folder_ / "x", i % 2 == 0 ? b : a);
    stop = true;
  });
  while (!stop) {
    const std::string seen = read_file(folder_ / "x");
    EXPECT_TRUE(seen == a || seen == b) << seen.size();
  }
  writer.join();
}

TEST_F(File, several_writers_of_one_path_leave_one_whole_file) {
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([&, c] { write_file_durably(folder_ / "x", std::string(100000, c)); });
  }
  for (std::thread& w : writers) w.join();
  const std::string seen = read_file(folder_ / "x");
  EXPECT_EQ(seen, std::string(100000, seen.at(0)));
  EXPECT_THAT(names(), ::testing::ElementsAre("x"));
}

TEST_F(File, a_link_is_replaced_and_its_target_left_alone) {
  write_file_durably(folder_ / "target", "old");
  fs::create_symlink("target", folder_ / "link");
  write_file_durably(folder_ / "link", "new");
  EXPECT_EQ(read_file(folder_ / "target"), "old");
  EXPECT_EQ(read_file(folder_ / "link"), "new");
}

TEST_F(File, a_path_without_folder_is_in_the_working_folder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_durably("x", "here");
  EXPECT_EQ(read_file("x"), "here");
  fs::current_path(before);
}

TEST_F(File, ensure_directory_makes_parents_and_leaves_no_probe) {
  ensure_directory(folder_ / "a" / "b" / "c");
  ensure_directory(folder_ / "a" / "b" / "c");
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "b" / "c"));
  EXPECT_TRUE(fs::is_empty(folder_ / "a" / "b" / "c"));
}

// As root, --output /dev/null would otherwise take the device away from everybody.
TEST_F(File, a_pipe_and_a_link_to_a_device_are_not_replaced) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", folder_ / "null");
  for (const char* name : {"pipe", "null"}) {
    EXPECT_THAT([&] { write_file_durably(folder_ / name, "x"); },
                ThrowsMessage<IoError>(HasSubstr("found a pipe or a device")));
  }
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "null"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "no temporary file";
  fs::create_symlink("nowhere", folder_ / "dangling");
  write_file_durably(folder_ / "dangling", "x");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "dangling")));
}

TEST_F(File, ensure_directory_refuses_what_cannot_hold_files) {
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT([&] { ensure_directory(folder_ / "loop"); },
              ThrowsMessage<IoError>(HasSubstr("loop: expected a folder that can be written")));
  write_file_durably(folder_ / "file", "x");
  EXPECT_THAT([&] { ensure_directory(folder_ / "file"); },
              ThrowsMessage<IoError>((folder_ / "file").string() +
                                     ": expected a folder that can be written, found a file"));
  EXPECT_THAT([&] { ensure_directory(folder_ / "file" / "inside"); },
              ThrowsMessage<IoError>(HasSubstr("inside: expected a folder that can be written")));
  // Nobody may make files there, root included.
  EXPECT_THAT([&] { ensure_directory("/proc/self"); },
              ThrowsMessage<IoError>(HasSubstr("/proc/self: expected a folder that can be")));
}

}  // namespace
}  // namespace prenorm
