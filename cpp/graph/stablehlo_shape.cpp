#include <algorithm>

#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

int64_t product(Ints values) {
  int64_t count = 1;
  for (int64_t v : values) count *= v;
  return count;
}

void require_length(std::string_view what, std::string_view name, Ints values, int64_t rank) {
  if (static_cast<int64_t>(values.size()) == rank) return;
  fail(what, std::string(name) + " has the wrong length", to_string(values),
       std::to_string(rank) + " values, one a dimension");
}

}  // namespace

Operand StableHloBuilder::reshape(Operand x, Ints dimensions) {
  constexpr std::string_view kName = "stablehlo.reshape";
  Statement::check(*this, kName, x);
  Type type{x.element(), Dimensions(std::span<const int64_t>(dimensions))};
  const int64_t count = x.type().element_count();
  const auto open = std::find(type.dimensions.begin(), type.dimensions.end(), -1);
  if (open != type.dimensions.end()) {
    *open = 1;
    const int64_t rest = product(type.dimensions);
    if (rest > 0 && count % rest == 0) *open = count / rest;
  }
  if (type.element_count() != count || std::any_of(type.dimensions.begin(), type.dimensions.end(),
                                                   [](int64_t d) { return d < 0; })) {
    fail(kName, "the number of elements changes",
         to_string(x.type()) + " to " + to_string(dimensions), std::to_string(count) + " elements");
  }
  if (type.dimensions == x.dimensions()) return x;
  Statement s(*this, kName, type);
  s.text(" ").operand(x).signature({x});
  return s.end();
}

Operand StableHloBuilder::transpose(Operand x, Ints permutation) {
  constexpr std::string_view kName = "stablehlo.transpose";
  Statement::check(*this, kName, x);
  require_length(kName, "the permutation", permutation, x.rank());
  Type type{x.element(), {}};
  Dimensions dims;
  Dimensions seen(static_cast<size_t>(x.rank()), 0);
  bool moves = false;
  for (int64_t d : permutation) {
    const int64_t dim = normalized_dim(d, x.rank(), kName);
    if (seen[static_cast<size_t>(dim)]++) {
      fail(kName, "a dimension is named twice", to_string(permutation), "a permutation");
    }
    moves = moves || dim != dims.end() - dims.begin();
    dims.push_back(dim);
    type.dimensions.push_back(x.dimensions()[static_cast<size_t>(dim)]);
  }
  if (!moves) return x;
  Statement s(*this, kName, type);
  s.text(" ").operand(x).text(", dims = ").list(dims).signature({x});
  return s.end();
}

Operand StableHloBuilder::swap_dimensions(Operand x, int64_t a, int64_t b) {
  Dimensions permutation = all_dims(x);
  std::swap(permutation[static_cast<size_t>(normalized_dim(a, x.rank(), "swap_dimensions"))],
            permutation[static_cast<size_t>(normalized_dim(b, x.rank(), "swap_dimensions"))]);
  return transpose(x, permutation);
}

Operand StableHloBuilder::unsqueeze(Operand x, int64_t dim) {
  Dimensions dimensions = x.dimensions();
  dimensions.insert(static_cast<size_t>(normalized_dim(dim, x.rank() + 1, "unsqueeze")), 1);
  return reshape(x, dimensions);
}

Operand StableHloBuilder::squeeze(Operand x, int64_t dim) {
  dim = normalized_dim(dim, x.rank(), "squeeze");
  if (x.dimension(dim) != 1) {
    fail("squeeze", "the dimension is not 1", to_string(x.type()), {}, "reshape or slice it");
  }
  Dimensions dimensions = x.dimensions();
  dimensions.erase(static_cast<size_t>(dim));
  return reshape(x, dimensions);
}

Operand StableHloBuilder::broadcast_to(Operand x, Ints dimensions) {
  constexpr std::string_view kName = "broadcast_to";
  Statement::check(*this, kName, x);
  const auto rank = static_cast<int64_t>(dimensions.size());
  Dimensions mapping;
  for (int64_t i = 0; i < x.rank(); ++i) mapping.push_back(rank - x.rank() + i);
  bool fits = rank >= x.rank();
  for (size_t i = 0; fits && i < mapping.size(); ++i) {
    const int64_t size = x.dimensions()[i];
    fits = size == 1 || size == dimensions[static_cast<size_t>(mapping[i])];
  }
  if (!fits) {
    fail(kName, "the shapes do not broadcast", to_string(x.type()) + " to " + to_string(dimensions),
         "each dimension equal or 1, aligned at the end");
  }
  return broadcast_in_dim(x, dimensions, mapping);
}

Operand StableHloBuilder::broadcast_in_dim(Operand x, Ints dimensions, Ints mapping) {
  constexpr std::string_view kName = "stablehlo.broadcast_in_dim";
  Statement::check(*this, kName, x);
  require_length(kName, "the mapping", mapping, x.rank());
  const Type type{x.element(), Dimensions(std::span<const int64_t>(dimensions))};
  for (size_t i = 0; i < mapping.size(); ++i) {
    const int64_t size = x.dimensions()[i];
    const bool fits =
        mapping[i] >= 0 && mapping[i] < type.rank() &&
        (size == 1 || size == dimensions[static_cast<size_t>(mapping[i])]) &&
        std::find(mapping.begin(), mapping.begin() + i, mapping[i]) == mapping.begin() + i;
    if (!fits) {
      fail(kName, "dimension " + std::to_string(i) + " does not map",
           to_string(x.type()) + " to " + to_string(dimensions) + " by " + to_string(mapping),
           "distinct dimensions of equal size, or size 1");
    }
  }
  if (type.dimensions == x.dimensions() && std::is_sorted(mapping.begin(), mapping.end())) return x;
  Statement s(*this, kName, type);
  s.text(" ").operand(x).text(", dims = ").list(mapping).signature({x});
  return s.end();
}

std::pair<Operand, Operand> StableHloBuilder::broadcast_together(Operand a, Operand b) {
  constexpr std::string_view kName = "broadcast_together";
  Statement::check(*this, kName, a);
  Statement::check(*this, kName, b);
  const Dimensions& left = a.dimensions();
  const Dimensions& right = b.dimensions();
  const size_t rank = std::max(left.size(), right.size());
  Dimensions common;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t l = i + left.size() < rank ? 1 : left[i + left.size() - rank];
    const int64_t r = i + right.size() < rank ? 1 : right[i + right.size() - rank];
    if (l != r && l != 1 && r != 1) {
      fail(kName, "the shapes do not broadcast",
           to_string(a.type()) + " and " + to_string(b.type()),
           "each dimension equal or 1, aligned at the end");
    }
    common.push_back(l == 1 ? r : l);
  }
  return {broadcast_to(a, common), broadcast_to(b, common)};
}

Operand StableHloBuilder::concatenate(OperandList operands, int64_t dim) {
  constexpr std::string_view kName = "stablehlo.concatenate";
  if (operands.empty()) fail(kName, "nothing to concatenate", "0 operands", "at least 1");
  Statement::check(*this, kName, operands);
  Type type = type_of(operands[0]);
  dim = normalized_dim(dim, type.rank(), kName);
  for (const Operand& x : operands.subspan(1)) {
    Type other = type_of(x);
    bool fits = other.rank() == type.rank();
    if (fits) {
      const int64_t size = other.dimensions[static_cast<size_t>(dim)];
      other.dimensions[static_cast<size_t>(dim)] = type.dimensions[static_cast<size_t>(dim)];
      fits = other == type;
      type.dimensions[static_cast<size_t>(dim)] += size;
    }
    if (!fits) {
      fail(kName, "operand types differ outside dimension " + std::to_string(dim),
           to_string(type_of(operands[0])) + " and " + to_string(type_of(x)),
           "types equal but for that dimension");
    }
  }
  if (operands.size() == 1) return operands[0];
  Statement s(*this, kName, type);
  s.text(" ").operands(operands).text(", dim = ").number(dim).signature(operands);
  return s.end();
}

Operand StableHloBuilder::stack(OperandList operands, int64_t dim) {
  Operands rows;
  for (const Operand& x : operands) rows.push_back(unsqueeze(x, dim));
  if (rows.empty()) fail("stack", "nothing to stack", "0 operands", "at least 1");
  return concatenate(rows, normalized_dim(dim, rows[0].rank(), "stack"));
}

Operand StableHloBuilder::slice(Operand x, Ints starts, Ints limits, Ints strides) {
  constexpr std::string_view kName = "stablehlo.slice";
  Statement::check(*this, kName, x);
  require_length(kName, "starts", starts, x.rank());
  require_length(kName, "limits", limits, x.rank());
  if (!strides.empty()) require_length(kName, "strides", strides, x.rank());
  Type type{x.element(), {}};
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t stride = strides.empty() ? 1 : strides[i];
    if (starts[i] < 0 || limits[i] < starts[i] || limits[i] > x.dimensions()[i] || stride < 1) {
      fail(kName, "dimension " + std::to_string(i) + " is cut out of range",
           to_string(starts) + " to " + to_string(limits) + " by " + to_string(strides) + " of " +
               to_string(x.type()),
           "0 <= start <= limit <= size and stride > 0");
    }
    type.dimensions.push_back((limits[i] - starts[i] + stride - 1) / stride);
  }
  if (type.dimensions == x.dimensions()) return x;
  Statement s(*this, kName, type);
  s.text(" ").operand(x).text(" [");
  for (size_t i = 0; i < starts.size(); ++i) {
    if (i) s.text(", ");
    s.number(starts[i]).text(":").number(limits[i]);
    if (!strides.empty() && strides[i] != 1) s.text(":").number(strides[i]);
  }
  s.text("]").signature({x});
  return s.end();
}

Operand StableHloBuilder::slice_dim(Operand x, int64_t dim, int64_t start, int64_t limit,
                                    int64_t stride) {
  const auto d = static_cast<size_t>(normalized_dim(dim, x.rank(), "slice_dim"));
  Dimensions starts(static_cast<size_t>(x.rank()), 0);
  Dimensions limits = x.dimensions();
  Dimensions strides(static_cast<size_t>(x.rank()), 1);
  starts[d] = start;
  limits[d] = limit;
  strides[d] = stride;
  return slice(x, starts, limits, strides);
}

Operand StableHloBuilder::select_index(Operand x, int64_t dim, int64_t index) {
  const int64_t size = x.dimension(dim);
  if (index < -size || index >= size) {
    fail("select_index", "the index is out of range", std::to_string(index),
         "an index of a dimension of size " + std::to_string(size));
  }
  if (index < 0) index += size;
  return squeeze(slice_dim(x, dim, index, index + 1), dim);
}

namespace {

void check_starts(std::string_view what, Operand x, OperandList starts) {
  if (static_cast<int64_t>(starts.size()) != x.rank()) {
    fail(what, "starts has the wrong length", std::to_string(starts.size()),
         std::to_string(x.rank()) + ", one a dimension");
  }
  for (const Operand& start : starts) {
    if (start.rank() != 0 || !pjrt::is_integral(start.element()) ||
        start.element() != starts[0].element()) {
      fail(what, "a start is no index", to_string(start.type()), "scalars of one integer type");
    }
  }
}

}  // namespace

Operand StableHloBuilder::dynamic_slice(Operand x, OperandList starts, Ints sizes) {
  constexpr std::string_view kName = "stablehlo.dynamic_slice";
  Statement::check(*this, kName, x);
  Statement::check(*this, kName, starts);
  check_starts(kName, x, starts);
  require_length(kName, "sizes", sizes, x.rank());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > x.dimensions()[i]) {
      fail(kName, "the sizes do not fit", to_string(sizes) + " of " + to_string(x.type()));
    }
  }
  Operands operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  Statement s(*this, kName, Type{x.element(), Dimensions(std::span<const int64_t>(sizes))});
  s.text(" ").operands(operands).text(", sizes = ").list(sizes).signature(operands);
  return s.end();
}

Operand StableHloBuilder::dynamic_update_slice(Operand x, Operand update, OperandList starts) {
  constexpr std::string_view kName = "stablehlo.dynamic_update_slice";
  Statement::check(*this, kName, x);
  Statement::check(*this, kName, update);
  Statement::check(*this, kName, starts);
  check_starts(kName, x, starts);
  bool fits = update.rank() == x.rank() && update.element() == x.element();
  for (size_t i = 0; fits && i < x.dimensions().size(); ++i) {
    fits = update.dimensions()[i] <= x.dimensions()[i];
  }
  if (!fits) {
    fail(kName, "the update does not fit", to_string(update.type()),
         "no larger than " + to_string(x.type()) + " and of its element type");
  }
  Operands operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  Statement s(*this, kName, x.type());
  s.text(" ").operands(operands).signature(operands);
  return s.end();
}

Operand StableHloBuilder::pad(Operand x, Term value, Ints low, Ints high, Ints interior) {
  constexpr std::string_view kName = "stablehlo.pad";
  Statement::check(*this, kName, x);
  require_length(kName, "low", low, x.rank());
  require_length(kName, "high", high, x.rank());
  const Dimensions none(static_cast<size_t>(x.rank()), 0);
  if (interior.empty()) interior = none;
  require_length(kName, "interior", interior, x.rank());
  const Operand filler = value.is_operand() ? value.operand() : scalar(x.element(), value.number());
  Statement::check(*this, kName, filler);
  if (filler.rank() != 0 || filler.element() != x.element()) {
    fail(kName, "the padding value does not fit", to_string(filler.type()),
         to_string(Type{x.element(), {}}));
  }
  Type type{x.element(), {}};
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t size = x.dimensions()[i];
    const int64_t padded = size + low[i] + high[i] + (size > 0 ? (size - 1) * interior[i] : 0);
    if (padded < 0 || interior[i] < 0) {
      fail(kName, "dimension " + std::to_string(i) + " becomes negative",
           "low " + to_string(low) + ", high " + to_string(high) + " of " + to_string(x.type()),
           "a size of at least 0");
    }
    type.dimensions.push_back(padded);
  }
  const auto zero = [](int64_t v) { return v == 0; };
  if (std::all_of(low.begin(), low.end(), zero) && std::all_of(high.begin(), high.end(), zero) &&
      std::all_of(interior.begin(), interior.end(), zero)) {
    return x;
  }
  Statement s(*this, kName, type);
  s.text(" ").operands({x, filler}).text(", low = ").list(low).text(", high = ").list(high);
  s.text(", interior = ").list(interior).signature({x, filler});
  return s.end();
}

Operand StableHloBuilder::reverse(Operand x, Ints dims) {
  constexpr std::string_view kName = "stablehlo.reverse";
  Statement::check(*this, kName, x);
  Dimensions reversed;
  for (int64_t d : dims) {
    const int64_t dim = normalized_dim(d, x.rank(), kName);
    if (std::find(reversed.begin(), reversed.end(), dim) != reversed.end()) {
      fail(kName, "a dimension is named twice", to_string(dims), "distinct dimensions");
    }
    reversed.push_back(dim);
  }
  if (reversed.empty()) return x;
  Statement s(*this, kName, x.type());
  s.text(" ").operand(x).text(", dims = ").list(reversed).text(" : ").type(x.type());
  return s.end();
}

}  // namespace torch_pjrt::graph
