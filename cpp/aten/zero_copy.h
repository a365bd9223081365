#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace torch_pjrt::aten {

// Whether copies to a device should share the source's memory: the calling thread's choice, else
// the process's (Config::zero_copy), else what was chosen when the graph was recorded that is
// running backward on this thread.
bool zero_copy_wanted();

// How the calling thread shares what it moves between devices, apart from that: what a compiled
// graph knows of its own values.
enum class Border : uint8_t {
  kAsWanted,     // as zero_copy_wanted() says
  kCopyOnWrite,  // shared where it can be
  kUnprotected,  // shared where it can be: nobody writes either side
  kBorrowed,     // into xla as an explicit alias, as DLPack has it: whoever owns it may write it
};
Border border() noexcept;

// For a scope.
class AtBorder {
 public:
  explicit AtBorder(Border border) noexcept;
  ~AtBorder();
  AtBorder(const AtBorder&) = delete;
  AtBorder& operator=(const AtBorder&) = delete;

 private:
  Border before_;
};

// The calling thread's choice; empty: none. Returns the choice before.
std::optional<bool> choose_zero_copy(std::optional<bool> choice);

// From now on a copy from xla that is recorded for backward remembers whether zero copy was
// wanted, for the gradient's way back. Costs each such copy part of a microsecond, so it is called
// at the first choice only.
void remember_zero_copy_on_graphs();

// Remembers that it was wanted for the backward pass of the function that returned the tensor.
void remember_zero_copy(const at::Tensor& result);

}  // namespace torch_pjrt::aten
