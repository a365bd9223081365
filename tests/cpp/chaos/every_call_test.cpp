// Each call that the wrappers of cpp/pjrt make fails once: the error arrives with code and message,
// or is counted where a destructor makes the call, and nothing is lost.
#include <array>
#include <functional>
#include <sstream>
#include <string>

#include "base/metrics.h"
#include "chaos/chaos_test_support.h"
#include "pjrt/arrays.h"
#include "pjrt/programs.h"

namespace torch_pjrt {
namespace {

using pjrt::ElementType;

// Not every plugin can do all; what chaos made fail is not to be hidden.
template <typename Action>
void where_supported(const Action& action) {
  try {
    action();
  } catch (const pjrt::Error& error) {
    if (std::string_view(error.what()).find("chaos:") != std::string_view::npos) throw;
  }
}

class ChaosEveryCall : public WithChaos {
 protected:
  using Tour = std::function<void()>;

  void fail_each_call_of(const Tour& tour) {
    tour();  // what is made at the first use only
    chaos().configure("");
    tour();
    std::map<std::string, int64_t> calls;
    std::istringstream names(
        chaos().function<decltype(pjrt_chaos_functions)>("pjrt_chaos_functions")());
    for (std::string name; std::getline(names, name);) {
      if (const int64_t count = chaos().count(name.c_str())) calls[name] = count;
    }
    calls.erase("PJRT_Error_Destroy");  // these two cannot fail
    calls.erase("PJRT_Error_Message");
    calls.erase("PJRT_Error_GetCode");  // asked about errors of the plugin, told as UNKNOWN
    ASSERT_FALSE(calls.empty());
    const int64_t buffers = chaos().count("buffers_alive");
    for (const auto& [name, count] : calls) {
      for (int64_t call = 1; call <= count; ++call) {
        fail(tour, name, call);
        EXPECT_EQ(chaos().count("errors_alive"), 0) << name << ' ' << call;
        EXPECT_EQ(chaos().count("buffers_alive"), buffers) << name << ' ' << call;
      }
    }
  }

  void fail(const Tour& tour, const std::string& name, int64_t call) {
    const int64_t counted = destructor_errors();
    chaos().configure("fail=" + name + ":" + std::to_string(call) + ":DATA_LOSS");
    std::string told;
    try {
      tour();
    } catch (const pjrt::Error& error) {
      told = error.what();
      EXPECT_EQ(error.code(), pjrt::ErrorCode::kDataLoss) << told;
    }
    if (chaos().count("failures") == 0) {
      // An event that was not ready yet is asked in another way: one call fewer of this function.
      EXPECT_TRUE(name.starts_with("PJRT_Event_")) << name << ' ' << call;
    } else if (told.empty()) {
      EXPECT_EQ(destructor_errors(), counted + 1)
          << "nobody told of call " << call << " of " << name;
    } else {
      EXPECT_NE(told.find("call " + std::to_string(call) + " of " + name), std::string::npos)
          << told;
    }
    chaos().configure("");
  }

  static int64_t destructor_errors() { return base::counter("pjrt.destructor_errors").value(); }

  void describe() {
    client().process_index();
    chaos().plugin().attributes();
    const pjrt::Device first = device();
    first.id();
    first.local_hardware_id();
    first.process_index();
    first.is_addressable();
    first.kind();
    first.debug_string();
    first.memory_stats();
    for (const pjrt::Memory& memory : {first.default_memory()}) {
      memory.id();
      memory.kind();
      memory.debug_string();
      memory.devices();
    }
    client().addressable_memories();
  }

  void transfer() {
    alignas(64) std::array<float, 16> values{};
    const int64_t size = 16;
    const pjrt::ArraySpec spec{ElementType::kF32, {&size, 1}};
    pjrt::Buffer buffer = pjrt::put(client(), device(), std::vector<float>(16, 1));
    buffer.element_type();
    buffer.on_device_bytes();
    buffer.device();
    buffer.memory();
    buffer.is_on_cpu();
    buffer.is_deleted();
    buffer.ready_event().await();
    if (const auto error = buffer.ready_event().error()) throw *error;
    buffer.ready_event().on_ready([](const pjrt::Error*) noexcept {});
    buffer.copy_to_host(values.data(), sizeof values).await();
    where_supported([&] { buffer.copy_raw_to_host(values.data(), 4, 8).await(); });
    buffer.device_pointer();
    buffer.unsafe_pointer();
    buffer.add_external_reference();
    buffer.drop_external_reference();
    buffer.copy_to_device(device(1)).ready_event().await();
    where_supported(
        [&] { buffer.copy_to_memory(device(1).default_memory()).ready_event().await(); });
    where_supported([&] { client().create_uninitialized(spec, device()); });
    client().create_view(values.data(), spec, device(), nullptr, nullptr);
    where_supported([&] { client().dma_map(values.data(), sizeof values); });
    where_supported([&] { client().dma_unmap(values.data()); });
    where_supported([&] { transfer_in_pieces(spec, values); });
    buffer.delete_now();
  }

  void transfer_in_pieces(const pjrt::ArraySpec& spec, const std::array<float, 16>& values) {
    pjrt::AsyncTransfer pieces =
        client().create_async_transfer({&spec, 1}, device().default_memory());
    pieces.buffer_count();
    pieces.buffer_bytes(0);
    const pjrt::Buffer buffer = pieces.retrieve(0);
    const pjrt::Event half = pieces.transfer(0, values.data(), 0, 32, false);
    pieces.transfer(0, values.data() + 8, 32, 32, true).await();
    half.await();
  }

  void compile() {
    const pjrt::LoadedExecutable program = pjrt::compile(client(), pjrt::kDouble);
    program.output_types();
    program.output_dimensions();
    program.name();
    program.fingerprint();
    program.addressable_devices();
    program.is_deleted();
    where_supported([&] { program.generated_code_bytes(); });
    program.memory_stats();
    program.cost_analysis();
    where_supported([&] { client().deserialize(program.serialize()); });
  }
};
RUN_ON_EACH_PLUGIN(ChaosEveryCall);

TEST_P(ChaosEveryCall, OfADescription) {
  fail_each_call_of([&] { describe(); });
}

TEST_P(ChaosEveryCall, OfTransfers) {
  fail_each_call_of([&] { transfer(); });
}

TEST_P(ChaosEveryCall, OfACompilation) {
  fail_each_call_of([&] { compile(); });
}

TEST_P(ChaosEveryCall, OfAnExecution) {
  const pjrt::LoadedExecutable program = pjrt::compile(client(), pjrt::kDouble);
  fail_each_call_of([&] {
    const pjrt::Buffer input = pjrt::put(client(), device(), std::vector<float>(16, 2));
    std::vector<pjrt::Buffer> outputs;
    pjrt::Event complete;
    PJRT_Buffer* const argument = input.get();
    program.execute({&argument, 1}, {}, outputs, &complete);
    complete.await();
    EXPECT_EQ(pjrt::get(outputs[0]), std::vector<float>(16, 4));
  });
}

TEST_P(ChaosEveryCall, OfTheMakingOfAClient) {
  fail_each_call_of([&] { pjrt::Client::create(chaos().shared_plugin()); });
}

}  // namespace
}  // namespace torch_pjrt
