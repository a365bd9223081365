#include "base/metrics.h"

#include <memory>
#include <mutex>
#include <stdexcept>

namespace torch_pjrt::base {
namespace {

struct Gauge {
  Counter counter;
};
using Entry = std::variant<Counter, Gauge, Timer>;

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> entries;
};

// Never destroyed: callbacks of a runtime may count while the process exits.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

template <typename Kind>
Kind& find_or_create(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto found = all.entries.find(name);
  if (found == all.entries.end()) {
    auto entry = std::make_unique<Entry>(std::in_place_type<Kind>);
    found = all.entries.emplace(std::string(name), std::move(entry)).first;
  }
  if (Kind* kind = std::get_if<Kind>(found->second.get())) return *kind;
  throw std::logic_error("metric " + std::string(name) +
                         ": the name belongs to a figure of another kind; use another name");
}

}  // namespace

Counter& counter(std::string_view name) { return find_or_create<Counter>(name); }
Counter& gauge(std::string_view name) { return find_or_create<Gauge>(name).counter; }
Timer& timer(std::string_view name) { return find_or_create<Timer>(name); }

std::map<std::string, MetricValue, std::less<>> snapshot() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::map<std::string, MetricValue, std::less<>> result;
  for (const auto& [name, entry] : all.entries) {
    if (const auto* counter = std::get_if<Counter>(entry.get())) {
      result.emplace(name, counter->value());
    } else if (const auto* gauge = std::get_if<Gauge>(entry.get())) {
      result.emplace(name, gauge->counter.value());
    } else {
      result.emplace(name, std::get<Timer>(*entry).value());
    }
  }
  return result;
}

void reset() noexcept {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (const auto& [name, entry] : all.entries) {
    if (auto* counter = std::get_if<Counter>(entry.get())) {
      counter->set(0);
    } else if (auto* timer = std::get_if<Timer>(entry.get())) {
      timer->clear();
    }
  }
}

}  // namespace torch_pjrt::base
