#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace torch_pjrt::transfer {

// Stores that go past the caches: the target's lines are not read first, and what is in the caches
// stays. A third faster than memcpy for arrays that no cache holds. Elsewhere than on x86 these
// are plain copies.

// From this size on an array is taken to be too large for the caches.
constexpr size_t kStreamingBytes = size_t{8} << 20;

// Writes one whole line; `to` must be aligned to 64 bytes.
inline void stream_line(char* to, const char* from) noexcept {
#if defined(__SSE2__)
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1),
                c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
#else
  std::memcpy(to, from, 64);
#endif
}

// Orders streamed stores before later ones, so that another thread that is told of the data sees
// it. To be called after the last one.
inline void end_streaming() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// memcpy by streamed lines; end_streaming() must follow.
inline void stream_bytes(char* to, const char* from, size_t bytes) noexcept {
  size_t head = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  if (head > bytes) head = bytes;
  std::memcpy(to, from, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64) stream_line(to + i, from + i);
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace torch_pjrt::transfer
