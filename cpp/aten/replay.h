#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/DimVector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aten/generator.h"
#include "graph/capture.h"
#include "graph/executor.h"

// A traced graph whose operators need not be recorded again: one call of it is recorded and looked
// at, and where all it did was to launch one program, later calls that the program suits launch it
// at once. They have the effects of the recorded call: the same results, strides and aliases,
// writes to arguments, version counters, donations, random numbers, checks and figures.
//
// Counter: execute.replays.
namespace torch_pjrt::aten {

// One argument of a graph at one call.
struct Argument {
  enum class Kind : uint8_t { kNothing, kBool, kInteger, kReal, kTensor, kOther };
  Kind kind = Kind::kOther;
  bool is_sole = false;  // of a tensor: only the list of arguments refers to it
  int64_t bits = 0;      // of a number
  c10::TensorImpl* tensor = nullptr;
};

// What a graph returns at one place.
struct Returned {
  bool is_tensor = false;  // else it is the same at each call
  c10::TensorImpl* tensor = nullptr;
};

// What else decides what recording does. A call in another environment is recorded.
struct Environment {
  uint64_t included = 0, excluded = 0;  // dispatch keys of the thread
  bool records_gradients = false;
  bool is_deterministic = false;
  bool checks_indices = false;
  uint8_t dtype_policy = 0;
  c10::ScalarType default_dtype = c10::ScalarType::Undefined;

  static Environment current();
  friend bool operator==(const Environment&, const Environment&) = default;
};

// The program of a graph for arguments of one description. Immutable, but for `accept_more`; calls
// of several threads wait for each other.
class Replay {
 public:
  // Where new contents come from: a result of the program, or what the storage of an argument held
  // before; or nowhere (never written).
  struct Source {
    enum class Kind : uint8_t { kUnchanged, kNothing, kRoot, kStorage };
    Kind kind = Kind::kUnchanged;
    uint32_t index = 0;
    friend bool operator==(const Source&, const Source&) = default;
  };

  struct View {
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    c10::DimVector sizes, strides;
    int64_t offset = 0;
    bool is_contiguous = false;  // with offset 0
    friend bool operator==(const View&, const View&) = default;
  };

  struct ArgumentKey {
    Argument::Kind kind = Argument::Kind::kOther;
    int64_t bits = 0;  // of a number, and of a 0-dim cpu tensor's element
    uint64_t key_set = 0;
    View view;
    int64_t storage_bytes = 0;
    int32_t storage = -1;  // its place among the distinct xla storages, in order of first use
    uint32_t version_bumps = 0;
    friend bool operator==(const ArgumentKey&, const ArgumentKey&) = default;
  };

  // One of the distinct storages of the arguments.
  struct StorageKey {
    bool has_value = false;
    graph::Type type;          // of what it holds
    uint32_t same_as = 0;      // the first storage that holds the same buffer
    bool is_borrowed = false;  // others may write that
    bool is_dead = false;      // after the call nothing referred to it
    bool is_shared = false;    // a result views it
    bool is_kept = false;      // a result, or another argument, has what it held
    bool is_read = false;
    bool is_donated = false;
    Source written;
    friend bool operator==(const StorageKey&, const StorageKey&) = default;
  };

  struct Result {
    enum class Kind : uint8_t { kConstant, kArgument, kView, kNew };
    Kind kind = Kind::kConstant;
    uint32_t index = 0;  // the argument, the one that is viewed, or the new storage
    View view;
  };

  struct NewStorage {
    size_t bytes = 0;
    Source source;
  };

  struct Description {
    std::shared_ptr<const pjrt::LoadedExecutable> executable;  // null: there is nothing to compute
    std::vector<uint32_t> leaves;                              // storages that the program reads
    std::vector<graph::Type> roots;
    std::string numbers;
    std::vector<graph::Trace::RandomWord> random_words;  // values: offsets from the stream's place
    uint64_t random_blocks = 0;
    size_t operations = 0;
    int64_t checks = -1;
    std::vector<const graph::Operator*> checked;
    std::string text;  // where it was asked for

    Environment environment;
    std::vector<ArgumentKey> arguments;
    std::vector<StorageKey> storages;
    std::vector<Result> results;
    std::vector<NewStorage> new_storages;
  };

  Replay(graph::Executor& executor, Description description);

  const Description& description() const noexcept { return description_; }
  graph::Executor& executor() const noexcept { return executor_; }

  // Whether the call has the described arguments, as far as that shows without their contents.
  bool suits(std::span<const Argument> arguments) const;

  // Executes, if the contents of the arguments suit, too; false: nothing has happened, and the call
  // is to be recorded. `results` gets a tensor for each result; it stays undefined for constants
  // and for those that are arguments.
  bool run(const graph::Executor::Turn& turn, std::span<const Argument> arguments,
           std::vector<at::Tensor>& results) const;

  // Seconds that PJRT alone takes to launch the program on these arguments, which it must not
  // donate; waits for the results. For benchmarks.
  double time_launch(std::span<const Argument> arguments) const;

  // Lets it run also where more could be donated than in the recorded call.
  void accept_more() noexcept { accepts_more_ = true; }

  // Whether both are for the same calls.
  bool is_like(const Replay& other) const;

 private:
  struct Call;
  bool take(Call& call) const;
  bool donations_suit(Call& call, uint64_t visit) const;
  void finish(Call& call, std::vector<pjrt::Buffer> outputs,
              std::vector<at::Tensor>& results) const;
  void note_versions(std::span<const Argument> arguments) const;
  void undo(Call& call, const graph::FailurePtr& failure) const;
  std::string numbers_at(XlaGenerator::Place place) const;

  graph::Executor& executor_;
  Description description_;
  graph::SharedBufferPtr numbers_;  // uploaded once, where they are the same at each call
  int64_t donated_bytes_ = 0;
  size_t written_ = 0;         // storages that get a result of the program
  bool needs_before_ = false;  // what storages held before the call
  bool accepts_more_ = false;
};

// The bytes of a 0-dim cpu tensor's element, of at most 8.
int64_t element_bits(const c10::TensorImpl& tensor);

// A call that is being recorded, to be made a Replay of. Keeps nothing alive.
class RecordedCall {
 public:
  // After what was pending has been executed. Empty where such a call cannot be replayed.
  static std::unique_ptr<RecordedCall> begin(std::span<const Argument> arguments,
                                             bool with_text = false);

  // After it was recorded and executed. Empty where it did more than a replay can.
  std::shared_ptr<Replay> finish(std::span<const Returned> results);

 private:
  using TensorPtr = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Observed {
    // Null, and never found, for what is no tensor.
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor{TensorPtr()};
    uint32_t version = 0;
  };

  explicit RecordedCall(graph::Executor& executor) : executor_(executor) {}
  bool describe(std::span<const Argument> arguments);
  bool describe_storage(const c10::TensorImpl& tensor, Replay::ArgumentKey& key);
  bool look_at_arguments();
  bool look_at_program(const graph::Capture::Program& program);
  bool look_at_random(const graph::Capture::Program& program);
  bool look_at_results(std::span<const Returned> results);
  std::optional<Replay::Source> source_of(c10::StorageImpl& storage);

  graph::Executor& executor_;
  std::unique_ptr<graph::Capture> capture_;
  XlaGenerator::Place random_{};
  uint64_t taken_before_ = 0;
  std::vector<Observed> observed_;  // one for each argument
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<uint64_t> buffers_;  // what each storage held
  std::vector<uint64_t> roots_;    // buffers of the program's results
  std::vector<bool> explained_;    // each of them
  Replay::Description description_;
};

}  // namespace torch_pjrt::aten
