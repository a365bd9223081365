#include "aten/variants.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <unordered_map>
#include <vector>

#include "aten/fallback.h"

namespace torch_pjrt::aten {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// By variant: the functional operator that computes it.
std::unordered_map<c10::OperatorName, OperatorHandle>& functional_twins() {
  static std::unordered_map<c10::OperatorName, OperatorHandle> twins;
  return twins;
}

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
    TORCH_CHECK(target.sizes() == result.sizes(), "output with shape ", target.sizes(),
                " doesn't match the broadcast shape ", result.sizes());
  }
  target.copy_(result);
}

// An in-place variant returns the written argument, an out variant its out arguments in order.
void call_functional(const OperatorHandle& op, Stack* stack) {
  check_same_device(op, *stack);
  const OperatorHandle& twin = functional_twins().at(op.operator_name());
  const auto& arguments = op.schema().arguments();
  const bool is_out = op.schema().arguments().back().is_out();
  std::vector<c10::IValue> inputs = torch::jit::pop(*stack, arguments.size());
  Stack call;
  std::vector<at::Tensor> targets;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i])) targets.push_back(inputs[i].toTensor());
    if (!arguments[i].is_out()) call.push_back(inputs[i]);
  }
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

using Overloads = std::unordered_map<std::string, std::vector<c10::OperatorName>>;

std::optional<OperatorHandle> find_twin(const OperatorHandle& variant,
                                        const Overloads& overloads) {
  const c10::OperatorName& name = variant.operator_name();
  const bool in_place = name.name.back() == '_' && name.name.substr(name.name.size() - 2) != "__";
  std::vector<c10::OperatorName> candidates;
  if (in_place) {
    candidates.emplace_back(name.name.substr(0, name.name.size() - 1), name.overload_name);
  } else {
    // `add.out` belongs to `add.Tensor`, `max.dim_max` to `max.dim`: look at every overload.
    candidates = overloads.at(name.name);
  }
  for (const c10::OperatorName& candidate : candidates) {
    auto twin = c10::Dispatcher::singleton().findSchema(candidate);
    if (twin && is_twin(variant.schema(), twin->schema())) return twin;
  }
  return std::nullopt;
}

bool has_device_kernel(const OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::XLA) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

}  // namespace

void register_variants() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::XLA, __FILE__,
                                __LINE__);
  const std::vector<c10::OperatorName> names = c10::Dispatcher::singleton().getAllOpNames();
  Overloads overloads;
  for (const c10::OperatorName& name : names) overloads[name.name].push_back(name);
  for (const c10::OperatorName& name : names) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || has_device_kernel(*op) || op->hasTag(at::Tag::inplace_view)) continue;
    const auto& arguments = op->schema().arguments();
    if (arguments.empty() || op->schema().returns().empty()) continue;
    const bool in_place = is_written(arguments.front());
    if (!in_place && !arguments.back().is_out()) continue;
    if (op->schema().is_vararg()) continue;
    const auto twin = find_twin(*op, overloads);
    if (!twin || !has_device_kernel(*twin)) continue;
    functional_twins().emplace(name, *twin);
    std::string overload = name.name;
    if (!name.overload_name.empty()) overload += "." + name.overload_name;
    library.impl(overload.c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&call_functional>());
  }
}

}  // namespace torch_pjrt::aten
