#include "aten/variants.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/Resize.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/cpu_fallback.h"
#include "aten/layout.h"

namespace torch_pjrt::aten {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

void store(const at::Tensor& target, const at::Tensor& result, bool is_out) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), target.scalar_type()), "result type ",
              result.scalar_type(), " can't be cast to the desired output type ",
              target.scalar_type());
  if (is_out) {
    at::native::resize_output(target, result.sizes());
  } else {
    check_output_sizes(target, result.sizes());
  }
  target.copy_(result);
}

// Operators that read their inputs while they write `out`, and so refuse to share elements at all.
bool shares_nothing(const OperatorHandle& op) {
  static const std::unordered_set<std::string> names{"aten::cat",          "aten::gather",
                                                     "aten::index_select", "aten::kthvalue",
                                                     "aten::linalg_cross", "aten::take"};
  return names.contains(op.operator_name().name);
}

// Whether the CPU refuses a target that an input sees a part of. Where it does not, reductions and
// factorisations have their results before they write.
bool refuses_partial_overlap(const OperatorHandle& op, bool is_out) {
  static const std::unordered_set<std::string> names{
      "aten::cumsum",  "aten::cumprod",     "aten::logcumsumexp",   "aten::renorm",
      "aten::scatter", "aten::scatter_add", "aten::scatter_reduce", "aten::sort",
      "aten::where",   "aten::index_copy",  "aten::index_add",      "aten::index_reduce"};
  return !is_out || op.hasTag(at::Tag::pointwise) || names.contains(op.operator_name().name);
}

void check_overlaps(const OperatorHandle& op, const std::vector<at::Tensor>& targets,
                    const Stack& inputs, bool is_out) {
  const bool none = is_out && shares_nothing(op);
  if (!none && !refuses_partial_overlap(op, is_out)) return;
  const auto check = [&](const at::Tensor& input) {
    if (!input.defined() || !input.device().is_xla()) return;
    for (const at::Tensor& target : targets) {
      if (!target.device().is_xla()) continue;
      none ? at::assert_no_overlap(target, input) : at::assert_no_partial_overlap(target, input);
    }
  };
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) {
      check(input.toTensor());
    } else if (input.isTensorList()) {
      for (const at::Tensor& part : input.toTensorVector()) check(part);
    }
  }
}

void call_twin(const OperatorHandle& op, const OperatorHandle& twin, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const bool is_out = op.schema().arguments().back().is_out();
  std::vector<c10::IValue> inputs = torch::jit::pop(*stack, arguments.size());
  Stack call;
  std::vector<at::Tensor> targets;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i])) targets.push_back(inputs[i].toTensor());
    if (!arguments[i].is_out()) call.push_back(inputs[i]);
  }
  check_overlaps(op, targets, call, is_out);
  twin.callBoxed(call);
  for (size_t i = 0; i < targets.size(); ++i) {
    store(targets[i], call[i].toTensor(), is_out);
    torch::jit::push(*stack, targets[i]);
  }
}

bool all_tensors(const std::vector<c10::Argument>& arguments) {
  for (const c10::Argument& argument : arguments) {
    if (argument.type()->kind() != c10::TypeKind::TensorType) return false;
  }
  return true;
}

// Same arguments (outs apart), and as many tensor results as the variant writes.
bool is_twin(const c10::FunctionSchema& variant, const c10::FunctionSchema& functional) {
  if (!all_tensors(functional.returns()) || !all_tensors(variant.returns())) return false;
  size_t written = 0, inputs = 0;
  for (const c10::Argument& argument : variant.arguments()) {
    if (is_written(argument)) {
      if (argument.type()->kind() != c10::TypeKind::TensorType) return false;
      ++written;
    }
    if (argument.is_out()) continue;
    if (inputs >= functional.arguments().size()) return false;
    const c10::Argument& twin = functional.arguments()[inputs++];
    if (*twin.type() != *argument.type() || twin.name() != argument.name() || is_written(twin)) {
      return false;
    }
  }
  return inputs == functional.arguments().size() && written == functional.returns().size() &&
         written == variant.returns().size();
}

// Every overload by base name: `add.out` belongs to `add.Tensor`, `max.dim_max` to `max.dim`.
const std::vector<c10::OperatorName>& overloads_of(const std::string& name) {
  static const auto* overloads = [] {
    auto* map = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
      (*map)[op.name].push_back(op);
    }
    return map;
  }();
  static const std::vector<c10::OperatorName> none;
  const auto found = overloads->find(name);
  return found == overloads->end() ? none : found->second;
}

std::optional<OperatorHandle> find_twin(const OperatorHandle& variant) {
  const c10::OperatorName& name = variant.operator_name();
  const auto& arguments = variant.schema().arguments();
  if (arguments.empty() || variant.schema().is_vararg() || variant.hasTag(at::Tag::inplace_view)) {
    return std::nullopt;
  }
  std::vector<c10::OperatorName> candidates;
  if (arguments.back().is_out()) {
    candidates = overloads_of(name.name);
  } else if (is_written(arguments.front()) && name.name.ends_with('_') &&
             !name.name.ends_with("__")) {
    candidates.emplace_back(name.name.substr(0, name.name.size() - 1), name.overload_name);
  }
  for (const c10::OperatorName& candidate : candidates) {
    if (candidate == name) continue;
    const auto twin = c10::Dispatcher::singleton().findSchema(candidate);
    if (twin && is_twin(variant.schema(), twin->schema())) return twin;
  }
  return std::nullopt;
}

}  // namespace

std::optional<OperatorHandle> functional_twin(const OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, std::optional<OperatorHandle>> twins;
  std::lock_guard lock(mutex);
  const auto found = twins.find(op.operator_name());
  if (found != twins.end()) return found->second;
  return twins.emplace(op.operator_name(), find_twin(op)).first->second;
}

void call_functional_twin(const OperatorHandle& op, Stack* stack) {
  check_same_device(op, *stack);
  call_twin(op, *functional_twin(op), stack);
}

}  // namespace torch_pjrt::aten
