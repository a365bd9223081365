#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_pjrt::pjrt {

// Writes protocol buffer fields. A nested message is written with a writer of its own and put in by
// `bytes`.
class ProtoWriter {
 public:
  void integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void real(int field, double value) {
    tag(field, 1);
    auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) out_ += static_cast<char>(bits & 0xff);
  }
  void bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    out_ += value;
  }

  const std::string& text() const noexcept { return out_; }

 private:
  void tag(int field, int wire_type) {
    varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }

  std::string out_;
};

}  // namespace torch_pjrt::pjrt
