#include "aten/dtype_policy.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>

#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>

#include "aten/types.h"
#include "graph/held_element.h"
#include "graph/runtime.h"

namespace torch_pjrt::aten {
namespace {

using c10::ScalarType;
using pjrt::ElementType;

struct Kin {
  ScalarType wide, narrow;
  ElementType wide_element, narrow_element;
};
constexpr std::array<Kin, 4> kKin{{
    {ScalarType::Double, ScalarType::Float, ElementType::kF64, ElementType::kF32},
    {ScalarType::Long, ScalarType::Int, ElementType::kS64, ElementType::kS32},
    {ScalarType::UInt64, ScalarType::UInt32, ElementType::kU64, ElementType::kU32},
    {ScalarType::ComplexDouble, ScalarType::ComplexFloat, ElementType::kC128, ElementType::kC64},
}};

std::optional<size_t> kin_of(ScalarType dtype) noexcept {
  for (size_t i = 0; i < kKin.size(); ++i) {
    if (kKin[i].wide == dtype) return i;
  }
  return std::nullopt;
}

// How the device holds each of kKin.
enum Held : uint8_t { kUnknown, kAsItIs, kNarrower, kNeither };

struct State {
  std::mutex mutex;
  std::array<std::atomic<Held>, kKin.size()> held{};
  std::atomic<bool> narrows{false};
  std::atomic<DtypePolicy> policy{DtypePolicy::kNarrow};
  std::atomic<bool> check{false};
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

void find_out() {
  const pjrt::Client& client = *graph::runtime::client();
  State& state = aten::state();
  std::lock_guard lock(state.mutex);
  for (size_t i = 0; i < kKin.size(); ++i) {
    Held held = kNeither;
    if (client.supports(kKin[i].wide_element)) {
      held = kAsItIs;
    } else if (client.supports(kKin[i].narrow_element)) {
      held = kNarrower;
    }
    state.held[i] = held;
    if (held == kNarrower) state.narrows = true;
  }
  graph::wide_elements().has_f64 = state.held[0] == kAsItIs;
  graph::wide_elements().has_s64 = state.held[1] == kAsItIs;
}

Held held_of(size_t kin) {
  Held held = state().held[kin].load(std::memory_order_relaxed);
  if (held == kUnknown) [[unlikely]] {
    find_out();
    held = state().held[kin].load();
  }
  return held;
}

[[noreturn]] void refuse(const Kin& kin, bool has_narrower) {
  TORCH_CHECK_TYPE(
      false, "use dtype ", kin.wide, " on device xla: the device does not have it",
      has_narrower ? " and torch_pjrt.config.dtype_policy is 'strict'" : "", "; got ", kin.wide,
      ", expected one of the dtypes that `python -m torch_pjrt "
      "info` lists; convert the tensor, or keep it on cpu",
      has_narrower ? ", or set the policy to 'narrow', which holds it in fewer bits" : "");
}

}  // namespace

ScalarType held_dtype(ScalarType dtype) {
  const auto kin = kin_of(dtype);
  if (!kin) return dtype;
  switch (held_of(*kin)) {
    case kAsItIs:
      return dtype;
    case kNarrower:
      if (dtype_policy() == DtypePolicy::kNarrow) return kKin[*kin].narrow;
      refuse(kKin[*kin], true);
    default:
      refuse(kKin[*kin], false);
  }
}

ElementType stored_type(ScalarType dtype) {
  return dtype == ScalarType::ComplexHalf ? ElementType::kU32 : element_type(dtype);
}

bool narrows_any() noexcept { return state().narrows.load(std::memory_order_relaxed); }

std::vector<std::pair<ScalarType, ScalarType>> held_dtypes() {
  std::vector<std::pair<ScalarType, ScalarType>> result;
  for (size_t i = 0; i < kKin.size(); ++i) {
    const Held held = held_of(i);
    if (held == kAsItIs) result.emplace_back(kKin[i].wide, kKin[i].wide);
    if (held == kNarrower) result.emplace_back(kKin[i].wide, kKin[i].narrow);
  }
  return result;
}

void set_dtype_policy(DtypePolicy policy) { state().policy = policy; }
DtypePolicy dtype_policy() noexcept { return state().policy.load(std::memory_order_relaxed); }

void set_check_narrowing(bool check) noexcept { state().check = check; }
bool check_narrowing() noexcept { return state().check.load(std::memory_order_relaxed); }

void check_fits(const at::Tensor& tensor, ScalarType held) {
  bool fits = true;
  if (c10::isIntegralType(tensor.scalar_type(), false)) {
    if (tensor.scalar_type() == ScalarType::UInt64) {
      fits = !tensor.view(ScalarType::Long).__rshift__(32).ne(0).any().item().toBool();
    } else {
      const auto [least, most] = tensor.aminmax();
      fits = least.item().toLong() >= std::numeric_limits<int32_t>::min() &&
             most.item().toLong() <= std::numeric_limits<int32_t>::max();
    }
  } else {
    const at::Tensor lost =
        at::isfinite(tensor).logical_and(at::isfinite(tensor.to(held)).logical_not());
    fits = !lost.any().item().toBool();
  }
  TORCH_CHECK_VALUE(fits, "copy a ", tensor.scalar_type(),
                    " tensor to device xla: the device holds it as ", held,
                    ", and it has a value out of that range; got values beyond it, expected "
                    "none; scale the tensor, keep it on cpu, or set "
                    "torch_pjrt.config.check_narrowing to False");
}

}  // namespace torch_pjrt::aten
