#include "aten/loaded_program.h"

#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "aten/tensor.h"
#include "aten/upload.h"

namespace torch_pjrt::aten {
namespace {

// Failed checks may be told after the program is gone, so that operators are kept for good: one for
// each name.
const graph::Operator* operator_named(const std::string& name) {
  struct Named {
    explicit Named(const std::string& text) : name(text), op(name, nullptr) {}
    std::string name;
    graph::Operator op;
  };
  static std::mutex mutex;
  static auto* const all = new std::deque<Named>;
  std::lock_guard lock(mutex);
  for (const Named& known : *all) {
    if (known.name == name) return &known.op;
  }
  return &all->emplace_back(name).op;
}

}  // namespace

LoadedProgram::LoadedProgram(graph::Executor& executor, const Description& description)
    : executor_(executor),
      results_(description.results),
      executable_(executor.programs().compile(description.text)) {
  if (!description.numbers.empty()) {
    const auto width = static_cast<size_t>(executor.number_width());
    if (width != description.number_bytes) {
      throw pjrt::Error(pjrt::ErrorCode::kFailedPrecondition, "load a program",
                        "it reads numbers of another width than the device's; got " +
                            std::to_string(description.number_bytes) + " bytes, expected " +
                            std::to_string(width) + "; export it on a device of this kind");
    }
    numbers_ = graph::SharedBufferPtr(
        new graph::SharedBuffer(executor.upload_numbers(description.numbers)));
  }
  for (const std::string& name : description.checked) checked_.push_back(operator_named(name));
}

std::vector<at::Tensor> LoadedProgram::run(const std::vector<at::Tensor>& parameters) const {
  std::vector<graph::SharedBufferPtr> inputs;
  inputs.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    inputs.push_back(executor_.buffer(value_of(parameter, executor_)));
  }
  std::vector<pjrt::Buffer> outputs;
  {
    const graph::Executor::Turn turn(executor_);
    executor_.launch(turn,
                     {.executable = *executable_,
                      .inputs = inputs,
                      .numbers = {},
                      .uploaded = numbers_.get(),
                      .operations = 1},
                     outputs);
  }
  std::vector<at::Tensor> results(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph::SharedBufferPtr buffer(new graph::SharedBuffer(std::move(outputs[i])));
    if (results_.at(i) == c10::ScalarType::Undefined) {
      executor_.keep_checks(std::move(buffer), checked_);
      continue;
    }
    graph::Type type{buffer->buffer.element_type(), graph::Dimensions(buffer->buffer.dimensions())};
    const at::DimVector sizes(type.dimensions.begin(), type.dimensions.end());
    graph::Value value{graph::Node::data(std::move(buffer), std::move(type)), 0};
    results[i] = uploaded_tensor(executor_, std::move(value), results_[i], sizes, {});
  }
  return results;
}

}  // namespace torch_pjrt::aten
