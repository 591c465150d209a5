// Cost of a model on some hardware: FLOPs, bytes, T_math against T_comms, and what bounds it.
//
//   Result<Analysis> a = analyze(model, hardware, {});
//   a->totals.bound                                     "memory"
//
// The structs are the JSON document roofcast/analysis/1, field by field.
#pragma once

#include "roofcast/fields.h"
#include "roofcast/hardware.h"
#include "roofcast/layout.h"
#include "roofcast/model.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct AnalyzeOptions {
  std::string model = "ideal";   // time model: ideal | kernel
  bool causal = false;           // attention counts only the pairs inside the mask
  bool tensors = false;          // fill Analysis::tensors
  bool symbolic = false;         // fill formulas (of a model loaded with `keep_symbols`)
  bool latex = false;            // formulas as LaTeX
  std::string explain;           // a node: fill Analysis::explanation
};

// How the time of one node came about.
struct ExplainedTerm {
  std::string name;
  double seconds = 0;
  std::string why;
};
struct NodeExplanation {
  std::string node, op, size, access;
  std::vector<ExplainedTerm> terms;        // by the chosen model
  std::vector<ExplainedTerm> ideal_terms;  // by the ideal one, where another is chosen
  std::optional<double> time, time_ideal;
  std::optional<std::string> bound;
};

struct ModelSummary {
  std::string file;
  std::optional<std::string> producer;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opset;
  int64_t nodes = 0;             // after functions are inlined, bodies included
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  std::map<std::string, int64_t> devices;  // multi-device configurations in the file
};

struct HardwareSummary {
  std::string name, source;
};

struct Uncounted {
  std::string op, domain;
  int64_t count = 0;
  std::string reason, example;
};

struct Assumed {
  std::string symbol;
  std::optional<std::string> node;
  std::optional<int64_t> bound;
  int64_t used = 0;
  std::string why;
};

struct Coverage {
  int64_t ops = 0, counted = 0, tensors = 0, shapes_known = 0;
  std::vector<Uncounted> uncounted;
  std::vector<Assumed> assumed;
};

struct BoundShares {
  double compute = 0, memory = 0, communication = 0, overhead = 0;
};

// Amounts as algebra in the model's symbols. Absent: not known.
struct Formulas {
  std::optional<std::string> flops, matrix_flops, vector_flops, bytes, bytes_read, bytes_written, wire_bytes, intensity;
};

// Amounts and times of one row, or of all rows together. Absent: not known.
struct CostFigures {
  std::optional<double> flops, matrix_flops, vector_flops, bytes_read, bytes_written, wire_bytes;
  std::optional<double> t_math, t_hbm, t_net, t_comms, time_ideal, time;
  std::optional<double> intensity;
  std::optional<std::string> bound;
};

struct Totals : CostFigures {
  std::optional<Formulas> formulas;
  std::optional<BoundShares> bound_shares;
  std::optional<double> mfu, hfu;
  std::optional<double> peak_memory, memory_capacity;
  std::optional<bool> fits;
  std::optional<std::string> why_not;
};

struct OpRow : CostFigures {
  std::string name, op, domain;
  std::optional<std::string> scope;
  std::string phase = "forward";
  double count = 1;
  std::optional<std::string> dtype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::string> collective, axis;
  std::optional<Formulas> formulas;  // of one run
  int64_t group = -1;            // rows of one group are the same problem
};

// A problem as text shows it, and what the roofline needs of it.
struct Group {
  std::string size;              // "512×4096×14336 bf16"
  std::optional<double> knee;    // FLOP per byte where its math roof meets the memory roof
};

struct TensorRow {
  std::string dtype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<std::string>> symbolic_shape;  // instead of shape
};

struct CollectiveRow {
  std::string kind, op, axis, link, algorithm;
  int64_t ranks = 1;
  double bytes = 0, wire_bytes = 0;
  int64_t count = 1;
  std::optional<double> t_net, exposed;
  std::string phase = "forward";
  std::string why;
};

struct Analysis {
  ModelSummary model;
  HardwareSummary hardware;
  Layout layout;
  std::string phase = "inference";
  std::string time_model = "ideal";
  std::map<std::string, int64_t> symbols;
  Coverage coverage;
  Totals totals;
  std::vector<OpRow> ops;
  std::vector<Group> groups;     // by OpRow::group
  std::optional<std::vector<std::pair<std::string, TensorRow>>> tensors;
  std::vector<CollectiveRow> collectives;
  std::optional<NodeExplanation> explanation;
  std::vector<Diagnostic> warnings;
  std::optional<std::string> main_math;  // type of most matrix FLOPs, "bf16"
  std::optional<double> knee;            // of that type
  std::vector<PassTime> times;           // of the analysis's own steps
};

Result<Analysis> analyze(const Model& model, const Hardware& hardware, const AnalyzeOptions& options);

template <class F> void fields(F&& field, const ExplainedTerm& t) {
  field("name", t.name, Unit::none, "what takes time");
  field("seconds", t.seconds, Unit::second, "how long");
  field("why", t.why, Unit::none, "amount and rate");
}
template <class F> void fields(F&& field, const NodeExplanation& e) {
  field("node", e.node, Unit::none, "the node");
  field("op", e.op, Unit::none, "its operator");
  field("size", e.size, Unit::none, "its sizes");
  field("access", e.access, Unit::none, "how its operands meet its loops");
  field("terms", e.terms, Unit::none, "of one run, by the chosen model");
  field("time", e.time, Unit::second, "of one run, by the chosen model");
  field("ideal_terms", e.ideal_terms, Unit::none, "of one run, by the ideal model where another is chosen");
  field("time_ideal", e.time_ideal, Unit::second, "of one run, by the ideal model");
  field("bound", e.bound, Unit::none, "the greatest of them");
}
template <class F> void fields(F&& field, const ModelSummary& m) {
  field("file", m.file, Unit::none, "the file analysed");
  field("producer", m.producer, Unit::none, "exporter");
  field("ir_version", m.ir_version, Unit::none, "of the file format");
  field("opset", m.opset, Unit::none, "version by domain");
  field("nodes", m.nodes, Unit::count, "nodes, functions inlined, bodies included");
  field("parameters", m.parameters, Unit::count, "elements of all initializers");
  field("parameter_bytes", m.parameter_bytes, Unit::byte, "bytes stored of them");
  if (!m.devices.empty()) field("devices", m.devices, Unit::count, "multi-device configurations");
}
template <class F> void fields(F&& field, const HardwareSummary& h) {
  field("name", h.name, Unit::none, "hardware");
  field("source", h.source, Unit::none, "file that it was read from");
}
template <class F> void fields(F&& field, const Uncounted& u) {
  field("op", u.op, Unit::none, "operator");
  field("domain", u.domain, Unit::none, "its domain");
  field("count", u.count, Unit::count, "nodes");
  field("reason", u.reason, Unit::none, "why its cost is not known");
  field("example", u.example, Unit::none, "one of the nodes");
}
template <class F> void fields(F&& field, const Assumed& a) {
  field("symbol", a.symbol, Unit::none, "as --set takes it");
  field("node", a.node, Unit::none, "that makes it");
  field("bound", a.bound, Unit::count, "its upper bound");
  field("used", a.used, Unit::count, "value that was used");
  field("why", a.why, Unit::none, "why this value");
}
template <class F> void fields(F&& field, const Coverage& c) {
  field("ops", c.ops, Unit::count, "rows");
  field("counted", c.counted, Unit::count, "rows whose cost is known");
  field("tensors", c.tensors, Unit::count, "tensors of the main graph");
  field("shapes_known", c.shapes_known, Unit::count, "those whose shape is known");
  field("uncounted", c.uncounted, Unit::none, "what is missing from the totals");
  field("assumed", c.assumed, Unit::none, "symbols that nobody set");
}
template <class F> void fields(F&& field, const BoundShares& b) {
  field("compute", b.compute, Unit::share, "of time");
  field("memory", b.memory, Unit::share, "of time");
  field("communication", b.communication, Unit::share, "of time");
  field("overhead", b.overhead, Unit::share, "of time");
}
template <class F> void fields(F&& field, const CostFigures& c) {
  field("flops", c.flops, Unit::flop, "matrix_flops + vector_flops");
  field("matrix_flops", c.matrix_flops, Unit::flop, "FLOPs of contractions");
  field("vector_flops", c.vector_flops, Unit::flop, "all other FLOPs");
  field("bytes_read", c.bytes_read, Unit::byte, "from memory");
  field("bytes_written", c.bytes_written, Unit::byte, "to memory");
  field("wire_bytes", c.wire_bytes, Unit::byte, "sent by one rank");
  field("t_math", c.t_math, Unit::second, "FLOPs / peak");
  field("t_hbm", c.t_hbm, Unit::second, "bytes / memory bandwidth");
  field("t_net", c.t_net, Unit::second, "wire bytes / link bandwidth");
  field("t_comms", c.t_comms, Unit::second, "max(t_hbm, t_net)");
  field("time_ideal", c.time_ideal, Unit::second, "max(t_math, t_comms)");
  field("time", c.time, Unit::second, "predicted by the time model");
  field("intensity", c.intensity, Unit::flop_per_byte, "FLOPs per byte of memory traffic");
  field("bound", c.bound, Unit::none, "compute, memory, communication or overhead");
}
template <class F> void fields(F&& field, const Formulas& f) {
  field("flops", f.flops, Unit::flop, "algebra in the model's symbols");
  field("matrix_flops", f.matrix_flops, Unit::flop, "of contractions");
  field("vector_flops", f.vector_flops, Unit::flop, "all others");
  field("bytes", f.bytes, Unit::byte, "read and written");
  field("bytes_read", f.bytes_read, Unit::byte, "from memory");
  field("bytes_written", f.bytes_written, Unit::byte, "to memory");
  field("wire_bytes", f.wire_bytes, Unit::byte, "sent by one rank");
  field("intensity", f.intensity, Unit::flop_per_byte, "flops / bytes");
}
template <class F> void fields(F&& field, const Totals& t) {
  fields(field, static_cast<const CostFigures&>(t));
  field("bound_shares", t.bound_shares, Unit::share, "share of time by bound");
  field("mfu", t.mfu, Unit::share, "model FLOPs utilisation");
  field("hfu", t.hfu, Unit::share, "hardware FLOPs utilisation");
  field("peak_memory", t.peak_memory, Unit::byte, "weights + inputs + peak of live activations");
  field("memory_capacity", t.memory_capacity, Unit::byte, "of the device");
  field("fits", t.fits, Unit::none, "peak_memory ≤ memory_capacity");
  field("why_not", t.why_not, Unit::none, "what is too large");
  field("formulas", t.formulas, Unit::none, "as algebra");
}
template <class F> void fields(F&& field, const OpRow& r) {
  field("name", r.name, Unit::none, "node");
  field("op", r.op, Unit::none, "operator");
  field("domain", r.domain, Unit::none, "its domain");
  field("scope", r.scope, Unit::none, "module path");
  field("phase", r.phase, Unit::none, "forward, backward or optimizer");
  field("count", r.count, Unit::count, "how often it runs; figures are for all runs");
  field("dtype", r.dtype, Unit::none, "of output 0");
  field("shape", r.shape, Unit::none, "of output 0");
  fields(field, static_cast<const CostFigures&>(r));
  field("collective", r.collective, Unit::none, "kind of collective");
  field("axis", r.axis, Unit::none, "mesh axis");
  field("formulas", r.formulas, Unit::none, "of one run, as algebra");
}
template <class F> void fields(F&& field, const TensorRow& t) {
  field("dtype", t.dtype, Unit::none, "element type");
  field("shape", t.shape, Unit::none, "dims");
  field("shape", t.symbolic_shape, Unit::none, "dims as algebra");
}
template <class F> void fields(F&& field, const CollectiveRow& c) {
  field("kind", c.kind, Unit::none, "all_reduce, all_gather, …");
  field("op", c.op, Unit::none, "node that needs it");
  field("axis", c.axis, Unit::none, "mesh axis");
  field("link", c.link, Unit::none, "level of the network");
  field("algorithm", c.algorithm, Unit::none, "chosen");
  field("ranks", c.ranks, Unit::count, "that take part");
  field("bytes", c.bytes, Unit::byte, "of the buffer, a call");
  field("wire_bytes", c.wire_bytes, Unit::byte, "sent by one rank, a call");
  field("count", c.count, Unit::count, "calls");
  field("t_net", c.t_net, Unit::second, "a call");
  field("exposed", c.exposed, Unit::second, "not hidden behind compute, a call");
  field("phase", c.phase, Unit::none, "forward, backward or optimizer");
  field("why", c.why, Unit::none, "what makes it necessary");
}
template <class F> void fields(F&& field, const Analysis& a) {
  field("model", a.model, Unit::none, "what was analysed");
  field("hardware", a.hardware, Unit::none, "on what");
  field("layout", a.layout, Unit::none, "parallel layout");
  field("phase", a.phase, Unit::none, "inference or training");
  field("time_model", a.time_model, Unit::none, "ideal or kernel");
  field("symbols", a.symbols, Unit::none, "values used");
  field("coverage", a.coverage, Unit::none, "what is counted");
  field("totals", a.totals, Unit::none, "sums over rows");
  field("ops", a.ops, Unit::none, "one row a node");
  field("tensors", a.tensors, Unit::none, "types of the main graph's tensors");
  field("collectives", a.collectives, Unit::none, "communication of the layout");
  field("explanation", a.explanation, Unit::none, "of --explain NODE");
  field("warnings", a.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
