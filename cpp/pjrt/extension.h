#pragma once

#include "pjrt/client.h"

namespace torch_pjrt::pjrt {

// The plugin's extension of that type if it reaches as far as `entry` and fills it, else null:
//   extension_with(client, PJRT_Extension_Type_Stream, &TorchPjrt_StreamExtension::get_stream)
template <typename Extension, typename Function>
const Extension* extension_with(const Client& client, PJRT_Extension_Type type,
                                Function* Extension::* entry) {
  const PJRT_Extension_Base* base = client.plugin().extension(type);
  if (!base) return nullptr;
  const auto* extension = reinterpret_cast<const Extension*>(base);
  const auto offset = reinterpret_cast<const char*>(&(extension->*entry)) -
                      reinterpret_cast<const char*>(extension);
  const bool has = static_cast<size_t>(offset) + sizeof(Function*) <= base->struct_size &&
                   extension->*entry != nullptr;
  return has ? extension : nullptr;
}

}  // namespace torch_pjrt::pjrt
