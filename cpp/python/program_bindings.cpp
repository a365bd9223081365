#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "aten/device.h"
#include "aten/errors.h"
#include "aten/loaded_program.h"
#include "aten/replay.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

using aten::Replay;

py::dict dict_of(const Replay::View& view) {
  py::dict shown;
  shown["dtype"] = py::cast(view.dtype);
  shown["sizes"] = py::tuple(py::cast(std::vector<int64_t>(view.sizes.begin(), view.sizes.end())));
  shown["strides"] =
      py::tuple(py::cast(std::vector<int64_t>(view.strides.begin(), view.strides.end())));
  shown["offset"] = view.offset;
  return shown;
}

// The argument through which the program reads a storage.
size_t argument_with(const Replay::Description& program, size_t storage) {
  const auto found =
      std::find_if(program.arguments.begin(), program.arguments.end(),
                   [&](const auto& key) { return key.storage == static_cast<int32_t>(storage); });
  return static_cast<size_t>(found - program.arguments.begin());
}

// What a new tensor shows: a result of the program, what an argument held, or nothing defined.
py::dict described(const Replay::Description& program, const Replay::Result& result) {
  py::dict view = dict_of(result.view);
  const Replay::Source& source = program.new_storages[result.index].source;
  if (source.kind == Replay::Source::Kind::kRoot) {
    view["root"] = source.index;
  } else if (source.kind == Replay::Source::Kind::kStorage) {
    view["argument"] = argument_with(program, source.index);
  }
  return view;
}

// Calls `record` with a list of contiguous tensors, each of a storage of its own, and describes the
// one program that this launched; None where it did anything else, or returned a tensor that shares
// memory with one of the list.
py::object record_program(const py::object& record, const py::list& tensors) {
  std::vector<aten::Argument> arguments;
  for (const py::handle tensor : tensors) {
    arguments.push_back({.kind = aten::Argument::Kind::kTensor,
                         .tensor = THPVariable_Unpack(tensor.ptr()).unsafeGetTensorImpl()});
  }
  auto call = aten::RecordedCall::begin(arguments, true);
  if (!call) return py::none();
  const py::tuple results(record(tensors));
  std::vector<aten::Returned> returned;
  for (const py::handle result : results) {
    const bool is_tensor = THPVariable_Check(result.ptr());
    returned.push_back(
        {is_tensor, is_tensor ? THPVariable_Unpack(result.ptr()).unsafeGetTensorImpl() : nullptr});
  }
  const std::shared_ptr<Replay> replay = call->finish(returned);
  if (!replay || !replay->description().executable) return py::none();
  const Replay::Description& program = replay->description();
  py::list parameters, outputs, checked;
  for (const uint32_t storage : program.leaves) parameters.append(argument_with(program, storage));
  for (const Replay::Result& result : program.results) {
    if (result.kind == Replay::Result::Kind::kConstant) {
      outputs.append(py::none());
    } else if (result.kind == Replay::Result::Kind::kNew) {
      outputs.append(described(program, result));
    } else {
      return py::none();
    }
  }
  for (const graph::Operator* op : program.checked) checked.append(std::string(op->name));
  py::dict description;
  description["text"] = program.text;
  description["numbers"] = py::bytes(program.numbers);
  description["number_bytes"] = static_cast<size_t>(replay->executor().number_width());
  description["is_random"] = !program.random_words.empty();
  description["parameters"] = parameters;
  description["roots"] = program.roots.size();
  description["results"] = outputs;
  description["checks"] = program.checks;
  description["checked"] = checked;
  return description;
}

}  // namespace

void bind_programs(py::module_& module) {
  module.def("record_program", &record_program);
  py::class_<aten::LoadedProgram>(module, "LoadedProgram")
      .def(py::init([](c10::Device device, std::string text, std::string numbers,
                       size_t number_bytes, std::vector<std::optional<c10::ScalarType>> results,
                       std::vector<std::string> checked) {
             std::vector<c10::ScalarType> dtypes;
             for (const auto& dtype : results) {
               dtypes.push_back(dtype.value_or(c10::ScalarType::Undefined));
             }
             return aten::translate_errors([&] {
               return std::make_unique<aten::LoadedProgram>(
                   aten::executor_of(device), aten::LoadedProgram::Description{
                                                  std::move(text), std::move(numbers), number_bytes,
                                                  std::move(dtypes), std::move(checked)});
             });
           }),
           py::arg("device"), py::kw_only(), py::arg("text"), py::arg("numbers"),
           py::arg("number_bytes"), py::arg("results"), py::arg("checked"))
      .def("run", [](const aten::LoadedProgram& program, const std::vector<at::Tensor>& tensors) {
        return aten::translate_errors([&] { return program.run(tensors); });
      });
}

}  // namespace torch_pjrt::python
