// The CPU backend: oneDNN where it has a fast kernel, Eigen for the rest; threads pinned.
#include "measure/cpu/cpu_op.h"
#include "support/diagnostic.h"

#include <chrono>
#include <fstream>
#include <omp.h>
#include <sched.h>
#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace roofcast {
namespace cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Puts operands out of every cache. Code and stacks stay where they are, as they do in a real run.
void evict(std::span<const std::span<std::byte>> operands) {
#if defined(__SSE2__)
  for (std::span<std::byte> bytes : operands)
    for (size_t i = 0; i < bytes.size(); i += 64) _mm_clflush(bytes.data() + i);
  _mm_mfence();
#else
  // No instruction for it here: a sweep larger than any last-level cache.
  static std::vector<std::byte> sweep(size_t{512} << 20);
  (void)operands;
  for (size_t i = 0; i < sweep.size(); i += 64) sweep[i] = static_cast<std::byte>(i);
#endif
}

class Prepared : public PreparedOp {
public:
  explicit Prepared(CpuOp op) : op_(std::move(op)) {}

  std::vector<double> time(const RunOptions& options) override {
    constexpr int warm_up = 3;
    for (int i = 0; i < warm_up; ++i) op_.run();
    std::vector<double> samples;
    double total = 0;
    const auto begin = Clock::now();
    while (!(options.stop && *options.stop)) {
      if (options.cold) evict(op_.operands);
      const auto start = Clock::now();
      op_.run();
      samples.push_back(seconds_since(start));
      total += samples.back();
      const bool enough = static_cast<int>(samples.size()) >= options.runs && total >= options.least_s;
      const double past = seconds_since(begin);
      if (enough || (past > options.most_s && samples.size() >= 5) || past > 5 * options.most_s) break;
    }
    return samples;
  }
  std::vector<HostTensor> outputs() override {
    op_.run();
    return op_.read();
  }

private:
  CpuOp op_;
};

// "AMD EPYC" of /proc/cpuinfo.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != line.npos) return line.substr(colon + 2);
  return "CPU";
}

class CpuBackend : public Backend {
public:
  explicit CpuBackend(int threads) : threads_(threads) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads_);
    pin();
  }

  std::string device() const override {
    return processor() + ", " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
  }
  double free_memory() const override {
    std::ifstream file("/proc/meminfo");
    std::string key, unit;
    for (double kib; file >> key >> kib >> unit;)
      if (key == "MemAvailable:") return kib * 1024;
    return 1e300;
  }
  std::string note() const override {
    std::ifstream file("/proc/loadavg");
    double load = 0;
    file >> load;
    // Our own threads are part of the load.
    return load > threads_ + 0.5 ? "the machine has other work (load " + std::to_string(load).substr(0, 4) + "): times are unsteady" : "";
  }
  Result<std::unique_ptr<PreparedOp>> prepare(const Task& task, std::span<const HostTensor> inputs) override {
    for (auto* library : {with_onednn, with_eigen})
      if (auto op = library(task, inputs)) return std::unique_ptr<PreparedOp>(std::make_unique<Prepared>(std::move(*op)));
    return error("op-not-run", "neither oneDNN nor Eigen runs it for " + std::string(name(task.outputs[0].dtype)));
  }

private:
  // Thread i on the i-th of the processors that we may use.
  void pin() const {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    std::vector<int> processors;
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &allowed)) processors.push_back(i);
#pragma omp parallel
    {
      // From the last one down: the first is where systems put their own work.
      const size_t mine = static_cast<size_t>(omp_get_thread_num());
      if (mine < processors.size()) {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(processors[processors.size() - 1 - mine], &own);
        sched_setaffinity(0, sizeof own, &own);
      }
    }
  }

  int threads_;
};

}  // namespace

Broadcast merge_dims(const Task& task) {
  const std::vector<int64_t>& out = task.outputs[0].dims;
  Broadcast b;
  b.operands.resize(task.inputs.size());
  uint32_t before = 0;
  for (size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 1) continue;
    uint32_t pattern = 0;
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      const std::vector<int64_t>& dims = task.inputs[i].dims;
      const size_t skip = out.size() - dims.size();
      if (d >= skip && dims[d - skip] != 1) pattern |= 1u << i;
    }
    const bool merge = !b.dims.empty() && pattern == before;
    if (!merge) b.dims.push_back(1);
    b.dims.back() *= out[d];
    for (size_t i = 0; i < b.operands.size(); ++i) {
      if (!merge) b.operands[i].push_back(1);
      if (pattern >> i & 1) b.operands[i].back() *= out[d];
    }
    before = pattern;
  }
  if (b.dims.empty()) {
    b.dims = {1};
    for (auto& dims : b.operands) dims = {1};
  }
  return b;
}

}  // namespace cpu

Result<std::unique_ptr<Backend>> make_cpu_backend(int threads) {
  cpu_set_t allowed;
  const int most = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  if (threads > most)
    return error("device-missing", std::to_string(threads) + " threads are asked for, " + std::to_string(most) + " processors are there", {}, "lower --threads");
  return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(threads > 0 ? threads : most));
}

}  // namespace roofcast
