#include "dlpack/exported_tensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dlpack/data_type.h"

namespace torch_pjrt::dlpack {
namespace {

// The struct that the consumer sees, with what it points to.
template <typename Managed>
struct Owner {
  Managed managed{};
  std::vector<int64_t> shape_and_strides;
  std::unique_ptr<transfer::Holder> holder;
};

template <typename Managed>
Managed* make(const ExportedArray& array, std::unique_ptr<transfer::Holder> holder) {
  auto owner = std::make_unique<Owner<Managed>>();
  owner->holder = std::move(holder);
  auto& numbers = owner->shape_and_strides;
  numbers.assign(array.dimensions.begin(), array.dimensions.end());
  numbers.insert(numbers.end(), array.strides.begin(), array.strides.end());
  DLTensor& tensor = owner->managed.dl_tensor;
  tensor.data = array.data;
  tensor.device = array.device;
  tensor.ndim = static_cast<int32_t>(array.dimensions.size());
  tensor.dtype = data_type(array.type);
  tensor.shape = numbers.data();
  tensor.strides = numbers.data() + array.dimensions.size();
  owner->managed.manager_ctx = owner.get();
  owner->managed.deleter = [](Managed* self) {
    delete static_cast<Owner<Managed>*>(self->manager_ctx);
  };
  return &owner.release()->managed;
}

}  // namespace

DLManagedTensorVersioned* make_versioned(const ExportedArray& array, uint32_t minor,
                                         std::unique_ptr<transfer::Holder> holder) {
  auto* const managed = make<DLManagedTensorVersioned>(array, std::move(holder));
  managed->version = {1, std::min<uint32_t>(minor, DLPACK_MINOR_VERSION)};
  if (array.is_read_only) managed->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (array.is_copied) managed->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  return managed;
}

DLManagedTensor* make_unversioned(const ExportedArray& array,
                                  std::unique_ptr<transfer::Holder> holder) {
  return make<DLManagedTensor>(array, std::move(holder));
}

}  // namespace torch_pjrt::dlpack
