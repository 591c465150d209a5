#include "roofcast/fit.h"

#include "api/fit_stages.h"
#include "api/fit_tables.h"
#include "support/diagnostic.h"
#include "time/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace roofcast {
namespace {

// Rows of one device that a stage fits on, thinned evenly.
struct Sample {
  const RowDevice* device = nullptr;
  std::vector<const MeasuredRow*> rows;
};

constexpr size_t most_rows = 1200;
constexpr size_t least_rows = 20;  // of a device: fewer say too little of it

std::vector<const MeasuredRow*> thinned(const std::vector<const MeasuredRow*>& rows, size_t most) {
  if (rows.size() <= most) return rows;
  std::vector<const MeasuredRow*> out;
  for (size_t i = 0; i < most; ++i) out.push_back(rows[i * rows.size() / most]);
  return out;
}

double loss(const std::vector<Sample>& samples, const KernelConstants& constants) {
  double total = 0;
  for (const Sample& s : samples) {
    KernelDevice kernel = s.device->kernel;
    kernel.c = constants, kernel.known = true;
    double sum = 0;
    for (const MeasuredRow* row : s.rows)
      if (const auto predicted = kernel_row_time(*row, *s.device, kernel)) sum += std::abs(std::log(*predicted / row->seconds));
    total += sum / static_cast<double>(s.rows.size());
  }
  return total / static_cast<double>(samples.size());
}

class Fitter {
public:
  Fitter(const MeasuredTables& tables, const FitOptions& options) : t_(tables), options_(options) {}

  Result<FittedConstants> run() {
    std::map<std::string, std::vector<const RowDevice*>> groups;  // file → devices
    const RowDevice* left_out = options_.leave_out.empty() ? nullptr : devices_.load(options_.leave_out);
    if (!options_.leave_out.empty() && !left_out) return error("hw-unknown", "no hardware called \"" + options_.leave_out + "\"", {}, "`roofcast hw` lists all");
    const std::string own_family = left_out ? left_out->hardware.family : "";
    std::set<std::string> seen;
    for (const MeasuredRow& row : t_.rows) {
      const RowDevice* device = row.fitted ? devices_.find(row) : nullptr;
      if (!device || !seen.insert(device->hardware.name).second) continue;
      const std::string& family = device->hardware.family;
      if (row.gpu == options_.leave_out || (options_.leave_out_family && family == own_family)) continue;
      if (!options_.gpus.empty() && std::find(options_.gpus.begin(), options_.gpus.end(), row.gpu) == options_.gpus.end()) continue;
      if (!options_.families) groups[device->spec].push_back(device);
      else {
        groups["families/gpu"].push_back(device);
        if (!left_out || family == own_family) groups["families/" + family].push_back(device);
      }
    }
    for (const auto& [file, devices] : groups)
      for (const FitStage& stage : fit_stages()) fit_stage(file, devices, stage);
    return std::move(fitted_);
  }

private:
  bool wanted(const FitStage& stage) const {
    return options_.uses.empty() || std::find(options_.uses.begin(), options_.uses.end(), stage.name) != options_.uses.end();
  }

  // Only rows with an overhead in them tell how long it is.
  static bool decided_by(const KernelConstant& c, const std::set<Timing>& timings) {
    if (c.name == "eager_overhead") return timings.contains(Timing::eager);
    if (c.name == "host_overhead") return timings.contains(Timing::host);
    if (c.name == "all_reduce_eager") return timings.contains(Timing::eager);
    return c.name != "launch_overhead" || timings.contains(Timing::graph) || timings.contains(Timing::kernel);
  }

  void fit_stage(const std::string& file, const std::vector<const RowDevice*>& devices, const FitStage& stage) {
    if (!wanted(stage)) return;
    std::vector<Sample> samples;
    std::set<Timing> timings;
    size_t rows = 0;
    std::set<std::string_view> sources;
    for (const RowDevice* device : devices) {
      Sample s{device, {}};
      for (const MeasuredRow& row : t_.rows)
        if (row.fitted && devices_.find(row) == device && stage.takes(row, device->kernel))
          s.rows.push_back(&row), sources.insert(row.source), timings.insert(row.timing);
      s.rows = thinned(s.rows, most_rows / devices.size() + 100);
      rows += s.rows.size();
      if (s.rows.size() >= least_rows) samples.push_back(std::move(s));
    }
    std::vector<const KernelConstant*> which;
    for (const KernelConstant& c : kernel_constant_table())
      if (c.use == stage.use && decided_by(c, timings)) which.push_back(&c);
    if (which.empty() || samples.empty()) return;
    KernelConstants constants = devices.size() == 1 ? devices[0]->kernel.c : KernelConstants();
    for (const auto& [name, figure] : fitted_[file])
      for (const KernelConstant& c : kernel_constant_table())
        if (c.name == name) c.of(constants) = figure.value;
    for (const KernelConstant* c : which) c->of(constants) = c->start;
    fit_constants(constants, which, [&](const KernelConstants& tried) { return loss(samples, tried); }, options_.generations, options_.starts);
    std::string on;
    for (std::string_view source : sources) on += (on.empty() ? "" : ", ") + std::string(source);
    on += fmt::format(": {} rows of {}", rows, stage.families[0]);
    if (devices.size() > 1) on += fmt::format(" on {} devices", samples.size());
    for (const KernelConstant* c : which) fitted_[file][std::string(c->name)] = {c->of(constants), std::nullopt, on};
  }

  const MeasuredTables& t_;
  const FitOptions& options_;
  RowDevices devices_;
  FittedConstants fitted_;
};

}  // namespace

Result<FittedConstants> fit_tables(const MeasuredTables& tables, const FitOptions& options) { return Fitter(tables, options).run(); }

Result<FittedConstants> fit(const std::vector<std::string>& files, const FitOptions& options) {
  const Result<MeasuredTables> tables = read_measured_tables(files);
  return tables ? fit_tables(*tables, options) : tables.error();
}

Status write_constants(const FittedConstants& fitted, const std::string& folder) {
  for (const auto& [name, constants] : fitted) {
    const std::filesystem::path path = std::filesystem::path(folder) / (name + ".toml");
    std::ifstream in(path);
    if (!in) return error("file-missing", "cannot be read", {.file = path.string()}, "check the folder");
    std::string text, own, line;
    bool kernel = false;
    std::map<std::string, std::string> lines;  // of the [kernel] table, by name
    while (std::getline(in, line)) {
      if (line.starts_with("[")) kernel = line == "[kernel]";
      if (!kernel) text += line + "\n";
      else if (const size_t at = line.find(" ="); at != line.npos) lines[line.substr(0, at)] = line;
    }
    in.close();
    while (text.ends_with("\n\n")) text.pop_back();
    for (const auto& [constant, figure] : constants)
      lines[constant] = fmt::format("{} = {{ value = {:.4g}, fitted_on = \"{}\" }}", constant, figure.value, figure.fitted_on.value_or(""));
    text += "\n[kernel]\n";
    for (const KernelConstant& c : kernel_constant_table())
      if (const auto at = lines.find(std::string(c.name)); at != lines.end()) text += at->second + "\n";
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) return error("file-missing", "cannot be written", {.file = path.string()}, "check the folder and its rights");
  }
  return Ok{};
}

}  // namespace roofcast
