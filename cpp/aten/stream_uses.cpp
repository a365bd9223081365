#include "aten/stream_uses.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace torch_pjrt::aten {
namespace {

struct Registry {
  std::mutex mutex;  // a leaf lock, also for the streams of every object
  std::unordered_multimap<const void*, StreamUses*> by_address;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

void erase(Registry& all, const void* address, const StreamUses* uses) noexcept {
  auto [at, end] = all.by_address.equal_range(address);
  const auto found = std::find_if(at, end, [&](const auto& entry) { return entry.second == uses; });
  if (found != end) all.by_address.erase(found);
}

}  // namespace

StreamUses::StreamUses(const void* address, const c10::Stream& first)
    : address_(address), streams_{first} {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.by_address.emplace(address, this);
}

StreamUses::~StreamUses() { finish(); }

std::vector<c10::Stream> StreamUses::finish() noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  erase(all, address_, this);
  return std::exchange(streams_, {});
}

void StreamUses::record(const void* address, const c10::Stream& stream) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (auto [at, end] = all.by_address.equal_range(address); at != end; ++at) {
    std::vector<c10::Stream>& streams = at->second->streams_;
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  }
}

}  // namespace torch_pjrt::aten
