#include "dlpack/imported_tensor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dlpack/data_type.h"
#include "pjrt/error.h"

namespace torch_pjrt::dlpack {
namespace {

template <typename Managed>
void release(Managed* managed) noexcept {
  if (managed && managed->deleter) managed->deleter(managed);
}

}  // namespace

ImportedTensor::ImportedTensor(DLManagedTensorVersioned* managed) : versioned_(managed) {
  if (const DLPackVersion version = managed->version; version.major != DLPACK_MAJOR_VERSION) {
    release(std::exchange(versioned_, nullptr));
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "import an array by DLPack",
                      "the producer speaks another major version; got " +
                          std::to_string(version.major) + "." + std::to_string(version.minor) +
                          ", expected 1.x; ask it for max_version=(1, 3)");
  }
  fill_strides();
}

ImportedTensor::ImportedTensor(DLManagedTensor* managed) : unversioned_(managed) { fill_strides(); }

ImportedTensor::ImportedTensor(ImportedTensor&& other) noexcept
    : versioned_(std::exchange(other.versioned_, nullptr)),
      unversioned_(std::exchange(other.unversioned_, nullptr)),
      strides_(std::move(other.strides_)) {}

ImportedTensor::~ImportedTensor() {
  release(versioned_);
  release(unversioned_);
}

const DLTensor& ImportedTensor::tensor() const noexcept {
  return versioned_ ? versioned_->dl_tensor : unversioned_->dl_tensor;
}

void* ImportedTensor::data() const noexcept {
  return tensor().data ? static_cast<char*>(tensor().data) + tensor().byte_offset : nullptr;
}

pjrt::ElementType ImportedTensor::type() const { return element_type(tensor().dtype); }

std::span<const int64_t> ImportedTensor::dimensions() const noexcept {
  return {tensor().shape, static_cast<size_t>(tensor().ndim)};
}

// Before version 1.2 no strides may mean a dense array.
void ImportedTensor::fill_strides() {
  const auto sizes = dimensions();
  if (const int64_t* given = tensor().strides) {
    strides_.assign(given, given + sizes.size());
    return;
  }
  strides_.resize(sizes.size());
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides_[d] = next;
    next *= std::max<int64_t>(sizes[d], 1);
  }
}

}  // namespace torch_pjrt::dlpack
