// OpInfo: all that is known of an operator, as one constant row of the op table.
//
//   {.name = "Relu", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..",
//    .cost = {.vector_per_point = 1}},
//
// A facet that is left out has a stated default: types follow from the access, values are not known,
// work is points × cost with each operand crossing memory once.
#pragma once

#include "ir/graph.h"
#include "ops/access.h"
#include "ops/work.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace roofcast {

struct OpInfo;

// One Instance as a rule sees it: typed access to attributes, operand types and known values.
class OpView {
public:
  OpView(Module& module, const Instance& instance) : module(module), instance(instance) {}

  Module& module;
  const Instance& instance;

  // Operands.
  size_t input_count() const { return instance.inputs.size(); }
  size_t output_count() const { return instance.wanted.size(); }
  bool has(size_t input) const { return input < instance.present.size() && instance.present[input]; }
  bool wants(size_t output) const { return output < instance.wanted.size() && instance.wanted[output]; }
  Type in(size_t i) const { return i < instance.inputs.size() ? instance.inputs[i] : nullptr; }
  Type out(size_t i) const { return i < instance.outputs.size() ? instance.outputs[i] : nullptr; }
  bool ranked(size_t i) const { return in(i) && in(i)->is_tensor() && in(i)->ranked; }
  size_t rank(size_t i) const { return in(i)->dims.size(); }
  Expr dim(size_t i, size_t d) const { return in(i)->dims[d]; }
  DType dtype(size_t i) const { return in(i) ? in(i)->dtype : DType::undefined; }
  // Bytes that hold input i in memory (packed, where it is stored so); unknown if the size is.
  Expr bytes(size_t i) const;
  Expr output_bytes(size_t i) const;

  // Known values of small integer inputs.
  Elements values(size_t i) const { return i < instance.elements.size() ? instance.elements[i] : nullptr; }
  std::optional<std::vector<Expr>> exprs(size_t i) const;       // every element, symbolic; unknown Expr where not known
  std::optional<std::vector<int64_t>> constants(size_t i) const; // only if all are constant
  std::optional<double> scalar(size_t i) const;                  // a one-element input

  // Attributes; an attribute of another type counts as left out.
  const Attribute* attribute(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string_view string(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<int64_t>> integers(std::string_view name) const;
  int opset() const { return instance.opset; }
  std::string_view op_name() const { return module.names[instance.op_type]; }
};

// What an infer rule writes to.
class InferContext : public OpView {
public:
  InferContext(Module& module, Instance& instance, NodeId node)
      : OpView(module, instance), target_(instance), node_(node) {}

  void output(size_t i, Type type);
  void output(size_t i, DType dtype, std::vector<Expr> dims) { output(i, module.tensor(dtype, std::move(dims))); }
  void output_unranked(size_t i, DType dtype) { output(i, module.unranked(dtype)); }

  // Values of a small output; a value rule serves where they follow from known inputs alone.
  void output_values(size_t i, std::vector<Scalar> items);

  // A size that only data decides, named after the node. `bound`: unknown if there is no finite one.
  // `expected`: what is used when unset, if other than the bound.
  Expr fresh(std::string_view what, Expr bound, int64_t lower = 0, Expr expected = {});

  // Ends inference of this node with an error (exit 2).
  void fail(std::string_view code, std::string message, std::string hint = {});
  bool failed() const { return fault_.has_value(); }
  const std::optional<Diagnostic>& fault() const { return fault_; }
  NodeId node() const { return node_; }

  // Checks with the usual message; false after fail().
  bool need_inputs(size_t count);
  bool need_rank(size_t input, size_t at_least, size_t at_most = limits::rank);
  // An axis attribute in [-rank, rank) made non-negative; fails otherwise.
  std::optional<size_t> axis(int64_t axis, size_t rank);

private:
  Instance& target_;
  NodeId node_;
  std::optional<Diagnostic> fault_;
};

// The bodies of a control op, as its rule sees them: bind their inputs, infer them, read the results.
class Bodies {
public:
  virtual ~Bodies() = default;
  virtual size_t count() const = 0;
  virtual std::string_view name(size_t body) const = 0;  // "then_branch", "body"
  virtual size_t input_count(size_t body) const = 0;
  virtual size_t output_count(size_t body) const = 0;
  virtual void bind_input(size_t body, size_t i, Type type, Elements elements) = 0;
  virtual void infer(size_t body) = 0;                   // a fault inside ends the whole inference
  virtual bool try_infer(size_t body) = 0;               // false: there is a fault inside; it becomes a warning
  virtual Type output(size_t body, size_t i) const = 0;
  virtual Elements output_elements(size_t body, size_t i) const = 0;
  virtual void set_trips(size_t body, Expr trips) = 0;   // how often it runs each time the op does
};

using ControlRule = void(InferContext&, Bodies&);
using AccessRule = AccessResult(const OpView&);
using InferRule = void(InferContext&);
// Values of output 0 from known input values; outputs' types are inferred already.
using ValueRule = std::optional<std::vector<Scalar>>(const OpView&);
// Adjusts the default Work (which has been filled in already).
using WorkRule = void(const OpView&, Work&);

// FLOPs per point of the iteration space, and per line (points over the online or reduced factors).
struct Cost {
  int matrix_per_point = 0;
  int vector_per_point = 0;
  int vector_per_line = 0;    // may be negative: a sum over n takes n − 1 additions
  int vector_per_output = 0;  // per element of output 0
};

// How routing through a mixture of experts is recognised: which tokens an expert takes is decided by
// data, but on average it takes top-k / experts of them.
enum class Routing : uint8_t {
  none,
  indices,   // output 1 holds indices chosen among candidates (TopK)
  one_hot,   // compares indices with each candidate: one in `candidates` is set
  compact,   // counts what is set (NonZero)
};

// The logical elements of the weight at an input whose bytes hold more or other than its elements (int4
// blocks, two to a byte); unknown for other inputs.
using PackedWeightRule = Expr(const OpView&, size_t input);

// What the gradient of an op is made of, and so what is kept for backward; see ops/gradient.h.
enum class Gradient : uint8_t {
  by_kind,    // as others of its kind
  none,       // not differentiated
  linear,     // of the output's gradient alone
  product,    // each operand's: of the others
  of_inputs,
  of_output,
  of_mask,    // of output 1
};

struct UserOp;  // ops/user_ops.h

struct OpInfo {
  std::string_view domain = "";   // "" is ai.onnx
  std::string_view name;
  int since = 1;
  Kind kind = Kind::opaque;
  std::string_view access = "";        // the notation; printed by `roofcast ops`
  AccessRule* access_rule = nullptr;   // where the notation depends on ranks or attributes
  InferRule* infer = nullptr;
  ValueRule* value = nullptr;
  WorkRule* work = nullptr;
  ControlRule* control = nullptr;  // instead of infer, for ops with bodies
  DType result = DType::undefined;     // element type of outputs; undefined: that of input 0
  Cost cost = {};
  Routing routing = Routing::none;
  Gradient gradient = Gradient::by_kind;
  bool reads_shape_only = false;       // no element of its inputs matters
  bool dequantizes = false;            // of a constant: consumers read the packed bytes
  uint32_t auxiliary = 0;              // bit i: input i holds scales or zero points, not parameters
  PackedWeightRule* packed_weight = nullptr;
  std::string_view uncounted = "";  // the reason, for ops whose cost cannot be known
  std::string_view formula = "";    // readable algebra where it does not follow from access and cost
  std::string_view source = "";     // of the counting convention; default: ONNX operator spec
  const UserOp* user = nullptr;     // formulas of a custom op
};

// The op's access bound to this instance; empty if it has none or the ranks are not known.
AccessResult access_of(const OpView& view);
AccessResult bind_notation(const OpView& view, std::string_view pattern);

}  // namespace roofcast
