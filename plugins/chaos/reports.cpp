#include "reports.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "simulated_platform.h"

namespace pjrt_chaos {
namespace {

// The name reported for a memory kind, which lives as long as the process; the kind itself if there
// is none.
std::string_view reported(std::string_view kind) {
  const auto& names = options().memory_kinds;
  const auto found = names.find(kind);
  return found != names.end() ? std::string_view(found->second) : kind;
}

struct Kinds {
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  std::vector<size_t> sizes;
};

// The same list for the same names, for ever: the answer must live as long as the executable.
const Kinds& kept(std::vector<std::string> names) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::vector<std::string>, Kinds>;
  const std::lock_guard lock(mutex);
  Kinds& kinds = (*all)[names];
  if (kinds.names.empty()) {
    kinds.names = std::move(names);
    for (const std::string& name : kinds.names) {
      kinds.pointers.push_back(name.data());
      kinds.sizes.push_back(name.size());
    }
  }
  return kinds;
}

}  // namespace

void rename(PJRT_Client_PlatformName_Args& args) {
  const char* const simulated = simulated_platform_name();
  std::string_view name = options().platform_name;
  if (name.empty() && simulated != nullptr) name = simulated;
  if (name.empty()) return;
  args.platform_name = name.data();
  args.platform_name_size = name.size();
}

void rename(PJRT_Memory_Kind_Args& args) {
  const std::string_view name = reported({args.kind, args.kind_size});
  args.kind = name.data();
  args.kind_size = name.size();
}

void rename(PJRT_Executable_OutputMemoryKinds_Args& args) {
  if (options().memory_kinds.empty()) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < args.num_outputs; ++i) {
    names.emplace_back(reported({args.memory_kinds[i], args.memory_kind_sizes[i]}));
  }
  const Kinds& kinds = kept(std::move(names));
  args.memory_kinds = kinds.pointers.data();
  args.memory_kind_sizes = kinds.sizes.data();
}

}  // namespace pjrt_chaos
