// Flags of groups "Model" and "Machine", the same in every command that takes a model.
#pragma once

#include "roofcast/hardware.h"
#include "roofcast/load_options.h"
#include "roofcast/model.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace roofcast::cli {

struct ModelOptions {
  std::string file;
  std::vector<std::string> set, shape, value, ops;
  std::string dtype, weight_dtype;
  bool causal = false;

  void add_to(CLI::App& app);
  void add_symbols_to(CLI::App& app);  // all but the file
  Result<LoadOptions> parse() const;
};

struct MachineOptions {
  std::string hardware = "h100-sxm";
  std::string model = "ideal";

  void add_to(CLI::App& app);
};

}  // namespace roofcast::cli
