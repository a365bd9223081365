#include "types.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "counts.h"
#include "errors.h"
#include "options.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

struct TypeName {
  PJRT_Buffer_Type type;
  std::string_view spelling;  // of the header: F64
};
constexpr TypeName kTypes[] = {
#define CHAOS_ELEMENT_TYPE(spelling) {PJRT_Buffer_Type_##spelling, #spelling},
#include "element_types.inc"
#undef CHAOS_ELEMENT_TYPE
};

struct Set {
  std::string_view name;
  std::vector<std::string_view> members;
};
const Set kSets[] = {
    {"tpu", {"f64", "s64", "u64", "c128"}},
    {"neuron", {"f64", "s16", "u16", "s64", "u64", "c64", "c128"}},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view spelling(PJRT_Buffer_Type type) {
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.spelling;
  }
  return "?";
}

// As StableHLO spells it: i64, ui8, i1, f8E4M3FN, complex<f32>.
std::string in_mlir(std::string_view spelling) {
  if (spelling == "PRED") return "i1";
  if (spelling == "C64") return "complex<f32>";
  if (spelling == "C128") return "complex<f64>";
  const std::string rest(spelling.substr(1));
  if (spelling.front() == 'S') return "i" + rest;
  if (spelling.front() == 'U') return "ui" + rest;
  if (spelling.front() == 'F') return "f" + rest;
  return lower(spelling);
}

bool lacks(PJRT_Buffer_Type type) {
  const auto index = static_cast<size_t>(type);
  return index < 64 && options().lacks[index];
}

PJRT_Error* refusal(PJRT_Buffer_Type type, std::string_view what) {
  add(Count::kTypesRefused);
  return make_error(PJRT_Error_Code_UNIMPLEMENTED, "chaos: this device has no type " +
                                                       lower(spelling(type)) + "; asked for by " +
                                                       std::string(what));
}

PJRT_Error* refuse(PJRT_Buffer_Type type, std::string_view what) {
  return lacks(type) ? refusal(type, what) : nullptr;
}

// The end of a bracketed text that begins at `open`.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>' && text[i - 1] != '-' && --depth == 0) return i;
  }
  return text.size();
}

// Whether the tensor type at `at` is that of an attribute (`name = dense<...> : tensor<...>`),
// which is no value on the device. A constant's has no `=` before `dense`.
bool is_attribute(std::string_view text, size_t at) {
  std::string_view before = text.substr(0, at);
  const auto skip = [&](std::string_view part) {
    while (!before.empty() && before.back() == ' ') before.remove_suffix(1);
    if (!before.ends_with(part)) return false;
    before.remove_suffix(part.size());
    return true;
  };
  if (!skip(":") || !skip(">")) return false;
  const size_t dense = before.rfind("dense<");
  if (dense == std::string_view::npos || closing(text, dense + 5) != before.size()) return false;
  before = before.substr(0, dense);
  return skip("=");
}

// The element type in `2x?x3xf32, #layout`.
std::string_view element_of(std::string_view tensor) {
  size_t at = 0;
  for (size_t i = 0; i < tensor.size(); ++i) {
    if (tensor[i] == 'x') {
      at = i + 1;
    } else if (std::isdigit(static_cast<unsigned char>(tensor[i])) == 0 && tensor[i] != '?') {
      break;
    }
  }
  tensor.remove_prefix(at);
  return tensor.substr(0, tensor.find(','));
}

bool is_text(std::string_view program, std::string_view format) {
  return format == "mlir" && !program.starts_with("ML\xefR");
}

PJRT_Error* refuse_program(const PJRT_Program* program) {
  if (options().lacks.none() || program == nullptr) return nullptr;
  const std::string_view text(program->code, program->code_size);
  if (!is_text(text, {program->format, program->format_size})) return nullptr;
  constexpr std::string_view kTensor = "tensor<";
  for (size_t at = text.find(kTensor); at != std::string_view::npos;
       at = text.find(kTensor, at + 1)) {
    const size_t open = at + kTensor.size() - 1;
    const std::string_view element =
        element_of(text.substr(open + 1, closing(text, open) - open - 1));
    for (const TypeName& known : kTypes) {
      if (lacks(known.type) && in_mlir(known.spelling) == element && !is_attribute(text, at)) {
        return refusal(known.type, "a program");
      }
    }
  }
  return nullptr;
}

PJRT_Error* refuse_outputs(PJRT_Executable* executable) {
  if (options().lacks.none()) return nullptr;
  CHAOS_ARGS(PJRT_Executable_OutputElementTypes, args);
  args.executable = executable;
  if (ask(&PJRT_Api::PJRT_Executable_OutputElementTypes, args)) return nullptr;
  for (size_t i = 0; i < args.num_output_types; ++i) {
    if (PJRT_Error* error = refuse(args.output_types[i], "a program's output")) return error;
  }
  return nullptr;
}

void destroy(PJRT_Executable* executable) {
  CHAOS_ARGS(PJRT_Executable_Destroy, args);
  args.executable = executable;
  ask(&PJRT_Api::PJRT_Executable_Destroy, args);
}

PJRT_Error* refuse_loaded(PJRT_LoadedExecutable*& loaded) {
  if (options().lacks.none()) return nullptr;
  CHAOS_ARGS(PJRT_LoadedExecutable_GetExecutable, args);
  args.loaded_executable = loaded;
  if (ask(&PJRT_Api::PJRT_LoadedExecutable_GetExecutable, args)) return nullptr;
  PJRT_Error* const error = refuse_outputs(args.executable);
  destroy(args.executable);
  if (error != nullptr) {
    CHAOS_ARGS(PJRT_LoadedExecutable_Destroy, destroy_args);
    destroy_args.executable = loaded;
    ask(&PJRT_Api::PJRT_LoadedExecutable_Destroy, destroy_args);
    loaded = nullptr;
  }
  return error;
}

}  // namespace

bool add_types(std::string_view name, std::bitset<64>& types) {
  for (const Set& set : kSets) {
    if (set.name != name) continue;
    for (const std::string_view member : set.members) add_types(member, types);
    return true;
  }
  for (const TypeName& known : kTypes) {
    if (known.type == PJRT_Buffer_Type_INVALID || lower(known.spelling) != name) continue;
    types.set(static_cast<size_t>(known.type));
    return true;
  }
  return false;
}

std::string type_sets() {
  std::string text;
  for (const Set& set : kSets) {
    text.append(text.empty() ? "" : ", ").append(set.name).append(" (");
    for (const std::string_view member : set.members) {
      text.append(member == set.members.front() ? "" : " ").append(member);
    }
    text.append(")");
  }
  return text;
}

int bit_width(PJRT_Buffer_Type type) noexcept {
  // The first number in the name counts the bits: S64, BF16, F8E4M3FN, C128.
  if (type == PJRT_Buffer_Type_PRED) return 8;
  int bits = 0;
  for (const char c : spelling(type)) {
    if (c >= '0' && c <= '9') {
      bits = 10 * bits + (c - '0');
    } else if (bits != 0) {
      break;
    }
  }
  return bits;
}

int64_t host_bytes(PJRT_Buffer_Type type, const int64_t* dimensions, size_t rank) noexcept {
  int64_t bytes = (bit_width(type) + 7) / 8;
  for (size_t i = 0; i < rank; ++i) bytes *= dimensions[i];
  return bytes;
}

PJRT_Error* refuse_types(const PJRT_Client_BufferFromHostBuffer_Args& args) {
  return refuse(args.type, "PJRT_Client_BufferFromHostBuffer");
}
PJRT_Error* refuse_types(const PJRT_Client_CreateUninitializedBuffer_Args& args) {
  return refuse(args.shape_element_type, "PJRT_Client_CreateUninitializedBuffer");
}
PJRT_Error* refuse_types(const PJRT_Client_CreateAliasBuffer_Args& args) {
  return refuse(args.shape_element_type, "PJRT_Client_CreateAliasBuffer");
}
PJRT_Error* refuse_types(const PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  return refuse(args.element_type, "PJRT_Client_CreateViewOfDeviceBuffer");
}
PJRT_Error* refuse_types(const PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
  for (size_t i = 0; i < args.num_shape_specs; ++i) {
    if (PJRT_Error* error = refuse(args.shape_specs[i].element_type,
                                   "PJRT_Client_CreateBuffersForAsyncHostToDevice")) {
      return error;
    }
  }
  return nullptr;
}
PJRT_Error* refuse_types(const PJRT_Client_Compile_Args& args) {
  return refuse_program(args.program);
}
PJRT_Error* refuse_types(const PJRT_Compile_Args& args) { return refuse_program(args.program); }

PJRT_Error* refuse_made_types(PJRT_Client_Compile_Args& args) {
  return refuse_loaded(args.executable);
}
PJRT_Error* refuse_made_types(PJRT_Compile_Args& args) {
  PJRT_Error* const error = refuse_outputs(args.executable);
  if (error != nullptr) {
    destroy(args.executable);
    args.executable = nullptr;
  }
  return error;
}
PJRT_Error* refuse_made_types(PJRT_Executable_DeserializeAndLoad_Args& args) {
  return refuse_loaded(args.loaded_executable);
}

}  // namespace pjrt_chaos
