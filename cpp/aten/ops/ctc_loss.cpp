#include <ATen/TensorUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "aten/ops/elementwise.h"
#include "graph/held_element.h"

// Connectionist temporal classification: the paths through labels with a blank before, between and
// after them, T steps for the whole batch at once.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Dimensions;
using graph::OperandList;

constexpr double kNone = -std::numeric_limits<double>::infinity();

// operands: log_probs [T, B, C], targets [B, S], lengths [2, B] of inputs and targets;
// attribute: blank
struct Paths {
  int64_t steps, batch, places;         // places: 2 S + 1
  Operand log_probs;                    // of the label at every place, [T, B, places]
  Operand label, place;                 // [B, places]
  Operand skips;                        // whether a place may follow the one two before it
  Operand input_length, target_length;  // [B]

  Paths(Emission& e, size_t first) {
    Builder& b = e.builder();
    const int64_t blank = e.attributes.integer();
    const Operand all = e.operand(first);
    const Operand targets = b.convert(e.operand(first + 1), ElementType::kS32);
    const Operand lengths = b.convert(e.operand(first + 2), ElementType::kS32);
    input_length = b.select_index(lengths, 0, 0);
    target_length = b.select_index(lengths, 0, 1);
    steps = all.dimension(0);
    batch = all.dimension(1);
    places = 2 * targets.dimension(1) + 1;
    const Operand ends = b.filled({ElementType::kS32, {batch, 1}}, blank);
    label = ends;
    if (places > 1) {
      label = b.concatenate({ends, b.pad(targets, blank, {0, 0}, {0, 0}, {0, 1}), ends}, 1);
    }
    place = b.iota(label.type(), 1);
    log_probs = b.gather_elements(all, every_step(b, label), 2);
    skips = b.not_equal(label, moved(b, label, 2, blank));
  }

  Operand every_step(Builder& b, Operand x) const {
    return b.broadcast_to(x, {steps, batch, places});
  }
  Operand every_place(Builder& b, Operand x) const {
    return b.broadcast_in_dim(x, {batch, places}, {0});
  }
  // Places that the targets reach.
  Operand reached(Builder& b) const {
    return b.less_equal(place, every_place(b, b.multiply(target_length, 2)));
  }

  // Towards greater places, or with a negative distance towards smaller ones.
  Operand moved(Builder& b, Operand x, int64_t distance, graph::Number rest) const {
    if (std::abs(distance) >= places) return b.filled_like(x, rest);
    return b.pad(x, rest, {0, distance}, {0, -distance});
  }

  // One step further, before the step's own probability.
  Operand step(Builder& b, Operand x, bool forwards) const {
    Operand third =
        forwards ? moved(b, x, 2, kNone) : moved(b, b.select(skips, x, kNone), -2, kNone);
    if (forwards) third = b.select(skips, third, kNone);
    const Operand second = moved(b, x, forwards ? 1 : -1, kNone);
    Operand most = b.maximum(b.maximum(x, second), third);
    most = b.select(b.equal(most, kNone), 0, most);
    const auto part = [&](Operand y) { return b.exponential(b.subtract(y, most)); };
    return b.add(b.log(b.add(b.add(part(x), part(second)), part(third))), most);
  }

  // All steps' sums over paths up to (or from) each place, [T, B, places], and the last one.
  // A row's paths begin (or end) at the places `start`.
  std::pair<Operand, Operand> sums(Builder& b, bool forwards, Operand start) const {
    const Operand zero = b.scalar(ElementType::kS32, 0);
    const Operand within = reached(b);
    // step, sums, all
    const graph::Operands end = b.while_loop(
        {zero, b.filled({log_probs.element(), {batch, places}}, kNone),
         b.filled(log_probs.type(), kNone)},
        [&](Builder& b, OperandList s) { return graph::Operands{b.less(s[0], steps)}; },
        [&](Builder& b, OperandList s) {
          const Operand zero = b.scalar(ElementType::kS32, 0);
          const Operand t = forwards ? s[0] : b.subtract(steps - 1, s[0]);
          const Operand own = b.reshape(
              b.dynamic_slice(log_probs, {t, zero, zero}, {1, batch, places}), {batch, places});
          const Operand now = b.broadcast_to(t, {batch});
          const Operand begins =
              forwards ? b.equal(now, 0) : b.equal(now, b.subtract(input_length, 1));
          const Operand before = b.select(start, b.zeros_like(own), kNone);
          Operand next = b.select(every_place(b, begins), before, step(b, s[1], forwards));
          next = b.select(within, b.add(next, own), kNone);
          // A row that has ended, or not begun, waits.
          next = b.select(every_place(b, b.less(now, input_length)), next, s[1]);
          return graph::Operands{
              b.add(s[0], 1), next,
              b.dynamic_update_slice(s[2], b.reshape(next, {1, batch, places}), {t, zero, zero})};
        });
    return {end[2], end[1]};
  }
};

constexpr Operator kForward{
    "aten::_ctc_loss", [](Emission& e) {
      Builder& b = e.builder();
      const Paths p(e, 0);
      const auto [all, last] = p.sums(b, true, b.less_equal(p.place, 1));
      // A path ends at the last label or at the blank after it.
      const Operand end = p.every_place(b, b.multiply(p.target_length, 2));
      const Operand ends = b.bit_or(b.equal(p.place, end), b.equal(p.place, b.subtract(end, 1)));
      const Operand paths = b.select(ends, last, kNone);
      Operand most = b.reduce(paths, graph::Reducer::kMaximum, {1});
      most = b.select(b.equal(most, kNone), 0, most);
      const Operand parts = b.exponential(b.subtract(paths, p.every_place(b, most)));
      const Operand sum = b.reduce(parts, graph::Reducer::kAdd, {1});
      const Operand loss = b.negate(b.add(b.log(sum), most));
      const Operand nothing = b.bit_and(b.equal(p.input_length, 0), b.equal(p.target_length, 0));
      e.result(0, b.select(nothing, 0, loss));
      e.result(1, b.transpose(all, {1, 0, 2}));
    }};

// operands: gradient, log_probs, targets, lengths, loss, log_alpha; attributes: blank,
// zero_infinity
constexpr Operator kBackward{
    "aten::_ctc_loss_backward", [](Emission& e) {
      Builder& b = e.builder();
      const Paths p(e, 1);
      const bool zero_infinity = e.attributes.boolean();
      const Operand all = e.operand(1), loss = e.operand(4);
      const Operand end = p.every_place(b, b.multiply(p.target_length, 2));
      const Operand starts = b.greater_equal(p.place, b.subtract(end, 1));
      const Operand beta = p.sums(b, false, starts).first;
      const Operand through = b.add(b.transpose(e.operand(5), {1, 0, 2}), beta);
      const auto share = [&](Operand sum, Operand own) {
        const Operand whole = b.broadcast_in_dim(loss, own.dimensions(), {1});
        return b.exponential(b.subtract(b.add(sum, whole), own));
      };
      // How probable each place is; a label's places add up. Labels without a place have 0, or NaN
      // where the loss or their own probability has no logarithm.
      const Operand reached = p.every_step(b, p.reached(b));
      const Operand places = b.select(reached, share(through, p.log_probs), 0);
      const Operand labels =
          b.scatter_elements(share(b.filled_like(all, kNone), all), p.every_step(b, p.label),
                             places, 2, graph::Reducer::kAdd);
      const Operand grad = b.multiply(b.subtract(b.exponential(all), labels),
                                      b.broadcast_in_dim(e.operand(0), all.dimensions(), {1}));
      const Operand time = b.iota({ElementType::kS32, {p.steps, p.batch}}, 0);
      Operand counts = b.less(time, b.broadcast_to(p.input_length, time.dimensions()));
      if (zero_infinity) {
        const Operand finite = b.not_equal(loss, -kNone);
        counts = b.bit_and(counts, b.broadcast_to(finite, time.dimensions()));
      }
      e.result(b.select(b.broadcast_in_dim(counts, all.dimensions(), {0, 1}), grad, 0));
    }};

// What both directions read, with PyTorch's checks.
struct Batch {
  at::Tensor targets;  // [B, greatest length], blank after a row's end
  at::Tensor lengths;  // [2, B]
  int64_t longest = 0;

  Batch(const at::Tensor& log_probs, const at::Tensor& given, at::IntArrayRef input_lengths,
        at::IntArrayRef target_lengths, int64_t blank) {
    constexpr at::CheckedFrom kCheck = "ctc_loss_allocate_outputs";
    const c10::ScalarType dtype = log_probs.scalar_type();
    TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
    TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kFloat || dtype == at::kDouble,
                                "\"ctc_loss_cpu\" not implemented for '", dtype, "'");
    const at::TensorArg log_probs_arg(log_probs, "log_probs", 1), targets_arg(given, "targets", 2);
    at::checkScalarType(kCheck, targets_arg,
                        given.scalar_type() == at::kInt ? at::kInt : at::kLong);
    at::checkDim(kCheck, log_probs_arg, 3);
    at::checkDimRange(kCheck, targets_arg, 1, 3);
    const int64_t steps = log_probs.size(0), rows = log_probs.size(1), labels = log_probs.size(2);
    TORCH_CHECK(0 <= blank && blank < labels, "blank must be in label range");
    TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == rows,
                "input_lengths must be of size batch_size");
    TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == rows,
                "target_lengths must be of size batch_size");
    std::vector<int64_t> offsets;
    int64_t total = 0;
    for (const int64_t length : target_lengths) {
      TORCH_CHECK(length >= 0, "Expected target_lengths to have value at least 0, but got value ",
                  length, " (while checking arguments for ", kCheck, ")");
      offsets.push_back(total);
      total += length;
      longest = std::max(longest, length);
    }
    const bool concatenated = given.dim() == 1;
    at::checkSize(kCheck, targets_arg, 0, concatenated ? total : rows);
    TORCH_CHECK(concatenated || given.size(1) >= longest, "Expected tensor to have size at least ",
                longest, " at dimension 1, but got size ", given.size(1),
                " (while checking arguments for ", kCheck, ")");
    for (const int64_t length : input_lengths) {
      TORCH_CHECK(length >= 0, "Expected input_lengths to have value at least 0, but got value ",
                  length, " (while checking arguments for ", kCheck, ")");
      TORCH_CHECK(length <= steps, "Expected input_lengths to have value at most ", steps,
                  ", but got value ", length, " (while checking arguments for ", kCheck, ")");
    }
    const at::Device device = log_probs.device();
    const at::Tensor numbers =
        at::stack({at::tensor(input_lengths, at::kLong), at::tensor(target_lengths, at::kLong),
                   at::tensor(offsets, at::kLong)})
            .to(device);
    lengths = numbers.narrow(0, 0, 2);
    const at::Tensor columns = at::arange(longest, numbers.options());
    const at::Tensor counts = columns.lt(numbers[1].unsqueeze(1));
    if (longest == 0) {
      targets = numbers.new_empty({rows, 0});
    } else if (concatenated) {
      const at::Tensor places = numbers[2].unsqueeze(1).add(columns).clamp_max(total - 1);
      targets = given.index_select(0, places.flatten()).view({rows, longest});
    } else {
      targets = given.narrow(1, 0, longest);
    }
    if (longest > 0) targets = at::where(counts, targets, blank);
    check_index_range(kForward, targets, labels, false);
  }
};

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                            at::IntArrayRef input_lengths,
                                            at::IntArrayRef target_lengths, int64_t blank,
                                            bool /*zero_infinity*/) {
  const Batch batch(log_probs, targets, input_lengths, target_lengths, blank);
  const int64_t steps = log_probs.size(0), rows = log_probs.size(1);
  const c10::ScalarType dtype = log_probs.scalar_type();
  const auto both = Record(kForward)
                        .tensors({log_probs, batch.targets, batch.lengths})
                        .attribute(blank)
                        .results({{dtype, {rows}}, {dtype, {rows, steps, 2 * batch.longest + 1}}});
  return {both[0], both[1]};
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs,
                             const at::Tensor& targets, at::IntArrayRef input_lengths,
                             at::IntArrayRef target_lengths, const at::Tensor& loss,
                             const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  const Batch batch(log_probs, targets, input_lengths, target_lengths, blank);
  return Record(kBackward)
      .tensors({grad, log_probs, batch.targets, batch.lengths, loss, log_alpha})
      .attribute(blank)
      .attribute(zero_infinity)
      .result(log_probs.scalar_type(), log_probs.sizes());
}

// Lengths shape the results: they are read.
std::vector<int64_t> read_lengths(const at::Tensor& lengths, const char* name) {
  TORCH_CHECK(c10::isIntegralType(lengths.scalar_type(), false), name, " must be integral");
  const at::Tensor here = lengths.to(at::kCPU, at::kLong).contiguous();
  const int64_t* data = here.const_data_ptr<int64_t>();
  return {data, data + here.numel()};
}

std::tuple<at::Tensor, at::Tensor> ctc_loss_tensor(const at::Tensor& log_probs,
                                                   const at::Tensor& targets,
                                                   const at::Tensor& input_lengths,
                                                   const at::Tensor& target_lengths, int64_t blank,
                                                   bool zero_infinity) {
  return ctc_loss(log_probs, targets, read_lengths(input_lengths, "input_lengths"),
                  read_lengths(target_lengths, "target_lengths"), blank, zero_infinity);
}

at::Tensor ctc_loss_backward_tensor(const at::Tensor& grad, const at::Tensor& log_probs,
                                    const at::Tensor& targets, const at::Tensor& input_lengths,
                                    const at::Tensor& target_lengths, const at::Tensor& loss,
                                    const at::Tensor& log_alpha, int64_t blank,
                                    bool zero_infinity) {
  return ctc_loss_backward(grad, log_probs, targets, read_lengths(input_lengths, "input_lengths"),
                           read_lengths(target_lengths, "target_lengths"), loss, log_alpha, blank,
                           zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_ctc_loss", TORCH_FN(ctc_loss));
  m.impl("_ctc_loss.Tensor", TORCH_FN(ctc_loss_tensor));
  m.impl("_ctc_loss_backward", TORCH_FN(ctc_loss_backward));
  m.impl("_ctc_loss_backward.Tensor", TORCH_FN(ctc_loss_backward_tensor));
}

}  // namespace
}  // namespace torch_pjrt::aten
