#include <c10/util/strides.h>

#include <algorithm>
#include <utility>

#include "aten/replay.h"
#include "aten/storage.h"
#include "graph/lock.h"

namespace torch_pjrt::aten {
namespace {

using graph::recording_mutex;
using graph::RecordingLock;
using graph::Value;
using Source = Replay::Source;

constexpr size_t kNotFound = SIZE_MAX;

// A value that another storage may hold, too, is not told apart from it; 0 for none.
uint64_t buffer_id(const Value& value) {
  if (!value || !value.node->is_data()) return 0;
  const graph::SharedBufferPtr& buffer = value.node->outputs()[value.index].buffer;
  return buffer && !buffer->failure ? buffer->id() : 0;
}

size_t place_of(const std::vector<uint64_t>& buffers, uint64_t buffer) {
  const auto found = std::find(buffers.begin(), buffers.end(), buffer);
  return buffer == 0 || found == buffers.end() ? kNotFound
                                               : static_cast<size_t>(found - buffers.begin());
}

Replay::View view_of(const c10::TensorImpl& tensor) {
  const bool is_contiguous =
      tensor.is_contiguous() && tensor.storage_offset() == 0 &&
      !(tensor.dim() == 1 && tensor.numel() == 0) &&
      tensor.strides() == at::IntArrayRef(c10::contiguous_strides(tensor.sizes()));
  return {c10::typeMetaToScalarType(tensor.dtype()), c10::DimVector(tensor.sizes()),
          c10::DimVector(tensor.strides()), tensor.storage_offset(), is_contiguous};
}

bool is_plain(const c10::TensorImpl& tensor) {
  return !tensor.key_set().has_any(c10::DispatchKeySet(
             {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})) &&
         tensor.layout() == c10::kStrided && tensor.has_storage();
}

}  // namespace

std::unique_ptr<RecordedCall> RecordedCall::begin(std::span<const Argument> arguments,
                                                  bool with_text) {
  if (graph::Executor::mode() != graph::Mode::kLazy) return nullptr;
  const auto on_xla = std::find_if(arguments.begin(), arguments.end(), [](const Argument& a) {
    return a.kind == Argument::Kind::kTensor && a.tensor->device().is_xla() && is_plain(*a.tensor);
  });
  if (on_xla == arguments.end()) return nullptr;
  graph::Executor& executor = cell_of(*on_xla->tensor->storage().unsafeGetStorageImpl()).executor();
  std::unique_ptr<RecordedCall> call(new RecordedCall(executor));
  if (!call->describe(arguments)) return nullptr;
  const XlaGenerator& generator = generator_or_default(std::nullopt, executor.index());
  call->random_ = generator.place();
  call->taken_before_ = XlaGenerator::taken_by_this_thread();
  call->capture_ = std::make_unique<graph::Capture>(executor, with_text);
  return call;
}

bool RecordedCall::describe(std::span<const Argument> arguments) {
  description_.environment = Environment::current();
  for (const Argument& argument : arguments) {
    Replay::ArgumentKey key;
    key.kind = argument.kind;
    key.bits = argument.bits;
    if (argument.kind == Argument::Kind::kOther) return false;
    if (argument.kind != Argument::Kind::kTensor) {
      description_.arguments.push_back(std::move(key));
      observed_.emplace_back();
      continue;
    }
    c10::TensorImpl& tensor = *argument.tensor;
    if (!is_plain(tensor)) return false;
    if (description_.environment.records_gradients && tensor.requires_grad()) return false;
    key.key_set = tensor.key_set().raw_repr();
    key.view = view_of(tensor);
    if (tensor.device().is_xla()) {
      if (!describe_storage(tensor, key)) return false;
    } else {
      if (!tensor.device().is_cpu() || tensor.dim() != 0 || tensor.itemsize() > sizeof key.bits) {
        return false;
      }
      key.bits = element_bits(tensor);
    }
    Observed observed;
    observed.tensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
        TensorPtr::reclaim_copy(&tensor));
    if (!tensor.is_inference()) observed.version = tensor.version_counter().current_version();
    observed_.push_back(std::move(observed));
    description_.arguments.push_back(std::move(key));
  }
  return true;
}

bool RecordedCall::describe_storage(const c10::TensorImpl& tensor, Replay::ArgumentKey& key) {
  const c10::Storage& storage = tensor.storage();
  key.storage_bytes = static_cast<int64_t>(storage.nbytes());
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  const auto found = std::find_if(storages_.begin(), storages_.end(), [&](const auto& known) {
    return known._unsafe_get_target() == impl;
  });
  key.storage = static_cast<int32_t>(found - storages_.begin());
  if (found != storages_.end()) return true;

  graph::Cell& cell = cell_of(*impl);
  if (&cell.executor() != &executor_) return false;
  Replay::StorageKey described;
  RecordingLock lock(recording_mutex());
  const Value& value = cell.value();
  const uint64_t buffer = buffer_id(value);
  described.has_value = static_cast<bool>(value);
  if (value) {
    if (buffer == 0) return false;
    described.is_borrowed = value.node->outputs()[value.index].buffer->has_outside_writers();
    described.type = value.type();
  }
  const size_t first = place_of(buffers_, buffer);
  described.same_as = static_cast<uint32_t>(first == kNotFound ? storages_.size() : first);
  buffers_.push_back(buffer);
  storages_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl));
  description_.storages.push_back(std::move(described));
  return true;
}

std::shared_ptr<Replay> RecordedCall::finish(std::span<const Returned> results) {
  const std::unique_ptr<graph::Capture::Program> program = capture_->finish();
  if (!program || !(Environment::current() == description_.environment)) return nullptr;
  if (!look_at_program(*program) || !look_at_random(*program) || !look_at_arguments() ||
      !look_at_results(results)) {
    return nullptr;
  }
  if (program->checks >= 0) explained_[static_cast<size_t>(program->checks)] = true;
  if (std::find(explained_.begin(), explained_.end(), false) != explained_.end()) return nullptr;
  return std::make_shared<Replay>(executor_, std::move(description_));
}

bool RecordedCall::look_at_program(const graph::Capture::Program& program) {
  description_.executable = program.executable;
  description_.numbers = program.numbers;
  description_.operations = program.operations;
  description_.checks = program.checks;
  description_.checked = program.checked;
  description_.text = program.text;
  for (const graph::Capture::Leaf& leaf : program.leaves) {
    const size_t place = place_of(buffers_, leaf.buffer);
    if (place == kNotFound) return false;
    Replay::StorageKey& storage = description_.storages[place];
    if (!(storage.type == leaf.type)) return false;
    storage.is_read = true;
    storage.is_donated = leaf.donated;
    description_.leaves.push_back(static_cast<uint32_t>(place));
  }
  for (const graph::Capture::Root& root : program.roots) {
    roots_.push_back(root.buffer);
    description_.roots.push_back(root.type);
  }
  explained_.resize(roots_.size());
  return true;
}

// The numbers that the stream gave are those that it gives at each call, from another place.
bool RecordedCall::look_at_random(const graph::Capture::Program& program) {
  const XlaGenerator::Place now = generator_or_default(std::nullopt, executor_.index()).place();
  if (now.seed != random_.seed || now.offset < random_.offset) return false;
  description_.random_blocks = now.offset - random_.offset;
  // Not so when other threads, or another generator, took numbers meanwhile.
  if (XlaGenerator::taken_by_this_thread() - taken_before_ != description_.random_blocks) {
    return false;
  }
  for (graph::Trace::RandomWord word : program.random_words) {
    if (word.origin == graph::HostNumber::Origin::kSeed) {
      if (word.value != random_.seed) return false;
    } else {
      if (word.value < random_.offset || word.value >= now.offset) return false;
      word.value -= random_.offset;
    }
    description_.random_words.push_back(word);
  }
  return description_.random_words.empty() || description_.random_blocks > 0;
}

bool RecordedCall::look_at_arguments() {
  for (size_t i = 0; i < observed_.size(); ++i) {
    Replay::ArgumentKey& key = description_.arguments[i];
    const auto tensor = observed_[i].tensor.lock();
    if (!tensor) continue;
    if (tensor->key_set().raw_repr() != key.key_set || !(view_of(*tensor) == key.view)) {
      return false;
    }
    if (!tensor->is_inference()) {
      key.version_bumps = tensor->version_counter().current_version() - observed_[i].version;
    }
    if (key.storage < 0) {
      if (key.version_bumps != 0 || element_bits(*tensor) != key.bits) return false;
      continue;
    }
    const auto& storage = storages_[static_cast<size_t>(key.storage)];
    if (tensor->storage().unsafeGetStorageImpl() != storage._unsafe_get_target() ||
        static_cast<int64_t>(tensor->storage().nbytes()) != key.storage_bytes) {
      return false;
    }
  }
  for (size_t i = 0; i < storages_.size(); ++i) {
    Replay::StorageKey& key = description_.storages[i];
    const auto storage = storages_[i].lock();
    key.is_dead = !storage;
    if (!storage) continue;
    const auto source = source_of(*storage);
    if (!source) return false;
    const bool is_same = source->kind == Source::Kind::kStorage
                             ? buffers_[source->index] == buffers_[i]
                             : source->kind == Source::Kind::kNothing && !key.has_value;
    if (is_same) continue;
    key.written = *source;
    if (source->kind == Source::Kind::kStorage) description_.storages[source->index].is_kept = true;
  }
  return true;
}

std::optional<Source> RecordedCall::source_of(c10::StorageImpl& storage) {
  graph::Cell& cell = cell_of(storage);
  if (&cell.executor() != &executor_) return std::nullopt;
  RecordingLock lock(recording_mutex());
  const Value& value = cell.value();
  if (!value) return Source{Source::Kind::kNothing, 0};
  const uint64_t buffer = buffer_id(value);
  if (const size_t root = place_of(roots_, buffer); root != kNotFound) {
    explained_[root] = true;
    return Source{Source::Kind::kRoot, static_cast<uint32_t>(root)};
  }
  if (const size_t place = place_of(buffers_, buffer); place != kNotFound) {
    return Source{Source::Kind::kStorage, static_cast<uint32_t>(place)};
  }
  return std::nullopt;
}

bool RecordedCall::look_at_results(std::span<const Returned> results) {
  std::vector<const c10::StorageImpl*> made;  // alive: the results have them
  for (const Returned& returned : results) {
    Replay::Result& result = description_.results.emplace_back();
    if (!returned.is_tensor) continue;
    c10::TensorImpl& tensor = *returned.tensor;
    if (!is_plain(tensor) || !tensor.device().is_xla()) return false;
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    const auto argument = std::find_if(
        observed_.begin(), observed_.end(),
        [&](const Observed& observed) { return observed.tensor._unsafe_get_target() == &tensor; });
    const auto place = static_cast<size_t>(
        std::find_if(storages_.begin(), storages_.end(),
                     [&](const auto& known) { return known._unsafe_get_target() == storage; }) -
        storages_.begin());
    if (place < storages_.size()) description_.storages[place].is_shared = true;
    if (argument != observed_.end()) {
      result.kind = Replay::Result::Kind::kArgument;
      result.index = static_cast<uint32_t>(argument - observed_.begin());
      continue;
    }
    if (tensor.requires_grad() || tensor.is_conj() || tensor.is_neg()) return false;
    result.view = view_of(tensor);
    if (place < storages_.size()) {
      const auto& keys = description_.arguments;
      const auto base = std::find_if(keys.begin(), keys.end(), [&](const auto& key) {
        return key.storage == static_cast<int32_t>(place) && key.view.dtype == result.view.dtype;
      });
      if (base == keys.end()) return false;
      result.kind = Replay::Result::Kind::kView;
      result.index = static_cast<uint32_t>(base - keys.begin());
      if (!observed_[result.index].tensor.lock()) return false;
      continue;
    }
    result.kind = Replay::Result::Kind::kNew;
    result.index =
        static_cast<uint32_t>(std::find(made.begin(), made.end(), storage) - made.begin());
    if (result.index < made.size()) continue;
    made.push_back(storage);
    const auto source = source_of(*storage);
    if (!source) return false;
    if (source->kind == Source::Kind::kStorage) description_.storages[source->index].is_kept = true;
    description_.new_storages.push_back({storage->nbytes(), *source});
  }
  return true;
}

}  // namespace torch_pjrt::aten
