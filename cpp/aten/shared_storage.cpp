#include "aten/shared_storage.h"

#include <c10/core/impl/COW.h>
#include <c10/core/impl/COWDeleter.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/accelerator_memory.h"
#include "aten/accelerator_order.h"
#include "aten/copy_figures.h"
#include "aten/stream_uses.h"
#include "base/metrics.h"

namespace torch_pjrt::aten {
namespace {

base::Counter& live_aliases() {
  static base::Counter& figure = base::gauge("export.live");
  return figure;
}

// What keeps a buffer's memory for a storage.
struct SharedMemory {
  SharedMemory(graph::SharedBufferPtr shared, graph::Executor& its_executor, const void* data,
               c10::Device device)
      : buffer(std::move(shared)), executor(its_executor) {
    if (!device.is_cpu()) uses.emplace(data, current_stream(device));
    buffer->buffer.add_external_reference();
    live_aliases().add(1);
  }
  ~SharedMemory() {
    live_aliases().add(-1);
    if (!graph::SharedBuffer::leaks()) buffer->buffer.drop_external_reference();
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  graph::SharedBufferPtr buffer;
  graph::Executor& executor;
  std::optional<StreamUses> uses;       // of an accelerator
  std::atomic<bool> is_written{false};  // the storage has the memory for itself
};

void let_go(std::unique_ptr<SharedMemory> memory) noexcept {
  if (!memory->uses) return;
  const std::vector<c10::Stream> streams = memory->uses->finish();
  release_after_streams(transfer::hold(std::move(memory)), streams);
}

#if TORCH_PJRT_HAS_MATERIALIZER

void release(void* memory) noexcept {
  let_go(std::unique_ptr<SharedMemory>(static_cast<SharedMemory*>(memory)));
}

// Whether nothing but this storage can read the memory from now on, so that it may be written.
bool is_last_reader(const SharedMemory& memory) noexcept {
  const graph::SharedBuffer& buffer = *memory.buffer;
  return !graph::SharedBuffer::leaks() && buffer.reference_count() == 1 && !buffer.is_lent &&
         !buffer.has_outside_writers() && !buffer.is_read_elsewhere.load() &&
         memory.executor.is_idle();
}

// Before a write. A storage that was resized or swapped meanwhile has other memory already.
void make_writable(c10::StorageImpl* storage) {
  struct Figures {
    CopyFigures copied{"export.materialised"};
    CopyFigures in_place{"export.written_in_place"};
  };
  static Figures figures;
  c10::DataPtr old;  // destroyed after the lock: a buffer may go with it
  std::lock_guard lock(mutex_of(*storage));
  if (!shared_buffer_of(*storage)) return;
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  auto& memory = *static_cast<SharedMemory*>(data.get_context());
  if (is_last_reader(memory)) {
    figures.in_place.add(storage->nbytes());
    memory.is_written = true;
    return;
  }
  c10::DataPtr copy = private_copy(data.get(), storage->nbytes(), data.device());
  figures.copied.add(storage->nbytes());
  old = std::exchange(data, std::move(copy));
}

}  // namespace

c10::Storage share_buffer(graph::SharedBufferPtr buffer, graph::Executor& executor, void* data,
                          size_t bytes, c10::Device device, bool is_protected) {
  c10::DataPtr shared(data, new SharedMemory(std::move(buffer), executor, data, device), &release,
                      device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t{}, bytes,
                                                       std::move(shared), &allocator_of(device),
                                                       /*resizable=*/true);
  if (is_protected) storage->set_materializer(&make_writable);
  return storage;
}

void protect(c10::StorageImpl& storage) noexcept {
  std::lock_guard lock(mutex_of(storage));
  if (shared_buffer_of(storage) && !storage.has_materializer()) {
    storage.set_materializer(&make_writable);
  }
}

bool has_taken_over(const c10::StorageImpl& storage) noexcept {
  return storage.data_ptr().get_deleter() == &release && !shared_buffer_of(storage);
}

const graph::SharedBufferPtr* shared_buffer_of(const c10::StorageImpl& storage) noexcept {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() != &release) return nullptr;
  auto& memory = *static_cast<SharedMemory*>(data.get_context());
  return memory.is_written ? nullptr : &memory.buffer;
}

#else

// PyTorch's context tells its deleter nothing but the address. Entries of one address have the same
// buffer, so that any of them may go.
class MemoryByAddress {
 public:
  void add(void* data, std::unique_ptr<SharedMemory> memory) {
    const std::lock_guard lock(mutex_);
    entries_.emplace(data, std::move(memory));
  }
  std::unique_ptr<SharedMemory> take(void* data) {
    const std::lock_guard lock(mutex_);
    return std::move(entries_.extract(entries_.find(data)).mapped());
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<void*, std::unique_ptr<SharedMemory>> entries_;
};

MemoryByAddress& shared_memory() {
  static auto* const instance = new MemoryByAddress;
  return *instance;
}

void release(void* data) noexcept { let_go(shared_memory().take(data)); }

// Holds a second reference to its context, so that a write never happens in place.
struct SharedStorage final : c10::StorageImpl {
  SharedStorage(size_t bytes, c10::DataPtr data, c10::Allocator* allocator,
                graph::SharedBufferPtr b)
      : StorageImpl(use_byte_size_t{}, bytes, std::move(data), allocator, /*resizable=*/true),
        context(data_ptr().get_context()),
        buffer(std::move(b)) {}
  ~SharedStorage() override { let_go_of_context(); }
  void release_resources() override {
    StorageImpl::release_resources();
    let_go_of_context();
  }

  void let_go_of_context() noexcept {
    if (context) c10::impl::cow::cow_deleter(std::exchange(context, nullptr));
  }

  void* context;
  graph::SharedBufferPtr buffer;
};

}  // namespace

c10::Storage share_buffer(graph::SharedBufferPtr buffer, graph::Executor& executor, void* data,
                          size_t bytes, c10::Device device, bool) {
  shared_memory().add(data, std::make_unique<SharedMemory>(buffer, executor, data, device));
  auto* const context = new c10::impl::cow::COWDeleterContext(
      std::unique_ptr<void, c10::DeleterFnPtr>(data, &release));
  context->increment_refcount();
  static CopyFigures copied{"export.materialised"};
  auto storage = c10::make_intrusive<SharedStorage>(
      bytes, c10::DataPtr(data, context, &c10::impl::cow::cow_deleter, device),
      &counting_allocator(device, copied), std::move(buffer));
#if __has_include(<c10/core/StorageMaterializer.h>)
  storage->set_materializer(&c10::impl::cow::materialize_cow);
#endif
  return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>(std::move(storage)));
}

void protect(c10::StorageImpl&) noexcept {}

bool has_taken_over(const c10::StorageImpl&) noexcept { return false; }

const graph::SharedBufferPtr* shared_buffer_of(const c10::StorageImpl& storage) noexcept {
  const auto* const shared = dynamic_cast<const SharedStorage*>(&storage);
  return shared && shared->context == storage.data_ptr().get_context() ? &shared->buffer : nullptr;
}

#endif

std::mutex& mutex_of(const c10::StorageImpl& storage) noexcept {
  static auto* const mutexes = new std::array<std::mutex, 16>;
  return (*mutexes)[reinterpret_cast<uintptr_t>(&storage) / 64 % 16];
}

}  // namespace torch_pjrt::aten
