#include "pjrt/error.h"

#include <gtest/gtest.h>

#include "base/metrics.h"
#include "on_each_plugin.h"
#include "pjrt/call.h"

namespace torch_pjrt::pjrt {
namespace {

TEST(Error, SaysWhatWasAskedThenTheCodeThenWhatIsWrong) {
  const Error error(ErrorCode::kResourceExhausted, "execute a program", "out of memory");
  EXPECT_STREQ(error.what(), "execute a program: RESOURCE_EXHAUSTED: out of memory");
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
}

class ErrorOnPlugin : public OnEachPlugin {
 protected:
  // Asks for a device that is not there.
  PJRT_Error* failure() const {
    TORCH_PJRT_ARGS(PJRT_Client_LookupDevice, args);
    args.client = client().get();
    args.id = 12345;
    return client().api()->PJRT_Client_LookupDevice(&args);
  }
};

TEST_P(ErrorOnPlugin, CarriesThePluginsCodeAndMessage) {
  EXPECT_NO_THROW(check(client().api(), nullptr, "do nothing"));
  try {
    check(client().api(), failure(), "look up a device");
    FAIL() << "device 12345 exists";
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kOk);
    EXPECT_NE(
        std::string(error.what()).find("look up a device: " + std::string(name(error.code()))),
        std::string::npos);
    EXPECT_NE(std::string(error.what()).find("12345"), std::string::npos) << error.what();
  }
}

TEST_P(ErrorOnPlugin, InADestructorIsCountedAndWarnedOfOnce) {
  base::Counter& count = base::counter("pjrt.destructor_errors");
  const int64_t before = count.value();
  check_in_destructor(client().api(), failure(), "first");
  testing::internal::CaptureStderr();
  check_in_destructor(client().api(), failure(), "second");
  check_in_destructor(client().api(), nullptr, "none");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(count.value(), before + 2);
}

RUN_ON_EACH_PLUGIN(ErrorOnPlugin);

}  // namespace
}  // namespace torch_pjrt::pjrt
