// Constants of the kernel model from published measurements.
#pragma once

#include "roofcast/hardware.h"
#include "roofcast/result.h"

#include <map>
#include <string>
#include <vector>

namespace roofcast {

struct FitOptions {
  std::vector<std::string> gpus;       // devices to fit; empty: all of the tables
  std::vector<std::string> uses;       // sorts of kernel, as in `use` of the table of constants; empty: all
  bool families = false;               // instead of each device, those of a family together
  std::string leave_out;               // a device whose rows no fit may see
  bool leave_out_family = false;       // nor those of its family
  int starts = 4;                      // of the search, the given one and others about it
  int generations = 120;               // of the search; more: slower, closer
};

// What was fitted: constants by the file that they belong to ("h100-sxm", "families/hopper").
using FittedConstants = std::map<std::string, std::map<std::string, Figure>>;

// Codes: file-missing, file-kind, hw-unknown, hw-key.
Result<FittedConstants> fit(const std::vector<std::string>& files, const FitOptions& options);

// Puts them into the [kernel] tables of the hardware files in `folder`; other lines stay.
Status write_constants(const FittedConstants& fitted, const std::string& folder);

}  // namespace roofcast
