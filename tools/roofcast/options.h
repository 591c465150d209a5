// Flags of groups "Model" and "Machine", the same in every command that takes a model.
#pragma once

#include "roofcast/hardware.h"
#include "roofcast/layouts.h"
#include "roofcast/load_options.h"
#include "roofcast/model.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace roofcast::cli {

struct ModelOptions {
  std::string file;
  std::vector<std::string> set, shape, value, ops;
  std::string dtype, weight_dtype, form = "prefill", attention = "fused";
  bool causal = false;

  void add_to(CLI::App& app);
  void add_symbols_to(CLI::App& app);  // all but the file
  Result<LoadOptions> parse() const;
};

struct MachineOptions {
  std::string hardware = "h100-sxm";
  std::string model = "kernel";

  void add_to(CLI::App& app);
};

// Flags on parallel layouts.
struct LayoutFlags {
  std::string layout, devices, dispatch_dtype, gradient_dtype, optimizer = "adam";
  std::vector<std::string> shard;
  int64_t global_batch = 0;
  bool train = false, no_overlap = false;

  void add_to(CLI::App& app);
  void add_layout_to(CLI::App& app);  // the layout alone
  bool any() const { return train || !layout.empty() || !shard.empty(); }
  Result<ParallelOptions> parse() const;
  // "64", "8,16,32", or "8..1024" in doublings.
  Result<std::vector<int64_t>> parse_devices() const;
};

}  // namespace roofcast::cli
