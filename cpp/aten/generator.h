#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <mutex>

namespace torch_pjrt::aten {

// A counter-based random stream, as CUDA's: a seed and an offset. Each random operator takes the
// next offsets, and its program computes the numbers from (seed, offset) alone, so that the stream
// is the same in every execution mode.
class XlaGenerator final : public c10::GeneratorImpl {
 public:
  struct Place {
    uint64_t seed;
    uint64_t offset;
  };

  explicit XlaGenerator(c10::DeviceIndex index);

  // Takes the next `count` 32-bit words of the stream (rounded up to a whole number of blocks).
  Place take(uint64_t count);
  // The same in blocks, in which the offset counts.
  Place take_blocks(uint64_t count);

  // Blocks that the calling thread has taken so far, of all generators.
  static uint64_t taken_by_this_thread() noexcept;

  // What the next `take` returns.
  Place place() const;

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;  // a fresh seed from the system
  // 16 bytes: seed and offset, native byte order.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  XlaGenerator* clone_impl() const override;

  mutable std::mutex place_mutex_;
  Place place_;
};

// The default generator of a device.
const at::Generator& default_generator(int index);

// The given generator, or the device's default; throws for one of another device type.
XlaGenerator& generator_or_default(const std::optional<at::Generator>& generator, int index);

}  // namespace torch_pjrt::aten
