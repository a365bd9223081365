#include "aten/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <memory>

namespace torch_pjrt::aten {
namespace {

constexpr uint64_t kWordsPerBlock = 4;
constexpr size_t kStateBytes = 16;
constexpr size_t kMostDevices = 128;

thread_local uint64_t taken_blocks = 0;

}  // namespace

XlaGenerator::XlaGenerator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::kXLA, index), c10::DispatchKeySet(c10::DispatchKey::XLA)),
      place_{c10::default_rng_seed_val, 0} {}

XlaGenerator::Place XlaGenerator::take(uint64_t count) {
  return take_blocks((count + kWordsPerBlock - 1) / kWordsPerBlock);
}

XlaGenerator::Place XlaGenerator::take_blocks(uint64_t count) {
  std::lock_guard lock(place_mutex_);
  const Place place = place_;
  place_.offset += count;
  taken_blocks += count;
  return place;
}

uint64_t XlaGenerator::taken_by_this_thread() noexcept { return taken_blocks; }

XlaGenerator::Place XlaGenerator::place() const {
  std::lock_guard lock(place_mutex_);
  return place_;
}

void XlaGenerator::set_current_seed(uint64_t seed) {
  std::lock_guard lock(place_mutex_);
  place_ = {seed, 0};
}

void XlaGenerator::set_offset(uint64_t offset) {
  std::lock_guard lock(place_mutex_);
  place_.offset = offset;
}

uint64_t XlaGenerator::get_offset() const {
  std::lock_guard lock(place_mutex_);
  return place_.offset;
}

uint64_t XlaGenerator::current_seed() const {
  std::lock_guard lock(place_mutex_);
  return place_.seed;
}

uint64_t XlaGenerator::seed() {
  const uint64_t fresh = c10::detail::getNonDeterministicRandom();
  set_current_seed(fresh);
  return fresh;
}

void XlaGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK_TYPE(state.device().is_cpu() && state.dtype() == at::kByte,
                   "RNG state must be a torch.ByteTensor");
  TORCH_CHECK(state.numel() == kStateBytes && state.is_contiguous(),
              "set the RNG state of device xla: wrong size; got ", state.numel(),
              " bytes, expected ", kStateBytes, "; pass what get_rng_state returned");
  std::lock_guard lock(place_mutex_);
  std::memcpy(&place_, state.data(), kStateBytes);
}

c10::intrusive_ptr<c10::TensorImpl> XlaGenerator::get_state() const {
  static_assert(sizeof(Place) == kStateBytes);
  at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)}, at::kByte);
  std::lock_guard lock(place_mutex_);
  std::memcpy(state.mutable_data_ptr(), &place_, kStateBytes);
  return state.getIntrusivePtr();
}

XlaGenerator* XlaGenerator::clone_impl() const {
  auto* copy = new XlaGenerator(device().index());
  std::lock_guard lock(place_mutex_);
  copy->place_ = place_;
  return copy;
}

const at::Generator& default_generator(int index) {
  static std::mutex mutex;
  static std::array<at::Generator, kMostDevices> generators;
  TORCH_CHECK(index >= 0 && index < static_cast<int>(kMostDevices),
              "get the generator of device xla:", index, ": there is no such device");
  std::lock_guard lock(mutex);
  at::Generator& generator = generators[static_cast<size_t>(index)];
  if (!generator.defined()) {
    generator = at::make_generator<XlaGenerator>(static_cast<c10::DeviceIndex>(index));
  }
  return generator;
}

XlaGenerator& generator_or_default(const std::optional<at::Generator>& generator, int index) {
  const at::Generator& chosen =
      generator.has_value() && generator->defined() ? *generator : default_generator(index);
  TORCH_CHECK(chosen.device().type() == c10::kXLA, "Expected a 'xla' device type for generator ",
              "but found '", chosen.device().type(), "'");
  return *static_cast<XlaGenerator*>(chosen.unsafeGetGeneratorImpl());
}

}  // namespace torch_pjrt::aten
