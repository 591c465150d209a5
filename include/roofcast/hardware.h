// Hardware as data: peaks, memories, links, and where each figure comes from.
//
//   Result<Hardware> h100 = load_hardware("h100-sxm");   // or a TOML file's path
//
// All rates are dense, per direction and in SI units. A figure that is not known is absent, and what
// needs it is reported as not known.
#pragma once

#include "roofcast/fields.h"
#include "roofcast/result.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

// A number with its provenance. At least one of `source` and `fitted_on` is set.
struct Figure {
  double value = 0;
  std::optional<std::string> source;     // document, or derivation
  std::optional<std::string> fitted_on;  // data that the constant was fitted on
};

struct Memory {
  std::optional<std::string> kind;       // "HBM3"
  std::optional<Figure> bandwidth;       // bytes/s
  std::optional<Figure> capacity;        // bytes; smem: per core
};

// One level of a cluster: `size` groups of the level below are joined by it.
struct Link {
  int64_t level = 1;                     // 1 is innermost
  int64_t size = 0;                      // 0: as many as asked for; 1: not there
  std::optional<Figure> bandwidth;       // bytes/s per direction and device, all its ports together
  std::optional<Figure> peer_bandwidth;  // bytes/s per direction between one pair, if it is less
  std::optional<Figure> latency;         // seconds, one hop
  std::string topology = "switch";       // switch | mesh | torus | host
  bool in_network_reduction = false;     // NVLS
};

// A device and how such devices are joined. Memories: "hbm" is the main memory, "l2" the last-level
// cache, "smem" the scratch memory of a core.
struct Hardware {
  std::string name, title, vendor, family;
  std::string file;
  std::map<std::string, Figure> matrix_peak, vector_peak;  // FLOP/s by type: "bf16"
  std::map<std::string, Figure> chip;                      // cores, clock (Hz), tdp (W)
  std::map<std::string, Memory> memory;
  std::map<std::string, Link> link;
  std::map<std::string, Figure> kernel;                    // constants of the kernel model, by name
};

template <class F> void fields(F&& field, const Figure& f) {
  field("value", f.value, Unit::none, "in SI units");
  field("source", f.source, Unit::none, "document or derivation");
  field("fitted_on", f.fitted_on, Unit::none, "data that it was fitted on");
}
template <class F> void fields(F&& field, const Memory& m) {
  field("kind", m.kind, Unit::none, "technology");
  field("bandwidth", m.bandwidth, Unit::per_second, "bytes per second");
  field("capacity", m.capacity, Unit::byte, "size");
}
template <class F> void fields(F&& field, const Link& l) {
  field("level", l.level, Unit::count, "1 is innermost");
  field("size", l.size, Unit::count, "groups of the level below that it joins; 0: any number");
  field("bandwidth", l.bandwidth, Unit::per_second, "bytes per second, direction and device");
  field("peer_bandwidth", l.peer_bandwidth, Unit::per_second, "bytes per second, direction and pair");
  field("latency", l.latency, Unit::second, "one hop");
  field("topology", l.topology, Unit::none, "switch, mesh, torus or host");
  field("in_network_reduction", l.in_network_reduction, Unit::none, "sums inside the switch");
}

struct Peaks {
  std::map<std::string, Figure> matrix, vector;
};
template <class F> void fields(F&& field, const Peaks& p) {
  field("matrix", p.matrix, Unit::per_second, "FLOP/s of the matrix units, dense, by type");
  field("vector", p.vector, Unit::per_second, "FLOP/s of the vector units, by type");
}
template <class F> void fields(F&& field, const Hardware& h) {
  field("name", h.name, Unit::none, "as --hw takes it");
  field("title", h.title, Unit::none, "as people call it");
  field("vendor", h.vendor, Unit::none, "maker");
  field("family", h.family, Unit::none, "generation");
  field("file", h.file, Unit::none, "where it was read from");
  field("peak", Peaks{h.matrix_peak, h.vector_peak}, Unit::none, "highest rates");
  field("chip", h.chip, Unit::none, "cores, clock, power");
  field("memory", h.memory, Unit::none, "levels");
  field("link", h.link, Unit::none, "levels of the network");
  field("kernel", h.kernel, Unit::none, "constants of the kernel model");
  field("warnings", std::vector<Diagnostic>{}, Unit::none, "faults that do not end the command");
}

// By name, or a TOML file's path. Codes: hw-unknown, hw-key, hw-no-source, file-missing.
Result<Hardware> load_hardware(const std::string& name_or_file);

// Every fault of a hardware file, with its line; empty if it is fine.
std::vector<Diagnostic> check_hardware(const std::string& name_or_file);

// Names of all specs that are shipped, sorted.
std::vector<std::string> hardware_names();

}  // namespace roofcast
