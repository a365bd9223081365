#include "graph/compile_cache.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "graph/executor_test_support.h"

namespace torch_pjrt::graph {
namespace {

namespace fs = std::filesystem;

class CompileCacheTest : public transfer::OnEachPlugin {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("torch_pjrt_cache_" + std::to_string(getpid()));
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(directory_)) return found;
    for (const auto& entry : fs::directory_iterator(directory_)) found.push_back(entry.path());
    return found;
  }

  // Computes -x + 1 with an empty cache in memory.
  void compute(pjrt::Client& client) {
    TestDevice d(client, directory_);
    const Value x = d.floats({1, 2});
    EXPECT_EQ(d.read_floats(record(kAddNumber, {record(kNegate, {x}), real_number(1)})),
              (std::vector<float>{0, -1}));
  }

  fs::path directory_;
};
ON_EACH_PLUGIN(CompileCacheTest);

TEST_P(CompileCacheTest, KeepsProgramsInMemoryByKey) {
  TestDevice d(client());
  const Growth programs("compile.programs"), hits("compile.cache_hits");
  for (int i = 0; i < 3; ++i) d.read_floats(record(kNegate, {d.floats({1})}));
  EXPECT_EQ(programs(), 1);
  EXPECT_EQ(hits(), 2);
}

TEST_P(CompileCacheTest, ANewClientTakesProgramsFromDisk) {
  const Growth programs("compile.programs"), hits("compile.disk_hits"),
      errors("compile.disk_errors");
  compute(client());
  EXPECT_EQ(programs(), 1);
  if (errors() != 0) GTEST_SKIP() << "this plugin cannot serialise programs";
  ASSERT_EQ(files().size(), 1u);
  const auto other = pjrt::Client::create(pjrt::Plugin::load(GetParam()), {});
  compute(*other);
  EXPECT_EQ(programs(), 1);
  EXPECT_EQ(hits(), 1);
}

TEST_P(CompileCacheTest, ADamagedEntryIsCompiledAgain) {
  compute(client());
  if (files().empty()) GTEST_SKIP() << "this plugin cannot serialise programs";
  const fs::path file = files().at(0);
  const auto size = fs::file_size(file);
  int64_t round = 0;
  const Growth programs("compile.programs"), hits("compile.disk_hits");
  auto damaged = [&](const auto& damage) {
    damage();
    compute(client());
    EXPECT_EQ(programs(), ++round);
    EXPECT_EQ(hits(), 0);
    EXPECT_EQ(fs::file_size(file), size) << "written again";
  };
  damaged([&] { fs::resize_file(file, size / 2); });
  damaged([&] { fs::resize_file(file, 0); });
  damaged([&] {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(size / 2));
    stream << "rubbish";
  });
  compute(client());
  EXPECT_EQ(hits(), 1);
}

TEST_P(CompileCacheTest, AFolderThatCannotBeWrittenOnlyCounts) {
  std::ofstream(directory_) << "a file where the folder should be";
  const Growth errors("compile.disk_errors");
  compute(client());
  EXPECT_EQ(errors(), 1);
}

}  // namespace
}  // namespace torch_pjrt::graph
