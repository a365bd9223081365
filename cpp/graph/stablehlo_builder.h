#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/stablehlo_attributes.h"
#include "graph/stablehlo_operand.h"
#include "graph/type.h"

namespace torch_pjrt::pjrt {
class Client;
struct ForeignFunction;
}  // namespace torch_pjrt::pjrt

namespace torch_pjrt::graph {

// The body of a region: takes the region's arguments, returns what the region returns.
// Of the values made outside, only the bodies of while, if and case may use them.
using Body = std::function<Operands(StableHloBuilder& builder, OperandList arguments)>;

// The body of a reduction over several arrays: two lists of scalars, combined into one.
using ReducerBody =
    std::function<Operands(StableHloBuilder& builder, OperandList lhs, OperandList rhs)>;

// The comparator of a sort: does `lhs` come before `rhs`? One scalar of each sorted array; the
// result is a scalar i1.
using Comparator =
    std::function<Operand(StableHloBuilder& builder, OperandList lhs, OperandList rhs)>;

// Writes one StableHLO program as text: `func.func public @main` with the parameters, statements
// and results that the calls name, in order. The same calls give the same text.
//
// Every method infers the type of its result and checks its operands: a mistake throws
// std::invalid_argument `stablehlo.add: what is wrong; got X, expected Y; what to do` before the
// compiler sees it. After an exception the builder must not be used again.
// Dimensions given as arguments may be negative (they count from the end) unless said otherwise.
// Nothing is broadcast or converted in silence: operands of elementwise methods have equal types,
// except numbers, which take the type of the other operand.
// Not thread-safe; use one builder for one program.
class StableHloBuilder {
 public:
  // Room for `expected_bytes` of text is made at once; more is right too, and copied now and then.
  explicit StableHloBuilder(size_t expected_bytes = size_t{16} * 1024);
  ~StableHloBuilder();
  StableHloBuilder(const StableHloBuilder&) = delete;
  StableHloBuilder& operator=(const StableHloBuilder&) = delete;

  // ---- program (stablehlo_program.cpp) ----

  // The next parameter of @main. `attributes` is text for inside the braces, as
  // `jax.buffer_donor = true`.
  Operand parameter(const Type& type, std::string_view attributes = {});
  // Statements from here on carry loc("name"), which compiler errors repeat; empty: none.
  void set_location(std::string_view name);
  // Ends the program and returns its text; the builder is spent. `result_attributes` is empty or
  // one text a result; `module_attributes` as `mhlo.num_partitions = 4 : i32`.
  std::string finish(OperandList results, std::string_view module_attributes = {},
                     ListRef<std::string_view> result_attributes = {});
  const Type& type_of(Operand operand) const;
  // How exactly products of f32 are computed from here on (GPU and TPU round them by default).
  enum class Precision : uint8_t { kDefault, kHigh, kHighest };
  void set_precision(Precision precision) noexcept { precision_ = precision; }
  // The client whose own functions the program may call; null (the default) for a program that is
  // to run anywhere. It outlives the builder.
  void set_host(const pjrt::Client* client) noexcept { host_ = client; }
  bool calls_host_functions() const;
  size_t statement_count() const noexcept { return statements_; }

  // ---- constants (stablehlo_constants.cpp); equal ones in one region are written once ----

  Operand scalar(ElementType element, Number value);
  Operand filled(const Type& type, Number value);
  Operand zeros(const Type& type) { return filled(type, 0); }
  Operand ones(const Type& type) { return filled(type, 1); }
  Operand filled_like(Operand x, Number value) { return filled(x.type(), value); }
  Operand zeros_like(Operand x) { return filled(x.type(), 0); }
  Operand ones_like(Operand x) { return filled(x.type(), 1); }
  Operand iota(const Type& type, int64_t dim);
  // A short list written out, of shape [values.size()].
  Operand list(ElementType element, Ints values);
  Operand real_list(ElementType element, ListRef<double> values);
  Operand lowest(ElementType element);                     // -inf, the least integer, false
  Operand highest(ElementType element);                    // +inf, the greatest integer, true
  Operand identity(Reducer reducer, ElementType element);  // 0 for kAdd, lowest for kMaximum...

  // ---- elementwise (stablehlo_elementwise.cpp) ----

  Operand add(Term a, Term b);  // i1: or
  Operand subtract(Term a, Term b);
  Operand multiply(Term a, Term b);   // i1: and
  Operand divide(Term a, Term b);     // integers truncate; x/0 is -1, not an error
  Operand remainder(Term a, Term b);  // sign of the dividend, as C
  Operand power(Term a, Term b);
  // NaN wins, if the program is compiled with xla_cpu_enable_fast_min_max = false.
  Operand maximum(Term a, Term b);
  Operand minimum(Term a, Term b);
  Operand atan2(Term a, Term b);
  Operand bit_and(Term a, Term b);  // integers and i1
  Operand bit_or(Term a, Term b);
  Operand bit_xor(Term a, Term b);
  Operand shift_left(Term a, Term b);
  Operand shift_right_arithmetic(Term a, Term b);  // of unsigned: logical
  Operand shift_right_logical(Term a, Term b);
  Operand complex(Operand real, Operand imaginary);
  Operand next_after(Term a, Term b);  // chlo
  Operand polygamma(Term n, Term x);   // chlo; n is floating too
  Operand zeta(Term x, Term q);        // chlo

  Operand compare(Comparison direction, Term a, Term b);
  // Orders -NaN < -inf < ... < -0 < +0 < ... < inf < NaN: for sorting; floating only.
  Operand compare_total_order(Comparison direction, Term a, Term b);
  Operand equal(Term a, Term b) { return compare(Comparison::kEqual, a, b); }
  Operand not_equal(Term a, Term b) { return compare(Comparison::kNotEqual, a, b); }
  Operand less(Term a, Term b) { return compare(Comparison::kLess, a, b); }
  Operand less_equal(Term a, Term b) { return compare(Comparison::kLessEqual, a, b); }
  Operand greater(Term a, Term b) { return compare(Comparison::kGreater, a, b); }
  Operand greater_equal(Term a, Term b) { return compare(Comparison::kGreaterEqual, a, b); }

  // The predicate is i1, scalar or of the shape of the others.
  Operand select(Operand predicate, Term on_true, Term on_false);
  // The bounds have x's type, or are scalars of its element type, or numbers.
  Operand clamp(Term low, Operand x, Term high);

  Operand negate(Operand x);
  Operand abs(Operand x);  // complex gives the real magnitude
  Operand sign(Operand x);
  Operand floor(Operand x);
  Operand ceil(Operand x);
  Operand round_nearest_even(Operand x);
  Operand round_nearest_afz(Operand x);
  Operand trunc(Operand x);  // composite
  Operand sqrt(Operand x);
  Operand rsqrt(Operand x);
  Operand cbrt(Operand x);
  Operand exponential(Operand x);
  Operand exponential_minus_one(Operand x);
  Operand log(Operand x);
  Operand log_plus_one(Operand x);
  Operand logistic(Operand x);
  Operand tanh(Operand x);
  Operand sine(Operand x);
  Operand cosine(Operand x);
  Operand tan(Operand x);
  Operand bit_not(Operand x);
  Operand popcnt(Operand x);
  Operand count_leading_zeros(Operand x);
  Operand is_finite(Operand x);  // i1
  Operand is_nan(Operand x);     // i1; false for integers
  Operand is_inf(Operand x);     // i1; false for integers
  Operand real(Operand x);
  Operand imag(Operand x);
  Operand conj(Operand x);  // x itself when not complex
  Operand square(Operand x) { return multiply(x, x); }
  Operand reciprocal(Operand x) { return divide(1, x); }

  // chlo
  Operand erf(Operand x);
  Operand erfc(Operand x);
  Operand erf_inv(Operand x);
  Operand lgamma(Operand x);
  Operand digamma(Operand x);
  Operand asin(Operand x);
  Operand acos(Operand x);
  Operand atan(Operand x);
  Operand sinh(Operand x);
  Operand cosh(Operand x);
  Operand asinh(Operand x);
  Operand acosh(Operand x);
  Operand atanh(Operand x);
  Operand bessel_i1e(Operand x);

  // x itself when it has that type already. Floating to integer truncates and saturates (NaN: 0);
  // to i1: x != 0; complex to real drops the imaginary part.
  Operand convert(Operand x, ElementType element);
  // Same total bits; a narrower element type appends a dimension, a wider one takes the last.
  Operand bitcast_convert(Operand x, ElementType element);
  Operand reduce_precision(Operand x, int exponent_bits, int mantissa_bits);

  // ---- shape (stablehlo_shape.cpp); a call that changes nothing returns x itself ----

  Operand reshape(Operand x, Ints dimensions);  // one of them may be -1
  Operand flatten(Operand x) { return reshape(x, {-1}); }
  Operand transpose(Operand x, Ints permutation);
  Operand swap_dimensions(Operand x, int64_t a, int64_t b);
  Operand unsqueeze(Operand x, int64_t dim);  // as torch.unsqueeze
  Operand squeeze(Operand x, int64_t dim);    // the dimension must be 1
  // NumPy's rule: dimensions align at the end, and 1 stretches.
  Operand broadcast_to(Operand x, Ints dimensions);
  // x's dimension i becomes dimension mapping[i] of the result.
  Operand broadcast_in_dim(Operand x, Ints dimensions, Ints mapping);
  // Both operands, broadcast to their common shape; element types stay.
  std::pair<Operand, Operand> broadcast_together(Operand a, Operand b);
  Operand concatenate(OperandList operands, int64_t dim);
  Operand stack(OperandList operands, int64_t dim);
  // Empty strides: 1. Starts and limits are not negative.
  Operand slice(Operand x, Ints starts, Ints limits, Ints strides = {});
  Operand slice_dim(Operand x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  Operand select_index(Operand x, int64_t dim, int64_t index);  // as torch.select
  // Starts are scalars of one integer type, clamped by the device to stay in range.
  Operand dynamic_slice(Operand x, OperandList starts, Ints sizes);
  Operand dynamic_update_slice(Operand x, Operand update, OperandList starts);
  // Negative low and high cut; interior goes between elements; empty interior: 0.
  Operand pad(Operand x, Term value, Ints low, Ints high, Ints interior = {});
  Operand reverse(Operand x, Ints dims);

  // ---- reductions (stablehlo_reduce.cpp) ----

  // Empty dims reduce nothing; all_dims(x) reduces all.
  Operand reduce(Operand x, Reducer reducer, Ints dims, bool keepdim = false);
  Operand reduce(Operand x, Operand init, Reducer reducer, Ints dims, bool keepdim = false);
  Operands reduce(OperandList inputs, OperandList inits, Ints dims, const ReducerBody& body,
                  bool keepdim = false);
  // {value, index of the first such element} along dim; a NaN counts as the extreme, as in
  // PyTorch. The index has type `index`.
  std::pair<Operand, Operand> argmax(Operand x, int64_t dim, ElementType index = ElementType::kS64,
                                     bool keepdim = false);
  std::pair<Operand, Operand> argmin(Operand x, int64_t dim, ElementType index = ElementType::kS64,
                                     bool keepdim = false);
  // Running sum, product, maximum... along dim, inclusive; the form that is fast on XLA CPU.
  Operand cumulative(Operand x, int64_t dim, Reducer reducer);
  // The same for any associative body over arrays of equal shape (log-many steps). `body` gets
  // whole arrays of equal shapes, not scalars, and combines them elementwise; lhs comes first.
  Operands associative_scan(OperandList operands, int64_t dim, const ReducerBody& body);
  // max-subtracted; x is floating
  Operand softmax(Operand x, int64_t dim);
  Operand log_softmax(Operand x, int64_t dim);

  // ---- windows (stablehlo_window.cpp) ----

  Operand reduce_window(Operand x, Operand init, Reducer reducer, const Window& window);
  Operands reduce_window(OperandList inputs, OperandList inits, const Window& window,
                         const ReducerBody& body);
  // Scatters `source` to where `select` (kGreaterEqual for max pooling) holds in each window.
  Operand select_and_scatter(Operand x, Operand source, Operand init, Comparison select,
                             Reducer scatter, const Window& window);
  Operand convolution(Operand input, Operand kernel, const Window& window,
                      const ConvolutionDimensions& dimensions, int64_t feature_group_count = 1,
                      int64_t batch_group_count = 1,
                      ElementType result = ElementType::kInvalid);  // kInvalid: the input's

  // ---- linear algebra (stablehlo_linalg.cpp) ----

  // Result: batching, then lhs's free, then rhs's free dimensions.
  Operand dot_general(Operand lhs, Operand rhs, const DotDimensions& dimensions,
                      ElementType result = ElementType::kInvalid);  // kInvalid: lhs's
  // torch.matmul's shapes, for ranks of at least 1.
  Operand matmul(Operand lhs, Operand rhs, ElementType result = ElementType::kInvalid);
  Operand cholesky(Operand x, bool lower = true);
  enum class TriangularForm : uint8_t { kNoTranspose, kTranspose, kAdjoint };
  Operand triangular_solve(Operand a, Operand b, bool left_side, bool lower, bool unit_diagonal,
                           TriangularForm form = TriangularForm::kNoTranspose);
  Operand fft(Operand x, FftType type, Ints lengths);

  // ---- indexing (stablehlo_indexing.cpp); indices are integers, clamped (gather) or skipped
  // (scatter) by the device when out of range ----

  Operand gather(Operand x, Operand start_indices, const GatherDimensions& dimensions,
                 Ints slice_sizes, IndexPromise promise = {});
  Operand scatter(Operand x, Operand indices, Operand updates, const ScatterDimensions& dimensions,
                  Reducer combiner, IndexPromise promise = {});
  Operand take(Operand x, Operand indices, int64_t dim);  // torch.index_select, indices of any rank
  Operand gather_elements(Operand x, Operand index, int64_t dim);  // torch.gather
  Operand scatter_elements(Operand x, Operand index, Operand updates, int64_t dim, Reducer combiner,
                           IndexPromise promise = {});  // torch.scatter
  // x[..., indices[i], ...] (along dim) combined with updates[..., i, ...]: torch.index_add and the
  // gradient of take. `indices` has rank 1.
  Operand scatter_slices(Operand x, Operand indices, Operand updates, int64_t dim, Reducer combiner,
                         IndexPromise promise = {});
  // Negative indices count from the end of a dimension of that size.
  Operand wrap_indices(Operand indices, int64_t size);

  // ---- sorting and random bits (stablehlo_sort.cpp) ----

  Operands sort(OperandList operands, int64_t dim, bool stable, const Comparator& comparator);
  // {sorted, indices}, stable; NaN sorts as the greatest, as in PyTorch.
  std::pair<Operand, Operand> sort_with_indices(Operand x, int64_t dim, bool descending,
                                                ElementType index = ElementType::kS64);
  // {values, i32 indices} of the k greatest along the last dimension, in descending order (chlo).
  // A NaN counts as the greatest, as in PyTorch. Some 100 times faster than a sort on XLA CPU.
  std::pair<Operand, Operand> top_k(Operand x, int64_t k);
  // {new state, bits}; the state is tensor<2xui64> (Philox also 3).
  std::pair<Operand, Operand> rng_bit_generator(Operand state, RngAlgorithm algorithm,
                                                const Type& bits);

  // ---- control and the rest (stablehlo_control.cpp) ----

  Operands while_loop(OperandList init, const Body& condition, const Body& body);
  Operands if_else(Operand predicate, const Body& on_true, const Body& on_false);
  Operands switch_case(Operand index, ListRef<Body> branches);  // i32; out of range: the last
  Operands optimization_barrier(OperandList operands);
  // `attributes` is text for inside the braces, as `backend_config = ""`.
  Operands custom_call(std::string_view target, OperandList operands, ListRef<Type> results,
                       std::string_view attributes = {});
  // A call of a function of this process, where calls_host_functions(). Results with
  // `rank_by_columns` dimensions (at least 2, or 0 for none) lie column by column in the last two;
  // all else is row-major.
  Operands host_call(const pjrt::ForeignFunction& function, OperandList operands,
                     ListRef<Type> results, Ints options, int64_t rank_by_columns);

  // For code that adds operations of its own: writes `%n = <name> <operands> : <types>`.
  class Statement;

 private:
  friend class Statement;
  friend struct Operand;
  enum class Origin : uint8_t;
  struct Value;
  struct Scope;
  struct State;

  Operands branches(std::string_view name, std::string_view what, Operand selector,
                    ListRef<Body> bodies);
  void write_precision(Statement& statement) const;
  Operand as_computed(Operand x, Origin origin);

  std::unique_ptr<State> state_;
  Precision precision_ = Precision::kDefault;
  const pjrt::Client* host_ = nullptr;
  size_t statements_ = 0;
  bool has_narrowed_ = false;  // some signed integer
};

// Every dimension of x, for reductions.
Dimensions all_dims(Operand x);

// The dimension as a number in [0, rank); throws std::invalid_argument with `what` in front.
int64_t normalized_dim(int64_t dim, int64_t rank, std::string_view what);

}  // namespace torch_pjrt::graph
