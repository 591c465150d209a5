// Hardware as data: peaks, memories, links, and where each figure comes from.
//
// All rates are dense, per direction and in SI units. A figure that is not known is absent, and what
// needs it is reported as not known.
#pragma once

#include "ir/type.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

// A number with its provenance. Exactly one of `source` and `fitted_on` is set.
struct Figure {
  double value = 0;
  std::string source;     // document, or derivation
  std::string fitted_on;  // data that the constant was fitted on
};

struct Memory {
  std::string name;                  // "hbm", "l2", "smem"
  std::optional<Figure> bandwidth;   // bytes/s
  std::optional<Figure> capacity;    // bytes; smem: per core
};

struct Link {
  std::string name;                  // "nvlink4", "pcie5", "infiniband"
  Figure bandwidth;                  // bytes/s per direction and device, all its ports together
  std::optional<Figure> latency;     // seconds, one hop
  std::string topology = "switch";   // switch | ring | mesh | torus | pair | host
  bool in_network_reduction = false; // NVLS, SHARP
};

struct Device {
  std::string name, vendor, family;
  std::map<MathType, Figure> matrix_peak, vector_peak;  // FLOP/s
  std::vector<Memory> memories;      // outermost first
  std::optional<Figure> cores;       // SMs, CUs, CPU cores
  std::optional<Figure> clock;       // Hz, highest sustained
  std::optional<Figure> tdp;         // W
  std::map<std::string, Figure> constants;  // of the kernel model, by name: "launch_overhead" (s), …

  const Memory* memory(std::string_view name) const;
  std::optional<double> constant(std::string_view name) const;
  // Peak by the contract's rule: fp32 contractions fall back to the fp32 vector peak.
  std::optional<double> matrix_rate(MathType type) const;
  std::optional<double> vector_rate(MathType type) const;
};

// Devices joined by links, innermost level first: 8 by NVLink, then nodes by InfiniBand.
struct Cluster {
  struct Level {
    Link link;
    int64_t size = 1;  // groups of the level below joined by it; 0: as many as asked for
  };
  std::string name, source;
  Device device;
  std::vector<Level> levels;
};

}  // namespace roofcast
