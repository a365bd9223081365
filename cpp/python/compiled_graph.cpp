#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <structmember.h>
#include <algorithm>
#include <bit>
#include <cstddef>

#include "aten/errors.h"
#include "aten/replay.h"
#include "graph/runtime.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

using aten::Argument;
using aten::Replay;
using graph::Executor;

// Programs that one graph keeps ready, for arguments of different descriptions.
constexpr size_t kMostReplays = 16;
// Recorded calls in a row after which only few are looked at: none was like another.
constexpr unsigned kMostMisses = 32;

struct Ready {
  std::shared_ptr<Replay> replay;
  std::vector<py::object> constants;  // one for each result, empty for those that are tensors
  bool is_list = false;
};
using ReadyPtr = std::shared_ptr<const Ready>;

// A graph that is called with the list of its arguments, and empties it. `record(arguments)` runs
// its operators; `held`, a tuple, are tensors that it reads besides.
struct CompiledGraph {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* record;
  PyObject* held;
  PyObject* attributes;
  std::vector<ReadyPtr>* ready;  // used last: first
  unsigned misses;               // recorded calls since the last replay
  bool can_replay;
};

using Arguments = c10::SmallVector<Argument, 32>;

Argument argument_of(PyObject* object) {
  Argument argument;
  if (THPVariable_CheckExact(object)) {
    argument.kind = Argument::Kind::kTensor;
    argument.tensor = THPVariable_Unpack(object).unsafeGetTensorImpl();
    argument.is_sole = Py_REFCNT(object) == 1;
  } else if (object == Py_None) {
    argument.kind = Argument::Kind::kNothing;
  } else if (PyBool_Check(object)) {
    argument.kind = Argument::Kind::kBool;
    argument.bits = object == Py_True;
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    argument.bits = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) argument.kind = Argument::Kind::kInteger;
  } else if (PyFloat_CheckExact(object)) {
    argument.kind = Argument::Kind::kReal;
    argument.bits = std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(object));
  }
  return argument;
}

PyObject* object_at(const CompiledGraph& self, PyObject* list, size_t index) {
  const auto place = static_cast<Py_ssize_t>(index), count = PyList_GET_SIZE(list);
  return place < count ? PyList_GET_ITEM(list, place) : PyTuple_GET_ITEM(self.held, place - count);
}

void read_arguments(const CompiledGraph& self, PyObject* list, Arguments& arguments) {
  const auto count = static_cast<size_t>(PyList_GET_SIZE(list) + PyTuple_GET_SIZE(self.held));
  arguments.reserve(count);
  for (size_t i = 0; i < count; ++i) arguments.push_back(argument_of(object_at(self, list, i)));
}

py::object results_of(const CompiledGraph& self, const Ready& ready, PyObject* list,
                      std::vector<at::Tensor>& tensors) {
  const auto& results = ready.replay->description().results;
  const auto count = static_cast<Py_ssize_t>(results.size());
  auto made =
      py::reinterpret_steal<py::object>(ready.is_list ? PyList_New(count) : PyTuple_New(count));
  if (!made) throw python_error();
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(i);
    PyObject* object = nullptr;
    if (tensors[place].defined()) {
      object = THPVariable_Wrap(std::move(tensors[place]));
      if (!object) throw python_error();
    } else if (results[place].kind == Replay::Result::Kind::kArgument) {
      object = Py_NewRef(object_at(self, list, results[place].index));
    } else {
      object = Py_NewRef(ready.constants[place].ptr());
    }
    if (ready.is_list) {
      PyList_SET_ITEM(made.ptr(), i, object);
    } else {
      PyTuple_SET_ITEM(made.ptr(), i, object);
    }
  }
  return made;
}

void empty(PyObject* list) {
  if (PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr) != 0) throw python_error();
}

void put_first(std::vector<ReadyPtr>& all, const ReadyPtr& used) {
  if (all.front() == used) return;
  // Other threads may have changed the list while the program was launched.
  const auto found = std::find(all.begin(), all.end(), used);
  if (found != all.end()) std::rotate(all.begin(), found, found + 1);
}

// The results; empty where no replay suits the call, and then nothing has happened.
py::object replay(CompiledGraph& self, PyObject* list) {
  if (self.ready->empty() || Executor::mode() != graph::Mode::kLazy ||
      graph::runtime::is_forked()) {
    return {};
  }
  Arguments arguments;
  std::vector<at::Tensor> tensors;
  ReadyPtr used;
  {
    const Executor::Turn turn(self.ready->front()->replay->executor());
    // Only now: other threads may have run before it was this one's turn.
    read_arguments(self, list, arguments);
    for (size_t i = 0; i < self.ready->size() && !used; ++i) {
      ReadyPtr candidate = (*self.ready)[i];
      if (candidate->replay->suits(arguments) && candidate->replay->run(turn, arguments, tensors)) {
        used = std::move(candidate);
      }
    }
  }
  if (!used) return {};
  self.misses = 0;
  put_first(*self.ready, used);
  py::object results = results_of(self, *used, list, tensors);
  empty(list);
  return results;
}

void execute_all() {
  for (Executor* executor : graph::runtime::executors()) executor->execute();
}

// Looks at what a recorded call returned, and keeps it ready if it can be replayed.
void keep(CompiledGraph& self, aten::RecordedCall& call, PyObject* results) {
  auto ready = std::make_shared<Ready>();
  ready->is_list = PyList_CheckExact(results);
  if (!ready->is_list && !PyTuple_CheckExact(results)) return;
  std::vector<aten::Returned> returned;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(results);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const result = PySequence_Fast_GET_ITEM(results, i);
    if (THPVariable_CheckExact(result)) {
      returned.push_back({true, THPVariable_Unpack(result).unsafeGetTensorImpl()});
      ready->constants.emplace_back();
    } else if (result == Py_None || PyBool_Check(result) || PyLong_CheckExact(result) ||
               PyFloat_CheckExact(result)) {
      returned.push_back({false, nullptr});
      ready->constants.push_back(py::reinterpret_borrow<py::object>(result));
    } else {
      return;
    }
  }
  ready->replay = call.finish(returned);
  auto& all = *self.ready;
  if (!ready->replay ||
      (!all.empty() && &all.front()->replay->executor() != &ready->replay->executor())) {
    return;
  }
  for (const ReadyPtr& known : all) {
    if (!known->replay->is_like(*ready->replay)) continue;
    // It did not suit a call that gives away no more when it is recorded.
    known->replay->accept_more();
    return;
  }
  all.insert(all.begin(), std::move(ready));
  if (all.size() > kMostReplays) all.pop_back();
}

py::object record(CompiledGraph& self, PyObject* list) {
  // What is pending is no part of this program, which is the same at each call.
  execute_all();
  std::unique_ptr<aten::RecordedCall> call;
  ++self.misses;
  if (self.can_replay && (self.misses <= kMostMisses || std::has_single_bit(self.misses))) {
    Arguments arguments;
    read_arguments(self, list, arguments);
    call = aten::RecordedCall::begin(arguments);
  }
  auto results = py::reinterpret_steal<py::object>(PyObject_CallOneArg(self.record, list));
  if (!results) throw python_error();
  execute_all();
  if (call) keep(self, *call, results.ptr());
  return results;
}

PyObject* call(PyObject* object, PyObject* const* arguments, size_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  if (PyVectorcall_NARGS(count) != 1 || names || !PyList_CheckExact(arguments[0])) {
    PyErr_SetString(PyExc_TypeError,
                    "call a compiled graph: it takes one list, of its arguments; pass them as "
                    "graph([…])");
    return nullptr;
  }
  auto& self = *reinterpret_cast<CompiledGraph*>(object);
  return aten::translate_errors([&] {
    py::object results = replay(self, arguments[0]);
    if (!results) results = record(self, arguments[0]);
    return results.release().ptr();
  });
  END_HANDLE_TH_ERRORS
}

PyObject* time_launch(PyObject* object, PyObject* list) {
  HANDLE_TH_ERRORS
  auto& self = *reinterpret_cast<CompiledGraph*>(object);
  if (!PyList_CheckExact(list) || self.ready->empty()) {
    PyErr_SetString(PyExc_RuntimeError,
                    "time the launch of a compiled graph: no call of it can be replayed yet; got "
                    "none, expected one; call it first, and pass a list of arguments");
    return nullptr;
  }
  Arguments arguments;
  read_arguments(self, list, arguments);
  return PyFloat_FromDouble(
      aten::translate_errors([&] { return self.ready->front()->replay->time_launch(arguments); }));
  END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"time_launch", &time_launch, METH_O,
     "Seconds that PJRT alone takes to launch the program that the last call used, on a list of "
     "arguments; for benchmarks."},
    {nullptr, nullptr, 0, nullptr}};

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *record = nullptr, *held = nullptr;
  int can_replay = 0;
  if (!PyArg_ParseTuple(arguments, "OO!p", &record, &PyTuple_Type, &held, &can_replay)) {
    return nullptr;
  }
  PyObject* const object = type->tp_alloc(type, 0);
  if (!object) return nullptr;
  auto& self = *reinterpret_cast<CompiledGraph*>(object);
  self.vectorcall = &call;
  self.record = Py_NewRef(record);
  self.held = Py_NewRef(held);
  self.ready = new std::vector<ReadyPtr>;
  self.can_replay = can_replay != 0;
  // How AOTAutograd knows that it takes a list; in the instance, where functools.wraps finds it.
  self.attributes = Py_BuildValue("{s:O}", "_boxed_call", Py_True);
  if (!self.attributes) {
    Py_DECREF(object);
    return nullptr;
  }
  return object;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto& self = *reinterpret_cast<CompiledGraph*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self.record);
  Py_VISIT(self.held);
  Py_VISIT(self.attributes);
  return 0;
}

int clear(PyObject* object) {
  auto& self = *reinterpret_cast<CompiledGraph*>(object);
  Py_CLEAR(self.record);
  Py_CLEAR(self.held);
  Py_CLEAR(self.attributes);
  return 0;
}

void destroy(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  delete reinterpret_cast<CompiledGraph*>(object)->ready;
  PyTypeObject* const type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledGraph, vectorcall), READONLY, nullptr},
    {"record", T_OBJECT_EX, offsetof(CompiledGraph, record), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledGraph, attributes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&make)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc,
     const_cast<char*>("CompiledGraph(record, held, can_replay): calls record([arguments]), or "
                       "launches what it did at a call like this one.")},
    {0, nullptr}};

PyType_Spec spec{"torch_pjrt._C.CompiledGraph", sizeof(CompiledGraph), 0,
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void bind_compiled_graph(py::module_& module) {
  auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  module.attr("CompiledGraph") = type;
}

}  // namespace torch_pjrt::python
