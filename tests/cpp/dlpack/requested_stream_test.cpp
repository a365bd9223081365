#include "dlpack/requested_stream.h"

#include <gtest/gtest.h>

namespace {

using torch_pjrt::dlpack::requested_stream;
using torch_pjrt::dlpack::RequestedStream;
using torch_pjrt::dlpack::stream_number;
using Kind = RequestedStream::Kind;

constexpr int64_t kPointer = 0x7f0012345678;

RequestedStream handle(int64_t number) { return {Kind::kHandle, static_cast<intptr_t>(number)}; }
const RequestedStream kInvalid{Kind::kInvalid};

TEST(RequestedStream, OnCudaNoneAndOneAreTheLegacyDefaultStreamAndZeroIsRefused) {
  EXPECT_EQ(requested_stream(kDLCUDA, std::nullopt), handle(1));
  EXPECT_EQ(requested_stream(kDLCUDA, 1), handle(1));
  EXPECT_EQ(requested_stream(kDLCUDA, 2), handle(2));
  EXPECT_EQ(requested_stream(kDLCUDA, kPointer), handle(kPointer));
  EXPECT_EQ(requested_stream(kDLCUDA, 0), kInvalid);
  EXPECT_EQ(requested_stream(kDLCUDA, -2), kInvalid);
}

TEST(RequestedStream, OnRocmNoneAndZeroAreTheDefaultStreamAndOneAndTwoAreRefused) {
  EXPECT_EQ(requested_stream(kDLROCM, std::nullopt), handle(0));
  EXPECT_EQ(requested_stream(kDLROCM, 0), handle(0));
  EXPECT_EQ(requested_stream(kDLROCM, kPointer), handle(kPointer));
  for (const int64_t refused : {1, 2, -2}) EXPECT_EQ(requested_stream(kDLROCM, refused), kInvalid);
}

TEST(RequestedStream, HostMemoryHasNone) {
  EXPECT_EQ(requested_stream(kDLCPU, std::nullopt), RequestedStream());
  for (const int64_t refused : {0, 1, 5, -2}) {
    EXPECT_EQ(requested_stream(kDLCPU, refused), kInvalid);
  }
}

TEST(RequestedStream, OtherDevicesHaveADefaultStreamAndHandles) {
  for (const DLDeviceType device : {kDLOneAPI, kDLExtDev}) {
    EXPECT_EQ(requested_stream(device, std::nullopt).kind, Kind::kDefault);
    EXPECT_EQ(requested_stream(device, kPointer), handle(kPointer));
    for (const int64_t refused : {0, 1, 2, -2}) {
      EXPECT_EQ(requested_stream(device, refused), kInvalid);
    }
  }
}

TEST(RequestedStream, MinusOneAsksForNoOrderEverywhere) {
  for (const DLDeviceType device : {kDLCPU, kDLCUDA, kDLROCM, kDLOneAPI, kDLExtDev}) {
    EXPECT_EQ(requested_stream(device, -1), RequestedStream());
  }
}

TEST(RequestedStream, AProducerIsToldOfANullStreamOnCudaAsTheLegacyOne) {
  EXPECT_EQ(stream_number(kDLCUDA, 0), 1);
  EXPECT_EQ(stream_number(kDLROCM, 0), 0);
  EXPECT_EQ(stream_number(kDLCUDA, kPointer), kPointer);
}

}  // namespace
