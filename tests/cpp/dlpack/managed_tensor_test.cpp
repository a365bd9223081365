#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dlpack/data_type.h"
#include "dlpack/exported_tensor.h"
#include "dlpack/imported_tensor.h"
#include "pjrt/error.h"

namespace torch_pjrt::dlpack {
namespace {

using pjrt::ElementType;

struct CountingHolder final : transfer::Holder {
  explicit CountingHolder(int& count) : released(count) {}
  ~CountingHolder() override { ++released; }
  int& released;
};

struct Exported {
  std::vector<float> memory = std::vector<float>(64);
  std::vector<int64_t> dimensions{4, 3};
  std::vector<int64_t> strides{1, 4};
  int released = 0;

  ExportedArray array() {
    ExportedArray result;
    result.data = memory.data();
    result.type = ElementType::kF32;
    result.dimensions = dimensions;
    result.strides = strides;
    return result;
  }
  std::unique_ptr<transfer::Holder> holder() { return std::make_unique<CountingHolder>(released); }
};

TEST(DataType, EveryTypeOfWholeBytesComesBack) {
  for (int i = 1; i <= static_cast<int>(ElementType::kF4E2M1FN); ++i) {
    const auto type = static_cast<ElementType>(i);
    if (type == ElementType::kToken) continue;
    if (pjrt::bit_width(type) < 8) {
      EXPECT_THROW(data_type(type), pjrt::Error);
    } else {
      const DLDataType there = data_type(type);
      EXPECT_EQ(there.bits, pjrt::bit_width(type));
      EXPECT_EQ(element_type(there), type);
    }
  }
}

TEST(DataType, VectorsHandlesAndOddWidthsAreRefused) {
  EXPECT_THROW(element_type({kDLFloat, 32, 4}), pjrt::Error);
  EXPECT_THROW(element_type({kDLOpaqueHandle, 64, 1}), pjrt::Error);
  EXPECT_THROW(element_type({kDLFloat, 80, 1}), pjrt::Error);
}

TEST(ExportedTensor, CarriesTheArrayAndReleasesItsHolderOnce) {
  Exported source;
  auto* managed = make_versioned(source.array(), 0, source.holder());
  source.dimensions.clear();  // was copied
  const DLTensor& tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.data, source.memory.data());
  EXPECT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.shape[1], 3);
  EXPECT_EQ(tensor.strides[1], 4);
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->version.minor, 0u);
  EXPECT_EQ(managed->flags, 0u);
  EXPECT_EQ(source.released, 0);
  managed->deleter(managed);
  EXPECT_EQ(source.released, 1);
}

TEST(ExportedTensor, SaysItsFlagsAndNoNewerVersionThanItKnows) {
  Exported source;
  ExportedArray array = source.array();
  array.is_read_only = array.is_copied = true;
  auto* managed = make_versioned(array, 99, source.holder());
  EXPECT_EQ(managed->flags, DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(managed->version.minor, static_cast<uint32_t>(DLPACK_MINOR_VERSION));
  managed->deleter(managed);
}

TEST(ExportedTensor, AFailureReleasesTheHolder) {
  Exported source;
  ExportedArray array = source.array();
  array.type = ElementType::kS4;
  EXPECT_THROW(make_unversioned(array, source.holder()), pjrt::Error);
  EXPECT_EQ(source.released, 1);
}

TEST(ImportedTensor, ReadsBothVersionsAndCallsTheDeleterOnce) {
  for (const bool versioned : {true, false}) {
    Exported source;
    {
      ExportedArray array = source.array();
      array.is_read_only = true;
      ImportedTensor first = versioned ? ImportedTensor(make_versioned(array, 0, source.holder()))
                                       : ImportedTensor(make_unversioned(array, source.holder()));
      const ImportedTensor imported(std::move(first));
      EXPECT_EQ(imported.data(), source.memory.data());
      EXPECT_EQ(imported.type(), ElementType::kF32);
      EXPECT_EQ(imported.dimensions()[0], 4);
      EXPECT_EQ(imported.strides()[1], 4);
      EXPECT_EQ(imported.is_read_only(), versioned);
      EXPECT_FALSE(imported.is_copied());
      EXPECT_EQ(source.released, 0);
    }
    EXPECT_EQ(source.released, 1);
  }
}

TEST(ImportedTensor, NoStridesMeanDenseAndTheOffsetCounts) {
  Exported source;
  auto* managed = make_unversioned(source.array(), source.holder());
  managed->dl_tensor.strides = nullptr;
  managed->dl_tensor.byte_offset = 8;
  const ImportedTensor imported(managed);
  EXPECT_EQ(imported.data(), source.memory.data() + 2);
  EXPECT_EQ(imported.strides()[0], 3);
  EXPECT_EQ(imported.strides()[1], 1);
}

TEST(ImportedTensor, AnotherMajorVersionIsRefusedAndReleased) {
  Exported source;
  auto* managed = make_versioned(source.array(), 0, source.holder());
  managed->version.major = 2;
  EXPECT_THROW(ImportedTensor{managed}, pjrt::Error);
  EXPECT_EQ(source.released, 1);
}

}  // namespace
}  // namespace torch_pjrt::dlpack
