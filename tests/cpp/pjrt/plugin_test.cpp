#include "pjrt/plugin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "on_each_plugin.h"

namespace torch_pjrt::pjrt {
namespace {

std::string load_failure(const std::string& path, ErrorCode expected) {
  try {
    Plugin::load(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "loaded " << path;
  return {};
}

TEST(PluginLoad, NamesAMissingFile) {
  const std::string what = load_failure("/no/such/plugin.so", ErrorCode::kNotFound);
  EXPECT_NE(what.find("cannot be found"), std::string::npos) << what;
}

TEST(PluginLoad, RefusesADirectory) {
  const std::string what = load_failure("/tmp", ErrorCode::kInvalidArgument);
  EXPECT_NE(what.find("it is not a file"), std::string::npos) << what;
}

TEST(PluginLoad, RefusesAFileThatIsNoLibrary) {
  const std::string path = testing::TempDir() + "no_library_" + std::to_string(getpid()) + ".so";
  std::ofstream(path) << "just text";
  const std::string what = load_failure(path, ErrorCode::kInvalidArgument);
  EXPECT_NE(what.find("not a shared library"), std::string::npos) << what;
  std::filesystem::remove(path);
}

TEST(PluginLoad, RefusesALibraryThatIsNoPlugin) {
  const std::string what =
      load_failure("/lib/x86_64-linux-gnu/libm.so.6", ErrorCode::kInvalidArgument);
  EXPECT_NE(what.find("GetPjrtApi"), std::string::npos) << what;
}

// Builds a library whose GetPjrtApi returns the C expression `api`; the compiler that built this
// test does it.
std::string build_plugin(const std::string& name, const std::string& api) {
  const std::string stem = testing::TempDir() + name + '_' + std::to_string(getpid());
  std::ofstream(stem + ".c")
      << "#include <stddef.h>\n"
         "struct { size_t size; void* extensions;\n"
         "  struct { size_t size; void* extensions; int major, minor; } version;\n"
         "  void* functions[200]; } api = {"
      << PJRT_Api_STRUCT_SIZE << ", 0, {" << PJRT_Api_Version_STRUCT_SIZE << ", 0, 7, 3}};\n"
      << "const void* GetPjrtApi(void) { return " << api << "; }\n";
  const std::string command = "cc -shared -fPIC -o '" + stem + ".so' '" + stem + ".c'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::filesystem::remove(stem + ".c");
  return stem + ".so";
}

TEST(PluginLoad, RefusesAnotherMajorVersion) {
  const std::string path = build_plugin("major_seven", "&api");
  const std::string what = load_failure(path, ErrorCode::kFailedPrecondition);
  EXPECT_NE(what.find("got 7.3, expected 0.x"), std::string::npos) << what;
  std::filesystem::remove(path);
}

TEST(PluginLoad, RefusesAPluginWithoutATable) {
  const std::string path = build_plugin("no_table", "0");
  const std::string what = load_failure(path, ErrorCode::kInternal);
  EXPECT_NE(what.find("returned nothing"), std::string::npos) << what;
  std::filesystem::remove(path);
}

class PluginOnPlugin : public OnEachPlugin {};

TEST_P(PluginOnPlugin, TellsItsVersionAttributesAndExtensions) {
  const auto plugin = Plugin::load(GetParam());
  EXPECT_EQ(plugin->api_version().first, PJRT_API_MAJOR);
  EXPECT_GE(plugin->api_version().second, 81);
  EXPECT_EQ(plugin->attributes().count("stablehlo_current_version"), 1u);
  EXPECT_FALSE(plugin->extension_names().empty());
  EXPECT_EQ(plugin_path(plugin->api()), plugin->path());
}

TEST_P(PluginOnPlugin, IsLoadedOnceWhateverItsPathIsSpelled) {
  const std::string link = testing::TempDir() + "plugin_link_" + std::to_string(getpid());
  std::filesystem::remove(link);
  std::filesystem::create_symlink(GetParam(), link);
  EXPECT_EQ(Plugin::load(GetParam()), Plugin::load(link));
  std::filesystem::remove(link);
}

TEST_P(PluginOnPlugin, SaysWhichFunctionsItHas) {
  const auto plugin = Plugin::load(GetParam());
  EXPECT_TRUE(plugin->supports(&PJRT_Api::PJRT_Client_Create));
}

// The same plugin with a function table that ends early or has a hole.
TEST_P(PluginOnPlugin, AFunctionItLacksIsUnimplementedAndNamed) {
  const PJRT_Api* whole = Plugin::load(GetParam())->api();
  PJRT_Api shorter = *whole;
  shorter.struct_size = offsetof(PJRT_Api, PJRT_Client_DmaMap);
  EXPECT_TRUE(has_function(&shorter, &PJRT_Api::PJRT_Buffer_CopyRawToHost));
  EXPECT_FALSE(has_function(&shorter, &PJRT_Api::PJRT_Client_DmaMap));
  PJRT_Api holed = *whole;
  holed.PJRT_Client_Compile = nullptr;
  EXPECT_FALSE(has_function(&holed, &PJRT_Api::PJRT_Client_Compile));
  TORCH_PJRT_ARGS(PJRT_Client_Compile, args);
  try {
    TORCH_PJRT_CALL(&holed, PJRT_Client_Compile, args, "compile a program");
    FAIL() << "called a missing function";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_NE(std::string(error.what()).find("PJRT_Client_Compile"), std::string::npos);
  }
}

RUN_ON_EACH_PLUGIN(PluginOnPlugin);

}  // namespace
}  // namespace torch_pjrt::pjrt
