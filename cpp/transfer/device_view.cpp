#include "transfer/device_view.h"

namespace torch_pjrt::transfer {

pjrt::Buffer view_device_memory(const pjrt::Client& client, pjrt::Device device, const void* data,
                                const pjrt::ArraySpec& array, std::unique_ptr<Holder> holder,
                                intptr_t stream) {
  pjrt::Buffer buffer = client.create_view(
      const_cast<void*>(data), array, device,
      [](void*, void* kept) {
        Reclaimer::instance().reclaim(std::unique_ptr<Holder>(static_cast<Holder*>(kept)));
      },
      holder.get(), stream);
  static_cast<void>(holder.release());  // the callback's
  return buffer;
}

}  // namespace torch_pjrt::transfer
