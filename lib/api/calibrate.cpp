#include "roofcast/calibrate.h"

#include "time/costing.h"
#include "api/profile_join.h"
#include "hw/hardware.h"
#include "ir/print.h"
#include "measure/backend.h"
#include "measure/statistics.h"
#include "measure/workload.h"
#include "passes/pass.h"
#include "support/diagnostic.h"
#include "support/units.h"
#include "time/fit.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unistd.h>

namespace roofcast {
namespace {

class Calibrator {
public:
  Calibrator(Backend& backend, const CalibrateOptions& options, Hardware base) : backend_(backend), options_(options) {
    c_.hardware = std::move(base);
    c_.device = backend.device();
  }

  Result<Calibration> run() {
    if (options_.on == "cpu") describe_cpu();
    measure_peaks();
    measure_memory();
    if (Status status = options_.on == "cpu" ? fit() : measure_launch(); !status) return std::move(status.error());
    if (options_.stop && *options_.stop) return error("interrupted", "ended before all was measured", {}, "calibrate again");
    if (const std::string note = backend_.note(); !note.empty()) c_.warnings.push_back(warning("device-unsteady", note, {}, "calibrate again on a quiet machine"));
    const std::string title = "# Measured by `roofcast calibrate` on " + c_.device + ".\n";
    c_.toml = title + to_toml(options_.base.empty() ? c_.hardware : measured_part(), options_.base);
    return std::move(c_);
  }

private:
  std::string how(const std::string& what) const { return "measured: " + what + " on " + c_.device; }

  // What the base does not say already.
  Hardware measured_part() const {
    Hardware part;
    part.name = c_.hardware.name, part.title = c_.hardware.title, part.family = c_.hardware.family;
    auto own = [](const Figure& f) { return (f.source && f.source->starts_with("measured")) || (f.fitted_on && f.fitted_on->starts_with("roofcast calibrate")); };
    auto copy = [&](const std::map<std::string, Figure>& from, std::map<std::string, Figure>& to) {
      for (const auto& [name, figure] : from)
        if (own(figure)) to[name] = figure;
    };
    copy(c_.hardware.matrix_peak, part.matrix_peak), copy(c_.hardware.vector_peak, part.vector_peak);
    copy(c_.hardware.chip, part.chip), copy(c_.hardware.kernel, part.kernel);
    for (const auto& [name, m] : c_.hardware.memory)
      if (m.bandwidth && own(*m.bandwidth)) part.memory[name].bandwidth = m.bandwidth;
    return part;
  }

  // Of a GPU: what a kernel takes that does nothing, one after another.
  Status measure_launch() {
    const Operand small{DType::float32, {32}};
    const auto seconds = best({form::Pointwise{form::Function::relu}, {small}, {small}});
    if (!seconds) return error("device-missing", "not even a small op runs", {}, "`nvidia-smi` says how the device is");
    c_.hardware.kernel["launch_overhead"] = {*seconds, how("a pointwise op on 32 elements, launched back to back"), std::nullopt};
    c_.hardware.name += "-measured";
    return Ok{};
  }

  void describe_cpu() {
    Hardware& h = c_.hardware;
    h.name = "this-cpu", h.title = c_.device, h.family = "cpu";
    h.chip["cores"] = {static_cast<double>(std::max(1, options_.threads)), "threads that the figures are for", std::nullopt};
  }

  // Seconds of a run; absent if the backend cannot run it.
  std::optional<double> best(const Task& task, bool cold = false) {
    const Result<std::unique_ptr<PreparedOp>> op = prepare(backend_, task);
    if (!op) return std::nullopt;
    const std::vector<double> samples = (*op)->time({.runs = options_.runs, .cold = cold, .least_s = 0.05, .stop = options_.stop});
    return samples.empty() ? std::nullopt : std::optional(median(samples));
  }

  // The matrix peak of a type is what the best of some large products reaches.
  void measure_peaks() {
    struct Row {
      DType a, b, out;
      bool transpose_b = false;
    };
    const Row rows[] = {{DType::float32, DType::float32, DType::float32}, {DType::bfloat16, DType::bfloat16, DType::bfloat16},
                        {DType::float16, DType::float16, DType::float16}, {DType::uint8, DType::int8, DType::int32}, {DType::int8, DType::int8, DType::int32, true},
                        {DType::float8e4m3fn, DType::float8e4m3fn, DType::bfloat16, true}};
    const std::vector<int64_t> sides = options_.on == "cuda" ? std::vector<int64_t>{4096, 8192} : std::vector<int64_t>{768, 1024, 1536};
    for (const Row& row : rows) {
      double rate = 0;
      for (int64_t side : sides) {
        const Task task{form::Product{false, row.transpose_b, 1, 1}, {{row.a, {side, side}}, {row.b, {side, side}}}, {{row.out, {side, side}}}};
        if (const auto seconds = best(task)) rate = std::max(rate, 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) / *seconds);
      }
      if (rate == 0) continue;
      const std::string type(name(math_type(row.b)));
      Figure& peak = c_.hardware.matrix_peak[type];
      if (peak.source && peak.source->starts_with("measured") && peak.value > rate) continue;  // int8 is tried twice
      peak = {rate, how("best of " + std::to_string(sides.size()) + " large " + type + " products"), std::nullopt};
      // On a CPU one unit does both.
      if (row.a == DType::float32 && options_.on == "cpu") c_.hardware.vector_peak[type] = {rate, how("best of the large products, the same units"), std::nullopt};
    }
  }

  double stream_rate(int64_t bytes, bool cold = false) {
    const Operand half{DType::float32, {bytes / 8}};
    const auto seconds = best({form::Pointwise{form::Function::relu}, {half}, {half}}, cold);
    return seconds ? static_cast<double>(bytes) / *seconds : 0;
  }

  // Rate of a pointwise op by the bytes that it touches. Memory is what lies far beyond every cache. Caches:
  // the second level as the system says, the last as what still runs faster than memory (of a virtual
  // machine the system tells the whole chip's).
  void measure_memory() {
    constexpr int64_t mebi = 1 << 20;
    // Of a GPU far more than any level of cache; of a CPU in a virtual machine too.
    const int64_t beyond = std::min<int64_t>(512 * mebi, static_cast<int64_t>(backend_.free_memory() / 8));
    double rate = stream_rate(beyond);
    // Smaller data, first put out of the caches, meets fewer pages.
    for (int64_t size : {8 * mebi, 32 * mebi, 128 * mebi}) rate = std::max(rate, stream_rate(size, true));
    if (rate > 0) c_.hardware.memory["hbm"].bandwidth = Figure{rate, how("best pointwise op on 8 to " + std::to_string(beyond / mebi) + " MiB in no cache"), std::nullopt};
    if (options_.on != "cpu") return;
    c_.hardware.memory["hbm"].capacity = Figure{static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)), "as the operating system says", std::nullopt};
    auto level = [&](const char* name, int64_t capacity, const std::string& source) {
      Memory& m = c_.hardware.memory[name];
      m.capacity = Figure{static_cast<double>(capacity), source, std::nullopt};
      if (const double r = stream_rate(capacity / 2); r > 0) m.bandwidth = Figure{r, how("a pointwise op on half of its capacity"), std::nullopt};
    };
    const int64_t second = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
    if (second > 0) level("l2", second, "as the operating system says");
    int64_t last = 0;
    constexpr double clearly_faster = 1.25;
    for (int64_t size = std::max(2 * second, mebi); size < beyond && stream_rate(size) > clearly_faster * rate; size *= 2) last = size;
    if (last > 0) level("llc", last, how("the largest power of two that runs clearly faster than memory"));
  }

  Status fit() {
    Result<std::unique_ptr<Module>> module = parse(calibration_workload(), "calibration workload");
    if (!module) return std::move(module.error());
    if (Status status = infer_types(**module); !status) return status;
    Costing costing(**module, c_.hardware, TimeModel::kernel, false);
    costing.resolve();
    std::vector<TimedProblem> timed;
    for (uint32_t i = 0; i < (*module)->nodes.size(); ++i) {
      if (options_.stop && *options_.stop) return Ok{};
      const Costing::Cost cost = costing.cost(NodeId{i});
      const Result<Task> task = describe(**module, (*module)->instances[(**module)[NodeId{i}].instance.index], costing.values());
      if (cost.group < 0 || !task) continue;
      const Result<std::unique_ptr<PreparedOp>> op = prepare(backend_, *task);
      if (!op) continue;
      const std::vector<double> samples = (*op)->time({.runs = options_.runs, .cold = true, .stop = options_.stop});
      if (samples.empty()) continue;
      timed.push_back({costing.problem(cost.group), median(samples)});
      c_.samples.push_back({std::string((*module)->names[(**module)[NodeId{i}].op_type]), task->size_text(), timed.back().seconds, std::nullopt});
    }
    if (timed.empty()) return error("device-missing", "no op of the calibration could be run", {}, "see `roofcast validate --help`");
    c_.median_abs_error = fit_cpu_constants(c_.hardware, timed, "roofcast calibrate: " + std::to_string(timed.size()) + " ops, cold, on " + c_.device);
    for (size_t i = 0; i < timed.size(); ++i) c_.samples[i].predicted = predict(timed[i].problem, c_.hardware, TimeModel::kernel).predicted;
    return Ok{};
  }

  Backend& backend_;
  const CalibrateOptions& options_;
  Calibration c_;
};

// Kernel constants of a runtime by profiles of whole models; all else is the base's.
Result<Calibration> calibrate_runtime(const CalibrateOptions& options, Hardware base) {
  Calibration c;
  std::vector<TimedProblem> timed;
  std::set<std::tuple<std::string, std::string, int64_t>> seen;
  for (const ProfiledModel& pair : options.profiles) {
    const Result<Profile> profile = read_onnxruntime_profile(pair.profile);
    if (!profile) return profile.error();
    c.device = "ONNX Runtime, " + profile->provider;
    Module& module = pair.model.module();
    const ProfileJoin join = join_profile(module, *profile);
    Costing costing(module, base, TimeModel::kernel, false);
    costing.resolve();
    for (uint32_t i = 0; i < module.nodes.size(); ++i) {
      const Costing::Cost cost = costing.cost(NodeId{i});
      if (cost.group < 0 || !join.of_node[i]) continue;
      TimedProblem t{costing.problem(cost.group), median(join.of_node[i]->seconds)};
      t.problem.cached_bytes = passed_on_bytes(module, NodeId{i}, t.problem);
      // Alike nodes count once.
      if (!seen.insert({pair.profile, std::string(module.names[module[NodeId{i}].op_type]), cost.group}).second) continue;
      c.samples.push_back({std::string(module.names[module[NodeId{i}].op_type]), display_name(module, NodeId{i}), t.seconds, std::nullopt});
      timed.push_back(std::move(t));
    }
  }
  if (timed.empty()) return error("trace-kind", "no node of the profiles is called as one of their models", {}, "is each a profile of its model?");
  base.family = "cpu-onnxruntime";
  c.median_abs_error = fit_cpu_constants(base, timed, "profiles of " + c.device + ", " + std::to_string(timed.size()) + " nodes");
  for (size_t i = 0; i < timed.size(); ++i) c.samples[i].predicted = predict(timed[i].problem, base, TimeModel::kernel).predicted;
  // The file is an overlay: the base's own figures are not repeated.
  Hardware overlay;
  overlay.name = base.name + "-onnxruntime", overlay.family = base.family, overlay.kernel = base.kernel;
  c.toml = "# Fitted by `roofcast calibrate --profile`.\n" + to_toml(overlay, options.base);
  c.hardware = std::move(base);
  return c;
}

}  // namespace

Result<Calibration> calibrate(const CalibrateOptions& options) {
  Hardware base;
  if (!options.base.empty()) {
    Result<Hardware> loaded = load_hardware(options.base);
    if (!loaded) return std::move(loaded.error());
    base = std::move(*loaded);
  }
  if (!options.profiles.empty()) return calibrate_runtime(options, std::move(base));
  Result<std::unique_ptr<Backend>> backend = options.on == "cuda" ? make_cuda_backend() : make_cpu_backend(options.threads);
  if (!backend) return std::move(backend.error());
  return Calibrator(**backend, options, std::move(base)).run();
}

}  // namespace roofcast
