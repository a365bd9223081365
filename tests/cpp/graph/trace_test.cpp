#include "graph/trace.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "graph/executor_test_support.h"
#include "graph/lock.h"

namespace torch_pjrt::graph {
namespace {

using enum pjrt::ElementType;

// Traces never touch a device: leaves without a buffer will do.
Value leaf(Type type = {kF32, {4}}) {
  return {Node::data(SharedBufferPtr(new SharedBuffer(pjrt::Buffer())), std::move(type)), 0};
}

// `held`: what the cells of the roots would hold.
std::unique_ptr<Trace> trace_of(const std::vector<Value>& held, bool donate = false,
                                NumberWidth width = NumberWidth::k64) {
  RecordingLock lock(recording_mutex());
  NumberSharing sharing;
  std::vector<Trace::Root> roots;
  for (const Value& value : held) roots.push_back({value});
  return std::make_unique<Trace>(std::move(roots), width, donate, sharing);
}

// As two threads of one backward pass would record them: now this one first, now that one.
void expect_one_program(std::vector<Value> roots) {
  const auto first = trace_of(roots);
  const std::string text = first->emit();
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(roots.begin(), roots.end(), random);
    const auto other = trace_of(roots);
    EXPECT_EQ(other->key(), first->key());
    EXPECT_EQ(other->emit(), text);
  }
}

TEST(Trace, IsTheSameWhateverTheOrderOfTheRoots) {
  const Value x = leaf(), y = leaf({kF32, {4}}), z = leaf({kF64, {2, 2}});
  std::vector<Value> roots;
  Value chain = record(kAdd, {x, y});
  for (int i = 0; i < 20; ++i) {
    chain = i % 3 ? record(kNegate, {chain}) : Value{record_two(kTwo, chain), 1};
    roots.push_back(record(kAdd, {chain, x}));
    roots.push_back(record(kSubtract, {chain, y}));
  }
  roots.push_back(record(kNegate, {z}));
  expect_one_program(roots);
}

TEST(Trace, TellsRootsOfOneStructureApartByWhatTheyRead) {
  const Value x = leaf(), y = leaf(), z = leaf();
  const Value negated_x = record(kNegate, {x}), negated_y = record(kNegate, {y});
  expect_one_program({negated_x, negated_y, record(kSubtract, {x, y})});
  expect_one_program({record(kAdd, {negated_x, z}), record(kAdd, {negated_y, z}),
                      record(kSubtract, {negated_x, y})});
}

TEST(Trace, TellsRootsApartThatReadOneValueTwiceOrTwo) {
  const Value x = leaf(), y = leaf(), z = leaf();
  expect_one_program({record(kAdd, {x, x}), record(kAdd, {y, z})});
  const Value negated = record(kNegate, {x});
  expect_one_program({record(kAdd, {negated, negated}),
                      record(kAdd, {record(kNegate, {y}), record(kNegate, {y})}),
                      record(kAdd, {record(kNegate, {z}), record(kNegate, {leaf()})})});
}

TEST(Trace, OrdersGroupsOfRootsOfOneStructureAlike) {
  std::vector<Value> roots;
  for (int i = 0; i < 4; ++i) {
    const Value parameter = leaf(), gradient = record(kNegate, {leaf()});
    roots.push_back(record(kAdd, {parameter, gradient}));
    roots.push_back(record(kSubtract, {parameter, gradient}));
    roots.push_back({record_two(kTwo, gradient), 1});
  }
  expect_one_program(roots);
}

TEST(Trace, ComputesASharedValueOnce) {
  const Value x = leaf(), y = record(kNegate, {x});
  EXPECT_EQ(trace_of({y, y, y})->roots().size(), 1u);
  EXPECT_EQ(trace_of({y, y, record(kAdd, {y, y})})->operation_count(), 2u);
}

TEST(Trace, ComputesAllThatIsHeldOfANodeWithSeveralOutputs) {
  NodePtr node = record_two(kTwo, leaf());
  std::vector<Value> cells{{node, 0}};
  EXPECT_EQ(trace_of(cells)->roots().size(), 2u) << "`node` can still be asked for output 1";
  node = {};
  EXPECT_EQ(trace_of(cells)->roots().size(), 1u);
}

TEST(Trace, ReadsOnlyTheOutputsThatItsOperatorsRead) {
  const NodePtr node = record_two(kTwo, leaf());
  std::vector<Value> released;
  node->outputs()[0].buffer = SharedBufferPtr(
      new SharedBuffer(std::make_shared<const Failure>(Failure{pjrt::ErrorCode::kInternal, "no"})));
  node->outputs()[1].buffer = SharedBufferPtr(new SharedBuffer(pjrt::Buffer()));
  node->become_data(released);
  const auto trace = trace_of({record(kNegate, {Value{node, 1}})});
  EXPECT_EQ(trace->leaves().size(), 1u);
  EXPECT_FALSE(trace->has_failures());
}

TEST(Trace, CarriesFailuresToTheirDependentsOnly) {
  const Value sound = leaf();
  const Value lost{Node::data(SharedBufferPtr(new SharedBuffer(std::make_shared<const Failure>(
                                  Failure{pjrt::ErrorCode::kInternal, "lost"}))),
                              Type{kF32, {4}}),
                   0};
  const Value a = record(kNegate, {sound}), b = record(kAdd, {a, lost}), c = record(kNegate, {b});
  const auto trace = trace_of({a, b, c});
  ASSERT_TRUE(trace->has_failures());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(trace->failures()[i] != nullptr, trace->roots()[i] != a);
  }
}

size_t donated(const Trace& trace) {
  return static_cast<size_t>(std::count_if(trace.leaves().begin(), trace.leaves().end(),
                                           [](const Trace::Leaf& leaf) { return leaf.donated; }));
}

TEST(Trace, DonatesWhatNothingElseRefersTo) {
  std::vector<Value> cells{record(kNegate, {leaf()})};
  EXPECT_EQ(donated(*trace_of(cells, true)), 1u);
  EXPECT_EQ(donated(*trace_of(cells, false)), 0u);
  const ProgramKey donating = trace_of(cells, true)->key();
  EXPECT_FALSE(donating == trace_of(cells, false)->key());
}

TEST(Trace, PutsAValueWhereTheOneThatItReplacesWas) {
  std::vector<Value> cells;
  std::vector<uint64_t> homes;
  for (int i = 0; i < 3; ++i) {
    const Value old = leaf();
    homes.push_back(old.node->outputs()[0].buffer->id());
    cells.push_back(record(kNegate, {old}));
    for (int k = 0; k < i; ++k) cells.back() = record(kNegate, {cells.back()});
  }
  auto trace_with = [&](const std::vector<uint64_t>& homes_now) {
    RecordingLock lock(recording_mutex());
    NumberSharing sharing;
    std::vector<Trace::Root> roots;
    for (size_t i = 0; i < cells.size(); ++i) roots.push_back({cells[i], homes_now[i]});
    return std::make_unique<Trace>(std::move(roots), NumberWidth::k64, true, sharing);
  };
  auto trace = trace_with(homes);
  for (const Trace::Leaf& leaf : trace->leaves()) {
    ASSERT_GE(leaf.result, 0);
    const auto home = std::find(homes.begin(), homes.end(), leaf.buffer->id());
    EXPECT_EQ(trace->roots()[static_cast<size_t>(leaf.result)],
              cells[static_cast<size_t>(home - homes.begin())]);
  }
  EXPECT_NE(trace->emit().find("tf.aliasing_output = 2"), std::string::npos);
  const ProgramKey key = trace->key();
  trace.reset();  // what a trace reads is not given to another
  const auto elsewhere = trace_with({homes[1], homes[0], 0});
  EXPECT_FALSE(elsewhere->key() == key);
  EXPECT_NE(elsewhere->emit().find("jax.buffer_donor"), std::string::npos);
}

TEST(Trace, DonatesNothingThatMayBeReadAgain) {
  const Value kept = leaf();
  std::vector<Value> cells{record(kAdd, {kept, leaf()})};
  EXPECT_EQ(donated(*trace_of(cells, true)), 1u) << "`kept` is held here";

  const SharedBufferPtr reader = [&] {
    const Value x = leaf();
    cells = {record(kNegate, {x})};
    return x.node->outputs()[0].buffer;
  }();
  EXPECT_EQ(donated(*trace_of(cells, true)), 0u) << "the buffer is being read";

  const Value intermediate = record(kNegate, {leaf()});
  cells = {record(kNegate, {intermediate})};
  EXPECT_EQ(donated(*trace_of(cells, true)), 0u) << "`intermediate` may be computed again";

  const Value root = record(kNegate, {leaf()});
  cells = {root};
  EXPECT_EQ(donated(*trace_of(cells, true)), 1u) << "a root becomes data, whoever holds it";

  const Value shared = leaf();
  const Value twin{Node::data(shared.node->outputs()[0].buffer, shared.type()), 0};
  cells = {record(kAdd, {shared, twin})};
  EXPECT_EQ(donated(*trace_of(cells, true)), 0u) << "two values share a buffer";
}

TEST(Trace, AnotherNumberIsNotAnotherProgram) {
  auto with = [](const Value& number) { return trace_of({record(kAddNumber, {leaf(), number})}); };
  HostNumber integer{.kind = HostNumber::Kind::kInteger, .integer = 3};
  EXPECT_EQ(with(real_number(1))->key(), with(real_number(2.5))->key());
  EXPECT_FALSE(with(real_number(1))->key() == with({Node::number(integer, kF32), 0})->key());
  EXPECT_NE(with(real_number(1))->pack_numbers(), with(real_number(2.5))->pack_numbers());
}

TEST(Trace, NarrowNumbersKeepTheMagnitudeOfLargeIntegers) {
  HostNumber integer{.kind = HostNumber::Kind::kInteger, .integer = int64_t{1} << 40};
  const auto trace = trace_of({record(kAddNumber, {leaf(), {Node::number(integer, kF32), 0}})},
                              false, NumberWidth::k32);
  float packed = 0;
  const std::string bytes = trace->pack_numbers();
  ASSERT_EQ(bytes.size(), 4u);
  std::memcpy(&packed, bytes.data(), 4);
  EXPECT_EQ(packed, 1099511627776.0f);
}

// Operators of one name in two places, as a template over the emission would make them.
constexpr Operator kSameName{"test::negate",
                             [](Emission& e) { e.result(e.builder().abs(e.operand(0))); }};

TEST(Trace, TheKeyTellsOperatorsOfOneNameApart) {
  const Value x = leaf();
  EXPECT_FALSE(trace_of({record(kNegate, {x})})->key() ==
               trace_of({record(kSameName, {x})})->key());
}

constexpr Operator kSlice{
    "test::slice", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const int64_t start = e.attributes.integer();
      e.result(b.concatenate(
          {b.slice_dim(e.operand(0), 0, start, 4), b.slice_dim(e.operand(0), 0, 0, start)}, 0));
    }};

// Random small graphs: programs have the same key just when they have the same text.
TEST(Trace, TheKeyStandsForTheText) {
  std::mt19937 random(7);
  std::map<std::pair<uint64_t, uint64_t>, std::string> texts;
  std::map<std::string, std::pair<uint64_t, uint64_t>> keys;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Value> values{leaf(), leaf()};
    if (random() % 4 == 0) values.push_back(leaf());
    auto pick = [&] { return values[random() % values.size()]; };
    const size_t count = 1 + random() % 3;
    for (size_t i = 0; i < count; ++i) {
      switch (random() % 5) {
        case 0:
          values.push_back(record(kAdd, {pick(), pick()}));
          break;
        case 1:
          values.push_back(record(kNegate, {pick()}));
          break;
        case 2:
          values.push_back({record_two(kTwo, pick()), static_cast<uint32_t>(random() % 2)});
          break;
        case 3: {
          const Value x = pick();
          values.push_back(
              {Node::operation(kSlice, {&x, 1}, Attributes::of(static_cast<int64_t>(random() % 3)),
                               x.type()),
               0});
          break;
        }
        case 4: {
          HostNumber number;
          number.kind = random() % 2 ? HostNumber::Kind::kInteger : HostNumber::Kind::kReal;
          values.push_back(record(kAddNumber, {pick(), {Node::number(number, kF32), 0}}));
          break;
        }
      }
    }
    std::vector<Value> roots;
    for (const Value& value : values) {
      if (value.node->is_operation() && random() % 2) roots.push_back(value);
    }
    if (roots.empty()) continue;
    values.clear();
    const auto trace = trace_of(roots, random() % 2);
    const std::pair key{trace->key().low, trace->key().high};
    const std::string text = trace->emit();
    const auto same_key = texts.try_emplace(key, text).first;
    ASSERT_EQ(same_key->second, text) << "one key, two programs";
    const auto same_text = keys.try_emplace(text, key).first;
    EXPECT_EQ(same_text->second, key) << "one program, two keys:\n" << text;
  }
  EXPECT_GT(texts.size(), 300u);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of_a_chain(size_t length) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    Value x = leaf({kF32, {2}});
    for (size_t n = 0; n < length; ++n) x = record(kNegate, {x});
    const double start = cpu_seconds();
    std::vector<Value> roots{std::move(x)};
    auto trace = trace_of(roots, true);
    EXPECT_EQ(trace->operation_count(), length);
    EXPECT_GT(trace->emit().size(), length);
    trace.reset();
    roots.clear();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

TEST(Trace, DeepGraphsTakeLinearTimeAndNoStack) {
  const double eighth = seconds_of_a_chain(30000 / 8), whole = seconds_of_a_chain(30000);
  EXPECT_LT(whole, 32 * eighth) << "8 times as long is linear, 64 times quadratic";
}

}  // namespace
}  // namespace torch_pjrt::graph
