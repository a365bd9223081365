#include "aten/replay.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "aten/config.h"
#include "aten/dtype_policy.h"
#include "aten/storage.h"
#include "base/metrics.h"
#include "base/trace_range.h"
#include "graph/emission.h"
#include "graph/lock.h"

namespace torch_pjrt::aten {
namespace {

using graph::recording_mutex;
using graph::RecordingLock;
using graph::SharedBuffer;
using graph::SharedBufferPtr;
using graph::Value;
using Source = Replay::Source;

// What the storages of written arguments hold while the program is launched: an execution that
// reads it waits for its turn, and finds data then.
constexpr graph::Operator kReplayed{"torch_pjrt::replayed", [](graph::Emission& e) {
                                      e.result(e.builder().zeros(e.result_type()));
                                    }};

graph::Cell& cell_of(const Argument& argument) {
  return aten::cell_of(*argument.tensor->storage().unsafeGetStorageImpl());
}

at::Tensor make_view(c10::Storage storage, const Replay::View& view) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::XLA),
      c10::scalarTypeToTypeMeta(view.dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (view.is_contiguous) {
    impl.set_sizes_contiguous(view.sizes);
  } else {
    impl.set_sizes_and_strides(view.sizes, view.strides, view.offset);
  }
  return tensor;
}

bool suits_view(const Replay::View& view, const c10::TensorImpl& tensor) {
  return c10::typeMetaToScalarType(tensor.dtype()) == view.dtype &&
         tensor.sizes() == at::IntArrayRef(view.sizes) &&
         tensor.strides() == at::IntArrayRef(view.strides) &&
         tensor.storage_offset() == view.offset;
}

}  // namespace

Environment Environment::current() {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  return {keys.included_.raw_repr(),
          keys.excluded_.raw_repr(),
          at::GradMode::is_enabled(),
          at::globalContext().deterministicAlgorithms(),
          config().check_indices,
          static_cast<uint8_t>(aten::dtype_policy()),
          c10::get_default_dtype_as_scalartype()};
}

int64_t element_bits(const c10::TensorImpl& tensor) {
  int64_t bits = 0;
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const auto* first = static_cast<const char*>(tensor.storage().data());
  std::memcpy(&bits, first + tensor.storage_offset() * item, static_cast<size_t>(item));
  return bits;
}

// One call, between what is taken from the arguments and what is put into them.
struct Replay::Call {
  explicit Call(std::span<const Argument> arguments) : arguments(arguments) {}

  std::span<const Argument> arguments;
  c10::SmallVector<graph::Cell*, 16> cells;  // of each storage
  c10::SmallVector<uint32_t, 16> owners;     // tensors of each storage that end with the call
  c10::SmallVector<const c10::StorageImpl*, 16> storages;
  c10::SmallVector<SharedBufferPtr, 16> inputs;
  c10::SmallVector<Value, 4> before;    // of each storage, where a result needs it
  graph::NodePtr pending;               // stands for what is written
  c10::SmallVector<Value, 4> replaced;  // by `pending`, in order of storages
};

Replay::Replay(graph::Executor& executor, Description description)
    : executor_(executor), description_(std::move(description)) {
  for (const uint32_t leaf : description_.leaves) {
    const StorageKey& storage = description_.storages[leaf];
    if (storage.is_donated) donated_bytes_ += storage.type.byte_count();
  }
  for (const StorageKey& storage : description_.storages) {
    if (storage.written.kind == Source::Kind::kRoot) ++written_;
    if (storage.written.kind == Source::Kind::kStorage) needs_before_ = true;
  }
  for (const NewStorage& storage : description_.new_storages) {
    if (storage.source.kind == Source::Kind::kStorage) needs_before_ = true;
  }
  if (description_.random_words.empty() && !description_.numbers.empty()) {
    numbers_ = SharedBufferPtr(new SharedBuffer(executor_.upload_numbers(description_.numbers)));
  }
}

bool Replay::is_like(const Replay& other) const {
  const Description &a = description_, &b = other.description_;
  return &executor_ == &other.executor_ && a.environment == b.environment &&
         a.arguments == b.arguments && a.storages == b.storages;
}

bool Replay::suits(std::span<const Argument> arguments) const {
  if (arguments.size() != description_.arguments.size()) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    const ArgumentKey& key = description_.arguments[i];
    if (argument.kind != key.kind) return false;
    if (argument.kind != Argument::Kind::kTensor) {
      if (argument.bits != key.bits) return false;
      continue;
    }
    const c10::TensorImpl& tensor = *argument.tensor;
    if (tensor.key_set().raw_repr() != key.key_set || !suits_view(key.view, tensor)) return false;
    if (key.storage < 0) {
      if (element_bits(tensor) != key.bits) return false;
    } else if (static_cast<int64_t>(tensor.storage().nbytes()) != key.storage_bytes) {
      return false;
    }
    if (description_.environment.records_gradients && tensor.requires_grad()) return false;
  }
  return Environment::current() == description_.environment;
}

// Under the recording lock: whether the storages are as described. Takes what the program reads.
bool Replay::take(Call& call) const {
  const uint64_t visit = graph::next_visit();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const int32_t place = description_.arguments[i].storage;
    if (place < 0) continue;
    const Argument& argument = call.arguments[i];
    graph::Cell& cell = cell_of(argument);
    if (cell.visit != visit) {
      if (&cell.executor() != &executor_ || place != static_cast<int32_t>(call.cells.size())) {
        return false;
      }
      cell.visit = visit;
      cell.position = static_cast<uint32_t>(place);
      call.cells.push_back(&cell);
      call.owners.push_back(0);
      call.storages.push_back(argument.tensor->storage().unsafeGetStorageImpl());
    } else if (place != static_cast<int32_t>(cell.position)) {
      return false;
    }
    if (argument.is_sole && c10::raw::intrusive_ptr::use_count(argument.tensor) == 1) {
      ++call.owners[static_cast<size_t>(place)];
    }
  }
  if (!donations_suit(call, visit)) return false;

  for (const uint32_t leaf : description_.leaves) {
    const Value& value = call.cells[leaf]->value();
    call.inputs.push_back(value.node->outputs()[value.index].buffer);
  }
  if (needs_before_) {
    for (const graph::Cell* cell : call.cells) call.before.push_back(cell->value());
  }
  if (!call.pending) return true;
  for (size_t i = 0; i < call.cells.size(); ++i) {
    if (description_.storages[i].written.kind != Source::Kind::kRoot) continue;
    const auto index = static_cast<uint32_t>(call.replaced.size());
    call.replaced.push_back(call.cells[i]->exchange({call.pending, index}));
  }
  return true;
}

// What nobody reads after the call is donated, as Trace::find_donations has it.
bool Replay::donations_suit(Call& call, uint64_t visit) const {
  const auto buffer_of = [&](size_t storage) -> const SharedBufferPtr& {
    const Value& value = call.cells[storage]->value();
    return value.node->outputs()[value.index].buffer;
  };
  for (size_t i = 0; i < call.cells.size(); ++i) {
    const StorageKey& key = description_.storages[i];
    const Value& value = call.cells[i]->value();
    const bool is_dead =
        !key.is_shared && call.owners[i] == c10::raw::intrusive_ptr::use_count(
                                                const_cast<c10::StorageImpl*>(call.storages[i]));
    if (key.is_dead && !is_dead) return false;
    if (static_cast<bool>(value) != key.has_value) return false;
    if (!value) continue;
    if (!value.node->is_data()) return false;
    const SharedBufferPtr& buffer = buffer_of(i);
    if (!buffer || buffer->failure) return false;
    if (buffer->has_outside_writers() != key.is_borrowed) return false;
    if (!(value.type() == key.type)) return false;
    if (key.same_as != i && buffer.get() != buffer_of(key.same_as).get()) return false;
    if (key.is_kept || (!is_dead && key.written.kind == Source::Kind::kUnchanged)) continue;
    graph::Node& node = *value.node;
    if (node.visit != visit) node.uses = 0;
    node.visit = visit;
    ++node.uses;
  }
  const bool donate = graph::Executor::donate();
  for (size_t i = 0; i < call.cells.size(); ++i) {
    const StorageKey& key = description_.storages[i];
    if (!key.is_read) continue;
    const graph::Node& node = *call.cells[i]->value().node;
    const SharedBufferPtr& buffer = buffer_of(i);
    const bool may_donate = donate && node.visit == visit && node.uses == node.reference_count() &&
                            buffer->reference_count() == 1 && !buffer->is_lent;
    if (key.is_donated ? !may_donate : may_donate && !accepts_more_) return false;
  }
  return true;
}

std::string Replay::numbers_at(XlaGenerator::Place place) const {
  std::string numbers = description_.numbers;
  const auto width = static_cast<size_t>(executor_.number_width());
  for (const graph::Trace::RandomWord& word : description_.random_words) {
    const uint64_t bits =
        word.origin == graph::HostNumber::Origin::kSeed ? place.seed : place.offset + word.value;
    const auto narrow = static_cast<int32_t>(static_cast<int64_t>(bits));
    std::memcpy(numbers.data() + word.position * width,
                width == 8 ? static_cast<const void*>(&bits) : &narrow, width);
  }
  return numbers;
}

bool Replay::run(const graph::Executor::Turn& turn, std::span<const Argument> arguments,
                 std::vector<at::Tensor>& results) const {
  static base::Counter& replays = base::counter("execute.replays");
  const base::TraceRange range("replay");
  Call call(arguments);
  if (written_ > 0) {
    c10::SmallVector<graph::Type, 8> types;
    for (const StorageKey& storage : description_.storages) {
      if (storage.written.kind != Source::Kind::kRoot) continue;
      types.push_back(description_.roots[storage.written.index]);
    }
    call.pending = graph::Node::operation(kReplayed, {}, {}, {types.data(), types.size()});
  }
  for (bool is_second = false;; is_second = true) {
    {
      RecordingLock lock(recording_mutex());
      // Takes those off the list that have become data since they were put there.
      executor_.pending_cells().for_each([](graph::Cell&) {});
      if (!executor_.has_pending()) {
        if (!take(call)) return false;
        break;
      }
    }
    if (is_second) return false;
    executor_.execute(turn);
  }

  XlaGenerator* generator = nullptr;
  XlaGenerator::Place place{};
  std::string numbers;
  if (description_.random_blocks > 0) {
    generator = &generator_or_default(std::nullopt, executor_.index());
    place = generator->take_blocks(description_.random_blocks);
    if (!description_.random_words.empty()) numbers = numbers_at(place);
  }
  std::vector<pjrt::Buffer> outputs;
  if (description_.executable) {
    graph::FailurePtr failure;
    try {
      executor_.launch(turn,
                       {.executable = *description_.executable,
                        .inputs = {call.inputs.data(), call.inputs.size()},
                        .numbers = numbers,
                        .uploaded = numbers_.get(),
                        .operations = description_.operations,
                        .donated_bytes = donated_bytes_},
                       outputs);
    } catch (const pjrt::Error& error) {
      failure = std::make_shared<const graph::Failure>(graph::Failure{error.code(), error.what()});
    }
    if (failure) {
      // To be recorded: that finds out which values the error belongs to.
      undo(call, failure);
      if (generator && generator->current_seed() == place.seed) {
        generator->set_offset(place.offset);
      }
      return false;
    }
  }
  replays.add();
  finish(call, std::move(outputs), results);
  return true;
}

double Replay::time_launch(std::span<const Argument> arguments) const {
  std::vector<SharedBufferPtr> inputs;
  for (const uint32_t leaf : description_.leaves) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (description_.arguments[i].storage != static_cast<int32_t>(leaf)) continue;
      inputs.push_back(executor_.buffer(cell_of(arguments[i]).get()));
      break;
    }
  }
  if (numbers_) inputs.push_back(numbers_);
  std::vector<PJRT_Buffer*> buffers;
  for (const SharedBufferPtr& input : inputs) buffers.push_back(input->buffer.get());
  pjrt::ExecuteOptions options;
  options.device = executor_.device();
  std::vector<pjrt::Buffer> outputs(description_.roots.size());
  pjrt::Event complete;
  const auto start = std::chrono::steady_clock::now();
  description_.executable->execute(buffers, options, outputs, &complete);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  complete.await();
  return taken.count();
}

void Replay::undo(Call& call, const graph::FailurePtr& failure) const {
  std::vector<Value> released;
  RecordingLock lock(recording_mutex());
  for (const SharedBufferPtr& input : call.inputs) {
    if (input->buffer.is_deleted()) input->failure = failure;
  }
  if (!call.pending) return;
  size_t next = 0;
  for (size_t i = 0; i < call.cells.size(); ++i) {
    if (description_.storages[i].written.kind != Source::Kind::kRoot) continue;
    Value& old = call.replaced[next];
    const Value standing{call.pending, static_cast<uint32_t>(next)};
    call.pending->outputs()[next++].buffer = old.node->outputs()[old.index].buffer;
    if (call.cells[i]->value() == standing) {
      released.push_back(call.cells[i]->exchange(std::move(old)));
    }
  }
  call.pending->become_data(released);
}

void Replay::finish(Call& call, std::vector<pjrt::Buffer> outputs,
                    std::vector<at::Tensor>& results) const {
  c10::SmallVector<Value, 8> roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    SharedBufferPtr buffer(new SharedBuffer(std::move(outputs[i])));
    if (static_cast<int64_t>(i) == description_.checks) {
      executor_.keep_checks(buffer, description_.checked);
    }
    roots.push_back({graph::Node::data(std::move(buffer), description_.roots[i]), 0});
  }
  const auto value_at = [&](const Source& source) {
    if (source.kind == Source::Kind::kRoot) return roots[source.index];
    return source.kind == Source::Kind::kStorage ? call.before[source.index] : Value();
  };

  if (call.pending || needs_before_) {
    std::vector<Value> released;
    RecordingLock lock(recording_mutex());
    uint32_t next = 0;
    for (size_t i = 0; i < call.cells.size(); ++i) {
      const Source& written = description_.storages[i].written;
      if (written.kind == Source::Kind::kUnchanged) continue;
      Value value = value_at(written);
      if (written.kind == Source::Kind::kRoot) {
        call.pending->outputs()[next].buffer = value.node->outputs()[0].buffer;
        // Else another thread has written something else meanwhile.
        if (!(call.cells[i]->value() == Value{call.pending, next++})) continue;
      }
      released.push_back(call.cells[i]->exchange(std::move(value)));
    }
    if (call.pending) call.pending->become_data(released);
  }
  note_versions(call.arguments);

  c10::SmallVector<c10::Storage, 8> storages;
  for (const NewStorage& storage : description_.new_storages) {
    storages.push_back(make_storage(executor_, storage.bytes));
    if (Value value = value_at(storage.source)) {
      aten::cell_of(*storages.back().unsafeGetStorageImpl()).set(std::move(value));
    }
  }
  c10::SmallVector<c10::TensorImpl*, 8> first(storages.size(), nullptr);
  results.resize(description_.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& result = description_.results[i];
    if (result.kind == Result::Kind::kView) {
      const at::Tensor base(
          c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
              call.arguments[result.index].tensor));
      results[i] = base.as_strided(result.view.sizes, result.view.strides, result.view.offset);
    } else if (result.kind == Result::Kind::kNew) {
      results[i] = make_view(storages[result.index], result.view);
      c10::TensorImpl* const tensor = results[i].unsafeGetTensorImpl();
      c10::TensorImpl*& sharer = first[result.index];
      if (sharer) {
        tensor->set_version_counter(sharer->version_counter());
      } else {
        sharer = tensor;
      }
    }
  }
}

// Views of one storage share a counter.
void Replay::note_versions(std::span<const Argument> arguments) const {
  c10::SmallVector<std::pair<uint32_t, uint32_t>, 8> due;  // argument, version
  for (size_t i = 0; i < arguments.size(); ++i) {
    const uint32_t bumps = description_.arguments[i].version_bumps;
    if (bumps == 0 || arguments[i].tensor->is_inference()) continue;
    due.emplace_back(i, arguments[i].tensor->version_counter().current_version() + bumps);
  }
  for (const auto& [i, version] : due) {
    c10::TensorImpl& tensor = *arguments[i].tensor;
    while (static_cast<int32_t>(version - tensor.version_counter().current_version()) > 0) {
      tensor.bump_version();
    }
  }
}

}  // namespace torch_pjrt::aten
