#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>

namespace torch_pjrt::base {

// A vector of trivially copyable values that keeps up to N of them in place.
// Recording an operator creates several short lists; a heap allocation for each would cost more
// than the rest of the record.
template <typename T, size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineVector() noexcept = default;
  explicit InlineVector(size_t count, T value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> values) { append(values.begin(), values.size()); }
  template <std::input_iterator Iterator>
  InlineVector(Iterator first, Iterator last) {
    for (; first != last; ++first) push_back(*first);
  }
  InlineVector(std::span<const T> values) { append(values.data(), values.size()); }
  InlineVector(const InlineVector& other) { append(other.data(), other.size()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) {
      size_ = 0;
      append(other.data(), other.size());
    }
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~InlineVector() { release(); }

  T* data() noexcept { return heap_ ? heap_ : inline_; }
  const T* data() const noexcept { return heap_ ? heap_ : inline_; }
  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  T& operator[](size_t i) noexcept { return data()[i]; }
  const T& operator[](size_t i) const noexcept { return data()[i]; }
  T& back() noexcept { return data()[size_ - 1]; }
  const T& back() const noexcept { return data()[size_ - 1]; }

  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }
  void resize(size_t count, T value = T()) {
    if (count > capacity_) grow(count);
    for (size_t i = size_; i < count; ++i) data()[i] = value;
    size_ = count;
  }
  void append(const T* values, size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    if (count) std::memcpy(static_cast<void*>(data() + size_), values, count * sizeof(T));
    size_ += count;
  }
  void insert(size_t position, T value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase(size_t position) noexcept {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }

  operator std::span<const T>() const noexcept { return {data(), size_}; }
  friend bool operator==(const InlineVector& a, const InlineVector& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void grow(size_t needed) {
    const size_t capacity = std::max(needed, capacity_ * 2);
    T* heap = new T[capacity];
    std::memcpy(static_cast<void*>(heap), data(), size_ * sizeof(T));
    release();
    heap_ = heap;
    capacity_ = capacity;
  }
  void release() noexcept {
    delete[] heap_;
    heap_ = nullptr;
    capacity_ = N;
  }
  void take(InlineVector& other) noexcept {
    heap_ = other.heap_;
    capacity_ = other.capacity_;
    size_ = other.size_;
    if (!heap_) std::memcpy(static_cast<void*>(inline_), other.inline_, size_ * sizeof(T));
    other.heap_ = nullptr;
    other.capacity_ = N;
    other.size_ = 0;
  }

  T* heap_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = N;
  T inline_[N];
};

}  // namespace torch_pjrt::base
