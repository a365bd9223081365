#pragma once

#include <ATen/dlpack.h>

#include <cstdint>
#include <span>
#include <vector>

#include "pjrt/element_type.h"

namespace torch_pjrt::dlpack {

// Owns an array that another library gave through DLPack's struct, of version 1 or of before.
// Destroying it calls the struct's deleter, on that thread; deleters of Python libraries take the
// GIL themselves. Move-only.
class ImportedTensor {
 public:
  // Each takes the struct over, also when it throws: pjrt::Error (kInvalidArgument) for another
  // major version, of which only the deleter is known.
  explicit ImportedTensor(DLManagedTensorVersioned* managed);
  explicit ImportedTensor(DLManagedTensor* managed);
  ImportedTensor(ImportedTensor&& other) noexcept;
  ImportedTensor& operator=(ImportedTensor&&) = delete;
  ~ImportedTensor();

  // The element with index (0, 0, ...).
  void* data() const noexcept;
  DLDevice device() const noexcept { return tensor().device; }
  // Throws where no device array has such elements.
  pjrt::ElementType type() const;
  // Both live as long as this object.
  std::span<const int64_t> dimensions() const noexcept;
  std::span<const int64_t> strides() const noexcept { return strides_; }  // in elements

  bool is_read_only() const noexcept { return (flags() & DLPACK_FLAG_BITMASK_READ_ONLY) != 0; }
  // Whether the producer copied the array, so that nobody else has it.
  bool is_copied() const noexcept { return (flags() & DLPACK_FLAG_BITMASK_IS_COPIED) != 0; }

 private:
  const DLTensor& tensor() const noexcept;
  uint64_t flags() const noexcept { return versioned_ ? versioned_->flags : 0; }
  void fill_strides();

  DLManagedTensorVersioned* versioned_ = nullptr;
  DLManagedTensor* unversioned_ = nullptr;
  std::vector<int64_t> strides_;
};

}  // namespace torch_pjrt::dlpack
