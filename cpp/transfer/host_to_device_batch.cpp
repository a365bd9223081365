// Several arrays to devices in one call.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "base/blocking_region.h"
#include "transfer/give.h"
#include "transfer/host_to_device.h"
#include "transfer/host_to_device_figures.h"
#include "transfer/streaming_copy.h"
#include "transfer/strided_copy.h"
#include "transfer/transfer_threads.h"

namespace torch_pjrt::transfer {
namespace {

// Below, the plugin's own copy is quicker and keeps no other array's memory.
constexpr size_t kSmallestShared = size_t{4} << 10;
constexpr size_t kSharedBlock = HostMemoryPool::kHugePage;
constexpr size_t kPiece = size_t{256} << 10;

// A pool block in which several buffers lie. The last to go gives it back.
class SharedBlock final : public Holder {
 public:
  explicit SharedBlock(size_t bytes) : block_(HostMemoryPool::shared().allocate(bytes)) {}

  char* data() const noexcept { return static_cast<char*>(block_.data()); }
  void add_user() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  // Takes a leaf lock only: also called from the plugin's callbacks.
  void drop_user() noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::unique_ptr<SharedBlock> owned(this);
    if (!block_.recycle()) Reclaimer::instance().reclaim(std::move(owned));
  }

 private:
  HostBlock block_;
  std::atomic<size_t> users_{1};  // who made it
};

// An array that goes into a shared block.
struct Placed {
  size_t index;  // in the batch
  size_t bytes;
  size_t block;
  size_t offset;
};

struct Placement {
  std::vector<Placed> arrays;
  std::vector<size_t> block_bytes;
  size_t bytes = 0;
};

void place(Placement& placement, size_t index, size_t bytes) {
  constexpr size_t kAlignment = HostMemoryPool::kAlignment;
  const size_t needed = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto& blocks = placement.block_bytes;
  if (blocks.empty() || blocks.back() + needed > kSharedBlock) blocks.push_back(0);
  placement.arrays.push_back({index, bytes, blocks.size() - 1, blocks.back()});
  blocks.back() += needed;
  placement.bytes += bytes;
}

// Consecutive arrays of about kPiece bytes together: where each piece begins, and the end.
std::vector<size_t> pieces_of(const Placement& placement) {
  std::vector<size_t> starts{0};
  size_t bytes = 0;
  for (size_t i = 0; i < placement.arrays.size(); ++i) {
    bytes += placement.arrays[i].bytes;
    if (bytes >= kPiece) {
      starts.push_back(i + 1);
      bytes = 0;
    }
  }
  if (starts.back() != placement.arrays.size()) starts.push_back(placement.arrays.size());
  return starts;
}

// Copies the arrays into shared blocks and gives them to the devices: all threads copy, and one of
// them at a time gives what is complete, since plugins make one buffer at a time anyway.
class SharedTransfer {
 public:
  SharedTransfer(const pjrt::Client& client, std::span<const HostToDeviceCopy> copies,
                 const Placement& placement, const TakeBuffer& take,
                 std::span<std::exception_ptr> errors)
      : client_(client),
        copies_(copies),
        placement_(placement),
        take_(take),
        errors_(errors),
        pieces_(pieces_of(placement)),
        streaming_(placement.bytes >= kStreamingBytes) {
    for (size_t bytes : placement.block_bytes) blocks_.emplace_back(new SharedBlock(bytes));
    copied_.reserve(pieces_.size());
  }

  void run() {
    TransferThreads::run(pieces_.size() - 1, [&](size_t piece) {
      copy_piece(piece);
      {
        std::lock_guard lock(copied_mutex_);
        copied_.push_back(piece);
      }
      if (std::unique_lock lock(giving_, std::try_to_lock); lock) give_copied();
    });
    give_copied();
  }

 private:
  struct DropUser {
    void operator()(SharedBlock* block) const noexcept { block->drop_user(); }
  };

  void copy_piece(size_t piece) noexcept {
    for (size_t i = pieces_[piece]; i < pieces_[piece + 1]; ++i) {
      const Placed& array = placement_.arrays[i];
      const HostSource& source = copies_[array.index].source;
      char* const to = blocks_[array.block]->data() + array.offset;
      const size_t item = item_bytes(source.type);
      if (!is_row_major(source.dimensions, source.byte_strides, item)) {
        pack(to, source.data, source.dimensions, source.byte_strides, item);
      } else if (streaming_) {
        stream_bytes(to, static_cast<const char*>(source.data), array.bytes);
      } else {
        std::memcpy(to, source.data, array.bytes);
      }
    }
    if (streaming_) end_streaming();
  }

  void give_copied() noexcept {
    for (;;) {
      size_t piece;
      {
        std::lock_guard lock(copied_mutex_);
        if (copied_.empty()) return;
        piece = copied_.back();
        copied_.pop_back();
      }
      for (size_t i = pieces_[piece]; i < pieces_[piece + 1]; ++i) give_array(placement_.arrays[i]);
    }
  }

  void give_array(const Placed& array) noexcept {
    const HostToDeviceCopy& copy = copies_[array.index];
    SharedBlock* const block = blocks_[array.block].get();
    try {
      pjrt::HostTransfer given = give(client_, copy.device, block->data() + array.offset,
                                      {copy.source.type, copy.source.dimensions},
                                      pjrt::HostBufferSemantics::kMutableZeroCopy);
      block->add_user();
      take_(array.index, until_done(std::move(given), [block]() noexcept { block->drop_user(); }));
    } catch (...) {
      errors_[array.index] = std::current_exception();
    }
  }

  const pjrt::Client& client_;
  const std::span<const HostToDeviceCopy> copies_;
  const Placement& placement_;
  const TakeBuffer& take_;
  const std::span<std::exception_ptr> errors_;
  const std::vector<size_t> pieces_;
  const bool streaming_;
  std::vector<std::unique_ptr<SharedBlock, DropUser>> blocks_;
  std::mutex copied_mutex_;
  std::vector<size_t> copied_;  // pieces to be given
  std::mutex giving_;
};

}  // namespace

void host_to_device(const pjrt::Client& client, std::span<const HostToDeviceCopy> copies,
                    const TakeBuffer& take) {
  std::vector<std::exception_ptr> errors(copies.size());
  const auto make = [&](size_t i) noexcept {
    try {
      take(i, host_to_device(client, copies[i].device, copies[i].source, copies[i].hold_source));
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  base::BlockingRegion region;
  const bool may_share = copies.size() > 1 && uses_host_memory(client);
  Placement placement;
  placement.arrays.reserve(copies.size());
  std::vector<size_t> small;
  for (size_t i = 0; i < copies.size(); ++i) {
    const HostSource& source = copies[i].source;
    const size_t bytes = array_bytes({source.type, source.dimensions});
    if (bytes > kSmallTransfer) {
      make(i);
    } else if (may_share && bytes >= kSmallestShared && pjrt::bit_width(source.type) >= 8) {
      place(placement, i, bytes);
    } else {
      small.push_back(i);
    }
  }
  if (!placement.arrays.empty()) {
    HostToDeviceFigures& figures = HostToDeviceFigures::instance();
    MeasuredTransfer measured(figures.all, placement.bytes,
                              static_cast<int64_t>(placement.arrays.size()));
    measured.took(figures.batched);
    SharedTransfer(client, copies, placement, take, errors).run();
  }
  constexpr size_t kBatch = 8;
  TransferThreads::run((small.size() + kBatch - 1) / kBatch, [&](size_t batch) {
    for (size_t i = batch * kBatch; i < std::min(small.size(), (batch + 1) * kBatch); ++i) {
      make(small[i]);
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<pjrt::Buffer> host_to_device(const pjrt::Client& client,
                                         std::span<const HostToDeviceCopy> copies) {
  std::vector<pjrt::Buffer> buffers(copies.size());
  host_to_device(client, copies,
                 [&](size_t i, pjrt::Buffer buffer) { buffers[i] = std::move(buffer); });
  return buffers;
}

}  // namespace torch_pjrt::transfer
