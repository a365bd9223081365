#include "aten/zero_copy.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <utility>

#include "aten/config.h"

namespace torch_pjrt::aten {
namespace {

thread_local std::optional<bool> thread_choice;
thread_local Border thread_border = Border::kAsWanted;

// On the graph's node of a copy from xla whose gradient shall come back without one.
struct ZeroCopyMark final : torch::autograd::FunctionPreHook {
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    return gradients;
  }
};

bool is_marked(torch::autograd::Node& node) {
  for (const auto& hook : node.pre_hooks()) {
    if (dynamic_cast<ZeroCopyMark*>(hook.get())) return true;
  }
  return false;
}

// PyTorch's own kernel of aten::_to_copy for autograd, then the mark.
void to_copy_and_mark(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  static const auto& stock =
      *new auto(op.getComputedKernelForDispatchKey(c10::DispatchKey::AutogradCPU));
  stock.callBoxed(op, keys, stack);
  const at::Tensor& result = stack->back().toTensor();
  if (result.is_xla() || !result.requires_grad() || !zero_copy_wanted()) return;
  remember_zero_copy(result);
}

}  // namespace

bool zero_copy_wanted() {
  if (thread_border != Border::kAsWanted) return true;
  if (thread_choice) return *thread_choice;
  if (config().zero_copy) return true;
  const auto node = torch::autograd::get_current_node();
  return node && is_marked(*node);
}

Border border() noexcept { return thread_border; }

AtBorder::AtBorder(Border border) noexcept : before_(std::exchange(thread_border, border)) {}

AtBorder::~AtBorder() { thread_border = before_; }

void remember_zero_copy(const at::Tensor& result) {
  if (const auto& node = result.grad_fn(); node && !is_marked(*node)) {
    node->add_pre_hook(std::make_unique<ZeroCopyMark>());
  }
}

std::optional<bool> choose_zero_copy(std::optional<bool> choice) {
  return std::exchange(thread_choice, choice);
}

void remember_zero_copy_on_graphs() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Of the two devices of a copy PyTorch asks the one that it lists last.
    for (const auto key : {c10::DispatchKey::AutogradXLA, c10::DispatchKey::AutogradXPU,
                           c10::DispatchKey::AutogradPrivateUse1}) {
      auto* const library =
          new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      library->impl("_to_copy", torch::CppFunction::makeFromBoxedFunction<&to_copy_and_mark>());
    }
  });
}

}  // namespace torch_pjrt::aten
