#include "graph/number_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace torch_pjrt::graph {
namespace {

constexpr ProgramKey kStructure{1, 2};

// Numbers 0 1 2 ... period-1 0 1 ...
std::vector<NumberBits> repeating(size_t count, size_t period) {
  std::vector<NumberBits> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back({0, i % period, 0});
  return numbers;
}

size_t place_count(const std::vector<uint32_t>& places) {
  return *std::max_element(places.begin(), places.end()) + 1;
}

TEST(NumberSharing, EqualNumbersShareAPlace) {
  NumberSharing sharing;
  const auto places = sharing.places(kStructure, repeating(60, 3));
  EXPECT_EQ(place_count(places), 3u);
  for (size_t i = 3; i < places.size(); ++i) EXPECT_EQ(places[i], places[i - 3]);
}

TEST(NumberSharing, NumbersOfDifferentKindsDoNot) {
  auto numbers = repeating(60, 1);
  numbers[7].kind = 1;
  EXPECT_EQ(place_count(NumberSharing().places(kStructure, numbers)), 2u);
}

TEST(NumberSharing, FewNumbersHaveAPlaceEach) {
  NumberSharing sharing;
  EXPECT_EQ(place_count(sharing.places(kStructure, repeating(31, 1))), 31u);
  EXPECT_TRUE(sharing.places(kStructure, {}).empty());
}

TEST(NumberSharing, OtherNumbersAreNotAnotherProgram) {
  NumberSharing sharing;
  auto numbers = repeating(60, 3);
  const auto places = sharing.places(kStructure, numbers);
  for (NumberBits& number : numbers) number.low = 100 + number.low * number.low;
  EXPECT_EQ(sharing.places(kStructure, numbers), places);
}

TEST(NumberSharing, NumbersThatPartAreParted) {
  NumberSharing sharing;
  auto numbers = repeating(60, 3);
  sharing.places(kStructure, numbers);
  numbers[30].low = 100;
  const auto parted = sharing.places(kStructure, numbers);
  EXPECT_EQ(place_count(parted), 4u);
  EXPECT_EQ(sharing.places(kStructure, repeating(60, 3)), parted) << "equal again: as it is";
}

TEST(NumberSharing, NumbersThatPartAtEveryExecutionEndInAPlaceEach) {
  NumberSharing sharing;
  std::vector<std::vector<uint32_t>> programs;
  for (size_t i = 0; i < 20; ++i) {
    auto numbers = repeating(60, 2);
    for (size_t k = 0; k < i; ++k) numbers[k * 3].low = 1000 + k;
    programs.push_back(sharing.places(kStructure, numbers));
  }
  EXPECT_EQ(place_count(programs.back()), 60u);
  programs.erase(std::unique(programs.begin(), programs.end()), programs.end());
  EXPECT_LE(programs.size(), static_cast<size_t>(NumberSharing::kMostPrograms));
}

}  // namespace
}  // namespace torch_pjrt::graph
