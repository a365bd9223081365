// The plugin's own copies, as a client without this project's transfers would use them: a library
// that bench/transfer.py loads with ctypes. Each function waits for the end of the transfer, frees
// what it made, and returns the seconds, or a negative number on an error.
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>

#include "pjrt/client.h"
#include "pjrt/plugin.h"

namespace {

using torch_pjrt::pjrt::Buffer;
using torch_pjrt::pjrt::Client;
using torch_pjrt::pjrt::ElementType;
using torch_pjrt::pjrt::HostArray;
using torch_pjrt::pjrt::HostBufferSemantics;
using torch_pjrt::pjrt::HostTransfer;
using torch_pjrt::pjrt::Plugin;

struct Raw {
  std::shared_ptr<Client> client;
  Buffer buffer;  // what `raw_to_host` reads
};

template <typename Function>
double timed(Function function) noexcept {
  try {
    const auto start = std::chrono::steady_clock::now();
    function();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } catch (const std::exception& error) {
    std::cerr << "raw_plugin: " << error.what() << "\n";
    return -1;
  }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Raw* raw_open(const char* path) noexcept {
  try {
    return new Raw{Client::create(Plugin::load(path)), {}};
  } catch (const std::exception& error) {
    std::cerr << "raw_plugin: " << error.what() << "\n";
    return nullptr;
  }
}

// `byte_strides` may be null for a dense array. Keeps the buffer if asked to.
EXPORTED double raw_to_device(Raw* raw, const void* data, int type, int64_t rank,
                              const int64_t* dimensions, const int64_t* byte_strides,
                              int keep) noexcept {
  return timed([&] {
    HostArray array;
    array.data = data;
    array.type = static_cast<ElementType>(type);
    array.dimensions = {dimensions, static_cast<size_t>(rank)};
    if (byte_strides) array.byte_strides = {byte_strides, static_cast<size_t>(rank)};
    array.semantics = HostBufferSemantics::kImmutableUntilTransferCompletes;
    array.device = raw->client->addressable_devices().front();
    HostTransfer given = raw->client->buffer_from_host(array);
    given.buffer.ready_event().await();
    given.done_with_host_buffer.await();
    if (keep) raw->buffer = std::move(given.buffer);
  });
}

EXPORTED double raw_to_host(Raw* raw, void* data, int64_t bytes) noexcept {
  return timed([&] { raw->buffer.copy_to_host(data, static_cast<size_t>(bytes)).await(); });
}
