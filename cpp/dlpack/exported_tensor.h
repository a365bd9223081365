#pragma once

#include <ATen/dlpack.h>

#include <cstdint>
#include <memory>
#include <span>

#include "pjrt/element_type.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::dlpack {

// An array that is given to others.
struct ExportedArray {
  void* data = nullptr;  // the element with index (0, 0, ...); null without elements
  DLDevice device{kDLCPU, 0};
  pjrt::ElementType type = pjrt::ElementType::kInvalid;
  std::span<const int64_t> dimensions;
  std::span<const int64_t> strides;  // in elements, one a dimension
  bool is_read_only = false;         // the consumer is asked not to write it
  bool is_copied = false;            // the consumer alone has it
};

// The array as DLPack's struct of version 1.`minor`, or of before version 1, which has no flags.
// `holder` keeps the memory; it is destroyed on whichever thread calls the struct's deleter. The
// caller owns the struct: it must see to it that the deleter is called once. Both copy dimensions
// and strides. They throw pjrt::Error when DLPack has no such type, and std::bad_alloc; the holder
// is destroyed then.
DLManagedTensorVersioned* make_versioned(const ExportedArray& array, uint32_t minor,
                                         std::unique_ptr<transfer::Holder> holder);
DLManagedTensor* make_unversioned(const ExportedArray& array,
                                  std::unique_ptr<transfer::Holder> holder);

}  // namespace torch_pjrt::dlpack
