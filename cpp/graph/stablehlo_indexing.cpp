#include <algorithm>

#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

void require_indices(std::string_view what, Operand indices) {
  if (pjrt::is_integral(indices.element())) return;
  fail(what, "the indices are no integers", to_string(indices.type()), "an integer type",
       "convert them first");
}

bool in_range(const Dimensions& dims, int64_t rank) {
  return std::all_of(dims.begin(), dims.end(), [rank](int64_t d) { return d >= 0 && d < rank; });
}

// The sizes of the indices without the dimension that holds the index vectors.
Dimensions index_batch(Operand indices, int64_t index_vector) {
  Dimensions batch = indices.dimensions();
  if (index_vector < indices.rank()) batch.erase(static_cast<size_t>(index_vector));
  return batch;
}

int64_t index_vector_length(Operand indices, int64_t index_vector) {
  return index_vector < indices.rank() ? indices.dimension(index_vector) : 1;
}

}  // namespace

Operand StableHloBuilder::gather(Operand x, Operand indices, const GatherDimensions& d,
                                 Ints slice_sizes, IndexPromise promise) {
  constexpr std::string_view kName = "stablehlo.gather";
  Statement::check(*this, kName, {x, indices});
  require_indices(kName, indices);
  const int64_t rank = x.rank();
  Dimensions slice;
  bool fits = static_cast<int64_t>(slice_sizes.size()) == rank && d.index_vector >= 0 &&
              d.index_vector <= indices.rank() && in_range(d.collapsed_slice, rank) &&
              in_range(d.operand_batching, rank) && in_range(d.start_index_map, rank) &&
              in_range(d.start_indices_batching, indices.rank()) &&
              d.operand_batching.size() == d.start_indices_batching.size() &&
              index_vector_length(indices, d.index_vector) ==
                  static_cast<int64_t>(d.start_index_map.size());
  for (int64_t i = 0; fits && i < rank; ++i) {
    const int64_t size = slice_sizes[static_cast<size_t>(i)];
    const bool dropped = contains(d.collapsed_slice, i) || contains(d.operand_batching, i);
    fits = size >= 0 && size <= x.dimension(i) && (!dropped || size <= 1);
    if (!dropped) slice.push_back(size);
  }
  for (size_t i = 0; fits && i < d.operand_batching.size(); ++i) {
    fits = x.dimension(d.operand_batching[i]) == indices.dimension(d.start_indices_batching[i]);
  }
  const Dimensions batch = fits ? index_batch(indices, d.index_vector) : Dimensions();
  const size_t result_rank = batch.size() + slice.size();
  fits = fits && slice.size() == d.offset.size() &&
         in_range(d.offset, static_cast<int64_t>(result_rank));
  if (!fits) {
    fail(kName, "the dimension numbers do not fit",
         to_string(x.type()) + " and " + to_string(indices.type()) + ", slices " +
             to_string(slice_sizes) + ", offset " + to_string(d.offset) + ", collapsed " +
             to_string(d.collapsed_slice) + ", start index map " + to_string(d.start_index_map),
         "one slice size a dimension, 1 where collapsed or batching, and an index vector as long "
         "as the start index map");
  }
  Type type{x.element(), {}};
  for (size_t i = 0, from_slice = 0, from_batch = 0; i < result_rank; ++i) {
    type.dimensions.push_back(contains(d.offset, static_cast<int64_t>(i)) ? slice[from_slice++]
                                                                          : batch[from_batch++]);
  }
  Statement s(*this, "\"stablehlo.gather\"(", type);
  s.operands({x, indices}).text(") <{dimension_numbers = #stablehlo.gather<offset_dims = ");
  s.list(d.offset).text(", collapsed_slice_dims = ").list(d.collapsed_slice);
  s.text(", operand_batching_dims = ").list(d.operand_batching);
  s.text(", start_indices_batching_dims = ").list(d.start_indices_batching);
  s.text(", start_index_map = ").list(d.start_index_map).text(", index_vector_dim = ");
  s.number(d.index_vector).text(">, slice_sizes = ").array(slice_sizes);
  s.text(promise.sorted ? ", indices_are_sorted = true}>" : ", indices_are_sorted = false}>");
  s.signature({x, indices});
  return s.end();
}

Operand StableHloBuilder::scatter(Operand x, Operand indices, Operand updates,
                                  const ScatterDimensions& d, Reducer combiner,
                                  IndexPromise promise) {
  constexpr std::string_view kName = "stablehlo.scatter";
  Statement::check(*this, kName, {x, indices, updates});
  require_indices(kName, indices);
  const int64_t rank = x.rank();
  bool fits = x.element() == updates.element() && d.index_vector >= 0 &&
              d.index_vector <= indices.rank() && in_range(d.inserted_window, rank) &&
              in_range(d.input_batching, rank) && in_range(d.scatter_dims_to_operand, rank) &&
              in_range(d.update_window, updates.rank()) &&
              in_range(d.scatter_indices_batching, indices.rank()) &&
              d.input_batching.size() == d.scatter_indices_batching.size() &&
              index_vector_length(indices, d.index_vector) ==
                  static_cast<int64_t>(d.scatter_dims_to_operand.size()) &&
              static_cast<int64_t>(d.update_window.size() + d.inserted_window.size() +
                                   d.input_batching.size()) == rank;
  if (fits) {
    Dimensions window_sizes;
    for (int64_t i = 0; i < rank; ++i) {
      if (!contains(d.inserted_window, i) && !contains(d.input_batching, i)) {
        window_sizes.push_back(x.dimension(i));
      }
    }
    const Dimensions batch = index_batch(indices, d.index_vector);
    fits = window_sizes.size() == d.update_window.size() &&
           static_cast<size_t>(updates.rank()) == batch.size() + window_sizes.size();
    for (size_t i = 0, window = 0, place = 0; fits && i < updates.dimensions().size(); ++i) {
      const int64_t size = updates.dimensions()[i];
      fits = contains(d.update_window, static_cast<int64_t>(i)) ? size <= window_sizes[window++]
                                                                : size == batch[place++];
    }
  }
  if (!fits) {
    fail(kName, "the dimension numbers do not fit",
         to_string(x.type()) + ", " + to_string(indices.type()) + " and " +
             to_string(updates.type()) + ", update window " + to_string(d.update_window) +
             ", inserted " + to_string(d.inserted_window) + ", to operand " +
             to_string(d.scatter_dims_to_operand),
         "updates of the operand's element type, and windows no larger than the operand");
  }
  Statement s(*this, "\"stablehlo.scatter\"(", x.type());
  s.operands({x, indices, updates});
  s.text(") <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ");
  s.list(d.update_window).text(", inserted_window_dims = ").list(d.inserted_window);
  s.text(", input_batching_dims = ").list(d.input_batching);
  s.text(", scatter_indices_batching_dims = ").list(d.scatter_indices_batching);
  s.text(", scatter_dims_to_operand_dims = ").list(d.scatter_dims_to_operand);
  s.text(", index_vector_dim = ").number(d.index_vector).text(">, indices_are_sorted = ");
  s.text(promise.sorted ? "true" : "false").text(", unique_indices = ");
  s.text(promise.unique ? "true" : "false").text("}> (");
  s.reducer_region(combiner, x.element()).text(")").signature({x, indices, updates});
  return s.end();
}

Operand StableHloBuilder::take(Operand x, Operand indices, int64_t dim) {
  Statement::check(*this, "take", {x, indices});
  dim = normalized_dim(dim, x.rank(), "take");
  GatherDimensions d;
  Dimensions slice_sizes = x.dimensions();
  slice_sizes[static_cast<size_t>(dim)] = std::min<int64_t>(1, x.dimension(dim));
  for (int64_t i = 0; i < dim; ++i) d.offset.push_back(i);
  for (int64_t i = dim + 1; i < x.rank(); ++i) d.offset.push_back(i + indices.rank() - 1);
  d.collapsed_slice = {dim};
  d.start_index_map = {dim};
  d.index_vector = indices.rank();
  return gather(x, indices, d, slice_sizes);
}

namespace {

// x cut to the index's sizes outside dim, as torch.gather allows a smaller index.
Operand cut_to(StableHloBuilder& b, std::string_view what, Operand x, Operand index, int64_t dim) {
  bool fits = x.rank() == index.rank();
  Dimensions limits = x.dimensions();
  for (int64_t i = 0; fits && i < x.rank(); ++i) {
    if (i == dim) continue;
    fits = index.dimension(i) <= x.dimension(i);
    limits[static_cast<size_t>(i)] = index.dimension(i);
  }
  if (!fits) {
    fail(what, "the index does not fit", to_string(index.type()) + " on " + to_string(x.type()),
         "equal ranks, and an index no larger outside dimension " + std::to_string(dim));
  }
  return b.slice(x, Dimensions(static_cast<size_t>(x.rank()), 0), limits);
}

Dimensions dims_but(int64_t rank, int64_t dim) {
  Dimensions dims;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != dim) dims.push_back(i);
  }
  return dims;
}

}  // namespace

Operand StableHloBuilder::gather_elements(Operand x, Operand index, int64_t dim) {
  constexpr std::string_view kName = "gather_elements";
  Statement::check(*this, kName, {x, index});
  if (x.rank() == 0) return index.rank() == 0 ? x : broadcast_to(x, index.dimensions());
  dim = normalized_dim(dim, x.rank(), kName);
  const Operand source = cut_to(*this, kName, x, index, dim);
  const Type type{x.element(), index.dimensions()};
  if (type.element_count() == 0) return zeros(type);  // slices of one element would not fit
  GatherDimensions d;
  d.collapsed_slice = {dim};
  d.operand_batching = dims_but(x.rank(), dim);
  d.start_indices_batching = d.operand_batching;
  d.start_index_map = {dim};
  d.index_vector = index.rank();
  return gather(source, index, d, Dimensions(static_cast<size_t>(x.rank()), 1));
}

Operand StableHloBuilder::scatter_elements(Operand x, Operand index, Operand updates, int64_t dim,
                                           Reducer combiner, IndexPromise promise) {
  constexpr std::string_view kName = "scatter_elements";
  Statement::check(*this, kName, {x, index, updates});
  if (x.rank() == 0) {
    const Operand flat = scatter_elements(reshape(x, {1}), reshape(index, {1}),
                                          reshape(updates, {1}), 0, combiner, promise);
    return reshape(flat, {});
  }
  dim = normalized_dim(dim, x.rank(), kName);
  const Operand cut = cut_to(*this, kName, x, index, dim);
  if (updates.dimensions() != index.dimensions()) {
    fail(kName, "the updates do not fit the index",
         to_string(updates.type()) + " for " + to_string(index.type()), "equal shapes",
         "slice the updates first");
  }
  ScatterDimensions d;
  d.inserted_window = {dim};
  d.input_batching = dims_but(x.rank(), dim);
  d.scatter_indices_batching = d.input_batching;
  d.scatter_dims_to_operand = {dim};
  d.index_vector = index.rank();
  const Operand changed = scatter(cut, index, updates, d, combiner, promise);
  if (cut == x) return changed;
  const Operand zero = scalar(ElementType::kS32, 0);
  return dynamic_update_slice(x, changed, Operands(static_cast<size_t>(x.rank()), zero));
}

Operand StableHloBuilder::scatter_slices(Operand x, Operand indices, Operand updates, int64_t dim,
                                         Reducer combiner, IndexPromise promise) {
  constexpr std::string_view kName = "scatter_slices";
  Statement::check(*this, kName, {x, indices, updates});
  dim = normalized_dim(dim, x.rank(), kName);
  if (indices.rank() != 1) {
    fail(kName, "the indices are no list", to_string(indices.type()), "rank 1", "flatten them");
  }
  ScatterDimensions d;
  d.update_window = dims_but(x.rank(), dim);
  d.inserted_window = {dim};
  d.scatter_dims_to_operand = {dim};
  d.index_vector = 1;
  return scatter(x, indices, updates, d, combiner, promise);
}

Operand StableHloBuilder::wrap_indices(Operand indices, int64_t size) {
  Statement::check(*this, "wrap_indices", indices);
  require_indices("wrap_indices", indices);
  if (pjrt::is_unsigned_integer(indices.element())) return indices;
  return select(less(indices, 0), add(indices, size), indices);
}

}  // namespace torch_pjrt::graph
