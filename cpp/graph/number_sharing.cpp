#include "graph/number_sharing.h"

#include <numeric>

namespace torch_pjrt::graph {
namespace {

std::vector<uint32_t> one_each(size_t count) {
  std::vector<uint32_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  return places;
}

struct Group {
  NumberBits number;
  uint32_t before = 0;
  friend bool operator==(const Group&, const Group&) noexcept = default;
};
struct GroupHash {
  size_t operator()(const Group& group) const noexcept {
    const NumberBits& n = group.number;
    return (n.low * 0x9e3779b97f4a7c15ull ^ n.high ^ n.kind << 32) + group.before;
  }
};

// Numbers share a place if they are equal and shared one in `before` (empty: all did).
std::vector<uint32_t> by_value(std::span<const NumberBits> numbers,
                               std::span<const uint32_t> before) {
  std::unordered_map<Group, uint32_t, GroupHash> groups;
  std::vector<uint32_t> places;
  places.reserve(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Group group{numbers[i], before.empty() ? 0 : before[i]};
    places.push_back(groups.try_emplace(group, static_cast<uint32_t>(groups.size())).first->second);
  }
  return places;
}

bool equal_where_shared(std::span<const NumberBits> numbers, std::span<const uint32_t> places) {
  std::vector<const NumberBits*> first(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const NumberBits*& number = first[places[i]];
    if (!number) number = &numbers[i];
    if (!(*number == numbers[i])) return false;
  }
  return true;
}

}  // namespace

std::vector<uint32_t> NumberSharing::places(const ProgramKey& structure,
                                            std::span<const NumberBits> numbers) {
  if (numbers.size() < kFewestNumbers) return one_each(numbers.size());
  const auto [entry, is_new] = known_.try_emplace(structure);
  Known& known = entry->second;
  if (is_new) {
    known.places = by_value(numbers, {});
  } else if (!equal_where_shared(numbers, known.places)) {
    known.places = ++known.programs < kMostPrograms ? by_value(numbers, known.places)
                                                    : one_each(numbers.size());
  }
  return known.places;
}

}  // namespace torch_pjrt::graph
