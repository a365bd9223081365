#include "graph/compile_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "base/metrics.h"
#include "base/trace_range.h"
#include "graph/compile_progress.h"

namespace torch_pjrt::graph {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestSize = 32;

// Two independent FNV-1a streams: 128 bits name a file.
std::string digest(std::initializer_list<std::string_view> parts) {
  uint64_t a = 0xcbf29ce484222325ull, b = 0x84222325cbf29ce4ull;
  for (std::string_view part : parts) {
    for (unsigned char c : part) {
      a = (a ^ c) * 0x100000001b3ull;
      b = (b ^ c) * 0x9e3779b97f4a7c15ull;
      b ^= b >> 31;
    }
    a = (a ^ 0xff) * 0x100000001b3ull;
    b = (b ^ part.size()) * 0x9e3779b97f4a7c15ull;
  }
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return text;
}

// The path, size and time of the plugin's file tell one build from another.
std::string build_of(const pjrt::Client& client) {
  std::error_code ignored;
  const fs::path path(client.plugin().path());
  const auto size = fs::file_size(path, ignored);
  const auto time = fs::last_write_time(path, ignored).time_since_epoch().count();
  return client.platform_name() + '\n' + client.platform_version() + '\n' + path.string() + '\n' +
         std::to_string(size) + '\n' + std::to_string(time);
}

// One a line, so far as a person wants to know.
size_t operations_in(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

CompileCache::CompileCache(std::shared_ptr<pjrt::Client> client,
                           const pjrt::CompileOptions& options, std::string directory)
    : client_(std::move(client)),
      options_(options.serialize()),
      directory_(std::move(directory)),
      build_(build_of(*client_)) {}

CompileCache::Executable CompileCache::get(const Trace& trace) {
  static base::Counter& hits = base::counter("compile.cache_hits");
  static base::Counter& dropped_programs = base::counter("compile.dropped");
  static base::Timer& emit_seconds = base::timer("emit.seconds");
  {
    std::lock_guard lock(mutex_);
    if (auto found = programs_.find(trace.key()); found != programs_.end()) {
      hits.add();
      kept_.splice(kept_.begin(), kept_, found->second);
      return found->second->executable;
    }
  }
  std::string text;
  {
    const base::TraceRange range("emit");
    base::ScopedTimer timer(emit_seconds);
    text = trace.emit(client_.get());
  }
  Executable executable = compile(text);
  std::list<Kept> dropped;  // destroyed without the lock
  std::lock_guard lock(mutex_);
  if (auto found = programs_.find(trace.key()); found != programs_.end()) {
    return found->second->executable;  // another thread was quicker
  }
  kept_.push_front({trace.key(), executable});
  programs_.emplace(trace.key(), kept_.begin());
  while (kept_.size() > limit()) {
    programs_.erase(kept_.back().key);
    dropped.splice(dropped.begin(), kept_, std::prev(kept_.end()));
  }
  dropped_programs.add(static_cast<int64_t>(dropped.size()));
  return executable;
}

CompileCache::Executable CompileCache::compile(const std::string& text) {
  static base::Counter& compiled = base::counter("compile.programs");
  static base::Counter& disk_hits = base::counter("compile.disk_hits");
  static base::Timer& compile_seconds = base::timer("compile.seconds");
  if (const char* folder = std::getenv("TORCH_PJRT_DUMP")) {
    std::ofstream(fs::path(folder) / (digest({text}) + ".mlir")) << text;
  }
  const std::string path = directory_.empty() ? "" : path_of(text);
  Executable executable = path.empty() ? nullptr : load(path);
  if (executable) {
    disk_hits.add();
    return executable;
  }
  const base::TraceRange range("compile");
  base::ScopedTimer timer(compile_seconds);
  const CompileProgress progress(operations_in(text));
  executable =
      std::make_shared<const pjrt::LoadedExecutable>(client_->compile(text, "mlir", options_));
  compiled.add();
  if (!path.empty()) store(path, *executable);
  return executable;
}

std::string CompileCache::path_of(const std::string& text) const {
  return (fs::path(directory_) / (digest({build_, options_, text}) + ".pjrt")).string();
}

// An entry that cannot be read is no entry: the program is compiled again. A plugin may crash on
// damaged bytes, so each file begins with their digest.
CompileCache::Executable CompileCache::load(const std::string& path) const {
  std::ifstream file(path, std::ios::binary);
  if (!file) return nullptr;
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string expected = bytes.substr(0, kDigestSize);
  bytes.erase(0, kDigestSize);
  if (digest({bytes}) != expected) {
    base::counter("compile.disk_errors").add();
    return nullptr;
  }
  try {
    return std::make_shared<const pjrt::LoadedExecutable>(client_->deserialize(bytes, options_));
  } catch (const pjrt::Error&) {
    base::counter("compile.disk_errors").add();
    return nullptr;
  }
}

// Written aside and renamed, so that no other process reads half a file.
void CompileCache::store(const std::string& path,
                         const pjrt::LoadedExecutable& executable) const noexcept {
  const std::string aside = path + '.' + std::to_string(std::random_device{}());
  try {
    const std::string bytes = executable.serialize();
    fs::create_directories(directory_);
    std::ofstream file(aside, std::ios::binary);
    file << digest({bytes}) << bytes;
    file.close();
    if (file) {
      fs::rename(aside, path);
      return;
    }
  } catch (const std::exception&) {  // counted below, as a file that cannot be written
  }
  base::counter("compile.disk_errors").add();
  std::error_code ignored;
  fs::remove(aside, ignored);
}

}  // namespace torch_pjrt::graph
