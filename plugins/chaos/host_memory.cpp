#include "host_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "counts.h"
#include "options.h"
#include "types.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

constexpr char kPattern = static_cast<char>(0xA5);

// Calls `visit(offset)` for each element, in row-major order; offsets are bytes from `data`.
template <typename Visit>
void for_each_item(const HostPlaces& places, const Visit& visit) {
  const size_t rank = places.dimensions.size();
  if (std::find(places.dimensions.begin(), places.dimensions.end(), 0) != places.dimensions.end()) {
    return;
  }
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (;;) {
    visit(offset);
    size_t d = rank;
    for (; d > 0; --d) {
      offset += places.byte_strides[d - 1];
      if (++index[d - 1] < places.dimensions[d - 1]) break;
      offset -= places.byte_strides[d - 1] * places.dimensions[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

std::vector<char> gather(const HostPlaces& places) {
  std::vector<char> bytes;
  for_each_item(places, [&](int64_t offset) {
    bytes.insert(bytes.end(), places.data + offset, places.data + offset + places.item);
  });
  return bytes;
}

HostPlaces one_run(const void* data, size_t bytes) {
  HostPlaces places;
  places.data = static_cast<char*>(const_cast<void*>(data));
  places.item = bytes;
  return places;
}

HostPlaces strided(const void* data, PJRT_Buffer_Type type, const int64_t* dimensions,
                   const int64_t* byte_strides, size_t rank) {
  HostPlaces places = one_run(data, static_cast<size_t>(bit_width(type) + 7) / 8);
  places.dimensions.assign(dimensions, dimensions + rank);
  places.byte_strides.assign(byte_strides, byte_strides + rank);
  return places;
}

HostPlaces source_of(const PJRT_Client_BufferFromHostBuffer_Args& args) {
  if (args.num_byte_strides == args.num_dims && args.num_dims > 0) {
    return strided(args.data, args.type, args.dims, args.byte_strides, args.num_dims);
  }
  return one_run(args.data, static_cast<size_t>(host_bytes(args.type, args.dims, args.num_dims)));
}

}  // namespace

struct SourceWatch::State {
  HostPlaces places;
  std::string function;
  std::vector<char> before;

  ErrorText compare() const {
    add(Count::kSourcesChecked);
    const std::vector<char> now = gather(places);
    if (now == before) return {};
    add(Count::kSourcesChanged);
    const auto at = std::mismatch(now.begin(), now.end(), before.begin()).first - now.begin();
    const std::string message = "chaos: the host source of " + function +
                                " changed before its done event, at byte " + std::to_string(at) +
                                " of " + std::to_string(now.size());
    std::fprintf(stderr, "%s\n", message.c_str());
    return {PJRT_Error_Code_FAILED_PRECONDITION, message};
  }
};

void SourceWatch::watch(HostPlaces places, const char* function) {
  auto state = std::make_shared<State>();
  state->before = gather(places);
  state->places = std::move(places);
  state->function = function;
  state_ = std::move(state);
}

Completion SourceWatch::completion() {
  if (state_ == nullptr) return {};
  return [state = state_] { return state->compare(); };
}

HostMemoryWatch<PJRT_Client_BufferFromHostBuffer_Args>::HostMemoryWatch(
    PJRT_Client_BufferFromHostBuffer_Args& args) {
  const bool must_stay =
      args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes ||
      args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy;
  if (!options().check_host_memory || !must_stay || args.data == nullptr) return;
  watch(source_of(args), "PJRT_Client_BufferFromHostBuffer");
}

HostMemoryWatch<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>::HostMemoryWatch(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args) {
  if (!options().check_host_memory || args.data == nullptr || args.transfer_size <= 0) return;
  watch(one_run(args.data, static_cast<size_t>(args.transfer_size)),
        "PJRT_AsyncHostToDeviceTransferManager_TransferData");
}

struct TargetWatch::State {
  char* target;
  size_t bytes;
  std::vector<char> written;  // by the wrapped plugin
};

void* TargetWatch::watch(void* target, size_t bytes, size_t room) {
  state_ = std::make_shared<State>(
      State{static_cast<char*>(target), bytes, std::vector<char>(std::max(bytes, room))});
  return state_->written.data();
}

Completion TargetWatch::completion() {
  if (state_ == nullptr) return {};
  add(Count::kTargetsFilled);
  std::memset(state_->target, kPattern, state_->bytes);
  return [state = state_]() -> ErrorText {
    std::memcpy(state->target, state->written.data(), state->bytes);
    return {};
  };
}

HostMemoryWatch<PJRT_Buffer_ToHostBuffer_Args>::HostMemoryWatch(PJRT_Buffer_ToHostBuffer_Args& args)
    : args_(args), target_(args.dst) {
  // A target with gaps stays as it is: what lies between its elements is not ours to fill.
  const bool strided = args.host_layout != nullptr &&
                       args.host_layout->type == PJRT_Buffer_MemoryLayout_Type_Strides;
  if (!options().check_host_memory || args.dst == nullptr || strided) return;
  CHAOS_ARGS(PJRT_Buffer_ElementType, type);
  type.buffer = args.src;
  CHAOS_ARGS(PJRT_Buffer_Dimensions, shape);
  shape.buffer = args.src;
  if (ask(&PJRT_Api::PJRT_Buffer_ElementType, type) ||
      ask(&PJRT_Api::PJRT_Buffer_Dimensions, shape)) {
    return;
  }
  const auto bytes = static_cast<size_t>(host_bytes(type.type, shape.dims, shape.num_dims));
  if (bytes > 0 && bytes <= args.dst_size) args.dst = watch(args.dst, bytes, args.dst_size);
}

HostMemoryWatch<PJRT_Buffer_CopyRawToHost_Args>::HostMemoryWatch(
    PJRT_Buffer_CopyRawToHost_Args& args)
    : args_(args), target_(args.dst) {
  if (!options().check_host_memory || args.dst == nullptr || args.transfer_size <= 0) return;
  const auto bytes = static_cast<size_t>(args.transfer_size);
  args.dst = watch(args.dst, bytes, bytes);
}

}  // namespace pjrt_chaos
