// What is found out on the device, or later than asked, and raised at the next read or sync.
#include <algorithm>
#include <cstring>

#include "base/metrics.h"
#include "graph/emission.h"
#include "graph/executor.h"
#include "graph/lock.h"
#include "transfer/device_to_host.h"
#include "transfer/host_addressing.h"

namespace torch_pjrt::graph {
namespace {

// All checks of one execution in one array, so that they cost one output.
constexpr Operator kChecks{"torch_pjrt::checks", [](Emission& e) {
                             StableHloBuilder& b = e.builder();
                             Operands flags;
                             for (Operand flag : e.operands())
                               flags.push_back(b.reshape(flag, {1}));
                             e.result(b.concatenate(flags, 0));
                           }};

// In place where the host can: these bytes are ours, and no transfer that a user asked for.
void read_flags(const pjrt::Client& client, const pjrt::Buffer& buffer,
                std::vector<uint8_t>& flags) {
  if (transfer::uses_host_memory(client)) {
    buffer.ready_event().await("read the device's checks");
    std::memcpy(flags.data(), buffer.device_pointer(), flags.size());
    return;
  }
  const auto count = static_cast<int64_t>(flags.size());
  transfer::device_to_host(client, buffer,
                           {.data = flags.data(), .dimensions = std::span(&count, 1)});
}

bool computes(const pjrt::Buffer& buffer) {
  try {
    buffer.ready_event().await();
    return true;
  } catch (const pjrt::Error&) {
    return false;
  }
}

}  // namespace

void Executor::add_check(Check check) {
  RecordingLock lock(recording_mutex());
  checks_.push_back(std::move(check));
}

// The checks recorded so far as one value; empty when there are none.
Value Executor::take_checks(Operators& checked) {
  std::vector<Check> checks;
  {
    RecordingLock lock(recording_mutex());
    checks.swap(checks_);
  }
  if (checks.empty()) return {};
  std::vector<Value> failed;
  for (Check& check : checks) {
    failed.push_back(std::move(check.failed));
    checked.push_back(check.op);
  }
  const Type type{ElementType::kPred, Dimensions{static_cast<int64_t>(failed.size())}};
  return {Node::operation(kChecks, failed, {}, type), 0};
}

void Executor::keep_checks(SharedBufferPtr flags, std::vector<const Operator*> operators) {
  std::lock_guard lock(pending_checks_mutex_);
  pending_checks_.push_back({std::move(flags), std::move(operators)});
}

void Executor::raise_failed_checks() {
  std::deque<PendingChecks> pending;
  {
    std::lock_guard lock(pending_checks_mutex_);
    pending.swap(pending_checks_);
  }
  const auto put_back = [&] {
    std::lock_guard lock(pending_checks_mutex_);
    pending_checks_.insert(pending_checks_.begin(), pending.begin(), pending.end());
  };
  while (!pending.empty()) {
    const PendingChecks checks = std::move(pending.front());
    pending.pop_front();
    if (const FailurePtr& failure = checks.flags->failure) {
      put_back();
      throw pjrt::Error(failure->code, "execute what was recorded",
                        failure->message +
                            "; another attempt computed all values: none is lost, and what was "
                            "asked need not be repeated");
    }
    std::vector<uint8_t> failed(checks.operators.size());
    try {
      read_flags(*client_, checks.flags->buffer, failed);
    } catch (const pjrt::Error&) {
      // The program itself failed: its outputs say so, and nothing else.
      if (!computes(checks.flags->buffer)) continue;
      pending.push_front(checks);  // unread: for the next time
      put_back();
      throw;
    }
    const auto first = std::find(failed.begin(), failed.end(), 1);
    if (first == failed.end()) continue;
    const std::string name(checks.operators[static_cast<size_t>(first - failed.begin())]->name);
    // A whole message, of what is no index (see aten/checks.h).
    if (const size_t colon = name.find(": "); colon != std::string::npos) {
      constexpr auto kCode = pjrt::ErrorCode::kFailedPrecondition;
      const std::string asked = name.substr(0, colon);
      const std::string problem =
          name.substr(colon + 2) + "; or find the call with torch_pjrt.config.mode = 'debug'";
      if (asked.starts_with("linalg.") || asked.starts_with("cholesky"))
        throw LinearAlgebraError(kCode, asked, problem);
      throw pjrt::Error(kCode, asked, problem);
    }
    throw CheckError(name +
                     ": index out of range; the device read or wrote another element instead; got "
                     "an index outside the dimension, expected -size <= index < size; check the "
                     "indices, or find the call with torch_pjrt.config.mode = 'debug'");
  }
}

}  // namespace torch_pjrt::graph
