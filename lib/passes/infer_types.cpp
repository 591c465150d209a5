// Types and shape values of every node, in one walk: each distinct Instance is inferred once.
#include "ops/infer.h"
#include "ops/op_table.h"
#include "passes/pass.h"
#include "support/diagnostic.h"

namespace roofcast {
namespace {

// A loop's body is inferred up to twice, so nests of them could take time exponential in their depth.
constexpr size_t inference_budget = 4 * limits::nodes;

class Inference {
public:
  explicit Inference(Module& module) : m_(module), routing_(module.values.size()) {}

  Status run() {
    infer_region(RegionId{0});
    if (fault_) return *fault_;
    // Nodes of branches that are never taken are named, but have no types.
    for (uint32_t i = 0; i < m_.nodes.size(); ++i) {
      if (m_.nodes[i].instance.valid()) continue;
      Instance instance = describe(NodeId{i});
      instance.outputs.assign(instance.wanted.size(), nullptr);
      instance.output_elements.assign(instance.wanted.size(), nullptr);
      instance.only = NodeId{i};
      m_.nodes[i].instance = m_.instance(std::move(instance)).first;
    }
    return Ok{};
  }

private:
  friend class RegionBodies;

  // Indices that route tokens to experts, and masks made of them: one in `candidates` is set.
  struct RoutingTag {
    bool indices = false;
    Expr candidates;
  };

  void infer_region(RegionId region) {
    // The node list is copied by index: inference adds no nodes, but bodies may be inferred twice.
    for (size_t i = 0; i < m_.regions[region.index].nodes.size() && !fault_; ++i) infer_node(m_.regions[region.index].nodes[i]);
  }

  void infer_node(NodeId id) {
    if (++inferred_ > inference_budget) {
      fault_ = error("onnx-too-large", "loops nest too deeply to be analysed", {.file = m_.file, .node = display_name(m_, id)});
      return;
    }
    Instance instance = describe(id);
    const bool control = instance.op && instance.op->control;
    if (control || m_[id].region_count) instance.only = id;
    auto [instance_id, is_new] = m_.instance(std::move(instance));
    if (control) {
      infer_control(instance_id, id);
    } else if (is_new) {
      // Bodies of an op that has no rule for them are inferred by what the file declares.
      for (RegionId body : m_.regions_of(m_[id]))
        if (!fault_) infer_region(body);
      if (auto fault = infer_instance(m_, instance_id, id)) fault_ = std::move(fault);
      if (m_.instances[instance_id.index].only.valid()) m_.forget(instance_id);
    }
    if (fault_) {
      // Half-made: neither this node nor an equal one may take it for a result.
      if (is_new && !m_.instances[instance_id.index].only.valid()) m_.forget(instance_id);
      return;
    }
    m_[id].instance = instance_id;
    take_results(id, instance_id);
  }

  const OpInfo* lookup(const Node& node, int opset) {
    const uint64_t key = (static_cast<uint64_t>(node.domain.index) << 42) ^ (static_cast<uint64_t>(node.op_type.index) << 21) ^ static_cast<uint64_t>(opset);
    auto [at, is_new] = ops_.try_emplace(key);
    if (is_new) at->second = find_op(m_.custom_ops, m_.names[node.domain], m_.names[node.op_type], opset);
    return at->second;
  }

  Instance describe(NodeId id) {
    const Node& node = m_[id];
    Instance instance;
    instance.op_type = node.op_type, instance.domain = node.domain;
    instance.opset = m_.node_opsets[id.index];
    instance.op = lookup(node, instance.opset);
    instance.attributes = m_.attributes[id.index];
    const auto inputs = m_.inputs(node);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool present = inputs[i].valid();
      instance.present.push_back(present);
      instance.inputs.push_back(present ? m_[inputs[i]].type : nullptr);
      instance.elements.push_back(present ? m_[inputs[i]].elements : nullptr);
      instance.stored.push_back(present ? m_[inputs[i]].stored : DType::undefined);
      size_t same = i;
      for (size_t j = 0; present && j < i && j < 16; ++j)
        if (inputs[j] == inputs[i]) {
          same = j;
          break;
        }
      instance.alias.push_back(static_cast<uint8_t>(std::min<size_t>(same, 255)));
    }
    for (ValueId v : m_.outputs(node)) instance.wanted.push_back(v.valid());
    return instance;
  }

  // A type that inference leaves open is filled in from what the file says.
  Type reconcile(NodeId id, ValueId v, Type inferred) {
    Type declared = m_[v].declared;
    if (!declared) return inferred;
    if (!inferred) return declared;
    if (!inferred->is_tensor() || !declared->is_tensor()) return inferred;
    const DType dtype = inferred->dtype == DType::undefined ? declared->dtype : inferred->dtype;
    if (declared->dtype != DType::undefined && dtype != declared->dtype) contradict(id, v, inferred, declared);
    if (!declared->ranked) return inferred->dtype == dtype ? inferred : m_.tensor(dtype, inferred->dims);
    if (!inferred->ranked) return m_.tensor(dtype, declared->dims);
    if (inferred->dims.size() != declared->dims.size()) {
      contradict(id, v, inferred, declared);
      return inferred;
    }
    std::vector<Expr> dims = inferred->dims;
    bool changed = false, differs = false;
    for (size_t d = 0; d < dims.size(); ++d) {
      const Expr says = declared->dims[d];
      if (!says.is_known() || dims[d] == says) continue;
      if (!dims[d].is_known()) dims[d] = says, changed = true;
      else if (const auto s = says.as_symbol(); s && m_.exprs.info(*s).origin == SymbolOrigin::unbound) settle(*s, dims[d]);
      else if (const auto own = dims[d].as_symbol(); own && m_.exprs.info(*own).origin == SymbolOrigin::data_dependent && says.is_constant()) {
        m_.bound.set(*own, says.constant());
        dims[d] = says, changed = true;
      } else if (dims[d].is_constant() && says.is_constant()) differs = true;
    }
    if (differs) contradict(id, v, inferred, declared);
    return changed ? m_.tensor(dtype, std::move(dims)) : inferred;
  }

  // A symbol of the file that no input has: the graph's own shapes say what it is.
  void settle(SymbolId symbol, Expr value) {
    Symbol& info = m_.exprs.info(symbol);
    if (const auto own = value.as_symbol(); own && m_.exprs.info(*own).origin == SymbolOrigin::data_dependent)
      m_.exprs.info(*own).aliases.push_back(info.name);
    if (!info.expected.is_known()) info.expected = value;
  }

  void contradict(NodeId id, ValueId v, Type inferred, Type declared) {
    m_.warnings.push_back(warning("value-info-contradicts", "\"" + std::string(m_.names[m_[v].name]) + "\" is " + to_string(inferred) + ", the file says " + to_string(declared),
                                  {.file = m_.file, .node = display_name(m_, id)}));
  }

  void take_results(NodeId id, InstanceId instance_id) {
    const Node& node = m_[id];
    const auto inputs = m_.inputs(node), outputs = m_.outputs(node);
    const OpInfo* op = m_.instances[instance_id.index].op;
    bool constant = op && op->kind != Kind::random && op->kind != Kind::control && op->kind != Kind::opaque;
    // Shape and Size look at no element; else every input must follow from shapes.
    bool from_shapes = constant && op->reads_shape_only;
    bool all_from_shapes = constant && !inputs.empty();
    for (ValueId v : inputs) {
      if (!v.valid() || m_[v].storage == Storage::weight || m_[v].storage == Storage::constant) continue;
      constant = false;
      // An input whose elements the user gave is as good as a constant.
      all_from_shapes &= m_[v].from_shapes || (m_[v].storage == Storage::input && m_[v].elements);
    }
    from_shapes |= all_from_shapes;
    bool reconciled = false;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].valid()) continue;
      const Type inferred = m_.instances[instance_id.index].outputs[i];
      Value& value = m_[outputs[i]];
      value.elements = m_.instances[instance_id.index].output_elements[i];
      value.storage = constant ? Storage::constant : Storage::activation;
      value.from_shapes = from_shapes;
      value.type = reconcile(id, outputs[i], inferred);
      reconciled |= value.type != inferred;
      value.stored = constant && (op->dequantizes || op->kind == Kind::view || op->kind == Kind::movement) ? packed(inputs) : DType::undefined;
    }
    // Work is counted of the Instance, so it must hold the types that the values have.
    if (reconciled) m_[id].instance = instance_with_outputs(m_, id);
    tag_routing(op, inputs, outputs, instance_id);
  }

  // The type that a constant lies in memory as, if it is not its own.
  DType packed(std::span<const ValueId> inputs) const {
    if (inputs.empty() || !inputs[0].valid()) return DType::undefined;
    const Value& v = m_[inputs[0]];
    if (v.stored != DType::undefined) return v.stored;
    return v.type && v.type->is_tensor() && bits(v.type->dtype) <= 8 && v.type->dtype != DType::boolean ? v.type->dtype : DType::undefined;
  }

  void tag_routing(const OpInfo* op, std::span<const ValueId> inputs, std::span<const ValueId> outputs, InstanceId instance_id) {
    if (!op || inputs.empty() || outputs.empty() || !inputs[0].valid() || !outputs[0].valid()) return;
    const RoutingTag tag = routing_[inputs[0].index];
    switch (op->routing) {
    case Routing::indices:
      if (outputs.size() > 1 && outputs[1].valid()) routing_[outputs[1].index].indices = true;
      return;
    case Routing::one_hot: {
      const Type type = m_[outputs[0]].type, own = m_[inputs[0]].type;
      if (!tag.indices || !type || !own || !type->ranked || !own->ranked) return;
      // The last dim of the result that the indices lack, or have as one, runs over the candidates.
      for (size_t d = 0; d < type->dims.size(); ++d) {
        const size_t skip = type->dims.size() - std::min(type->dims.size(), own->dims.size());
        const Expr mine = own->dims.size() < type->dims.size() && op->kind != Kind::pointwise ? (d < own->dims.size() ? own->dims[d] : Expr(1))
                                                                                              : (d < skip ? Expr(1) : own->dims[d - skip]);
        if (mine == Expr(1) && type->dims[d] != Expr(1)) routing_[outputs[0].index].candidates = type->dims[d];
      }
      return;
    }
    case Routing::compact: {
      if (!tag.candidates.is_known()) return;
      for (ValueId v : outputs)
        if (v.valid() && m_[v].type && m_[v].type->is_tensor())
          for (Expr d : m_[v].type->dims)
            if (const auto s = d.as_symbol(); s && m_.exprs.info(*s).origin == SymbolOrigin::data_dependent && m_.instances[instance_id.index].only.valid()) {
              Symbol& info = m_.exprs.info(*s);
              info.expected = floor_div(info.bound, tag.candidates);
              info.why = "the expected share of an expert under uniform routing";
            }
      return;
    }
    case Routing::none: break;
    }
    if (op->kind == Kind::view || op->kind == Kind::movement || op->kind == Kind::lookup || op->kind == Kind::pointwise)
      if (tag.indices || tag.candidates.is_known()) routing_[outputs[0].index] = tag;
  }

  void infer_control(InstanceId instance_id, NodeId id);

  Module& m_;
  std::vector<RoutingTag> routing_;
  std::unordered_map<uint64_t, const OpInfo*> ops_;
  std::optional<Diagnostic> fault_;
  size_t inferred_ = 0;
};

class RegionBodies : public Bodies {
public:
  RegionBodies(Inference& inference, NodeId id) : inference_(inference), m_(inference.m_), node_(id) {}

  size_t count() const override { return m_[node_].region_count; }
  std::string_view name(size_t body) const override { return m_.names[region(body).name]; }
  size_t input_count(size_t body) const override { return region(body).inputs.size(); }
  size_t output_count(size_t body) const override { return region(body).outputs.size(); }
  void bind_input(size_t body, size_t i, Type type, Elements elements) override {
    Value& v = m_[region(body).inputs[i]];
    if (type) v.type = type;
    v.elements = elements;
  }
  void infer(size_t body) override { inference_.infer_region(id(body)); }
  bool try_infer(size_t body) override {
    inference_.infer_region(id(body));
    if (!inference_.fault_) return true;
    inference_.fault_->severity = Severity::warning;
    m_.warnings.push_back(std::move(*inference_.fault_));
    inference_.fault_.reset();
    return false;
  }
  Type output(size_t body, size_t i) const override { return m_[region(body).outputs[i]].type; }
  Elements output_elements(size_t body, size_t i) const override { return m_[region(body).outputs[i]].elements; }
  void set_trips(size_t body, Expr trips) override { m_.regions[id(body).index].trips = trips; }

private:
  RegionId id(size_t body) const { return m_.regions_of(m_[node_])[body]; }
  const Region& region(size_t body) const { return m_.regions[id(body).index]; }

  Inference& inference_;
  Module& m_;
  NodeId node_;
};

void Inference::infer_control(InstanceId instance_id, NodeId id) {
  RegionBodies bodies(*this, id);
  // Bodies add Instances, which may move the array: the rule works on a copy.
  Instance copy = m_.instances[instance_id.index];
  copy.outputs.assign(copy.wanted.size(), nullptr);
  copy.output_elements.assign(copy.wanted.size(), nullptr);
  InferContext context(m_, copy, id);
  copy.op->control(context, bodies);
  if (fault_) return;
  if (context.failed()) fault_ = context.fault();
  m_.instances[instance_id.index] = std::move(copy);
}

}  // namespace

Status infer_types(Module& module, const PassOptions&) { return Inference(module).run(); }

InstanceId instance_with_outputs(Module& m, NodeId id) {
  Instance instance = m.instances[m[id].instance.index];
  const auto inputs = m.inputs(m[id]), outputs = m.outputs(m[id]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) continue;
    instance.inputs[i] = m[inputs[i]].type;
    instance.elements[i] = m[inputs[i]].elements;
    instance.stored[i] = m[inputs[i]].stored;
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].valid()) instance.outputs[i] = m[outputs[i]].type;
  return m.instance(std::move(instance)).first;
}

Status retype(Module& m, const PassOptions& options) {
  auto type_option = [&](const char* key) -> Result<DType> {
    auto at = options.find(key);
    if (at == options.end()) return DType::undefined;
    if (at->second == "tf32") return DType::float32;
    const auto d = dtype_from_name(at->second);
    if (!d || !is_float(*d)) return error("usage", "\"" + at->second + "\" is no floating-point type", {}, "float32, float16, bfloat16, float8_e4m3fn, …");
    return *d;
  };
  const Result<DType> to = type_option("to"), weights = type_option("weights");
  if (!to) return to.error();
  if (!weights) return weights.error();
  if (const auto at = options.find("to"); at != options.end() && at->second == "tf32") m.tf32 = true;
  for (Value& v : m.values) {
    if (!v.type || !v.type->is_tensor() || !is_float(v.type->dtype)) continue;
    const bool is_weight = v.storage == Storage::weight || v.storage == Storage::constant;
    const DType d = is_weight ? *weights : *to;
    if (d == DType::undefined || v.stored != DType::undefined) continue;
    if (v.storage == Storage::weight) {
      const Expr bytes = storage_bytes(d, v.type->elements());
      if (bytes.is_constant()) v.stored_bytes = static_cast<uint64_t>(bytes.constant());
    }
    v.type = v.type->ranked ? m.tensor(d, v.type->dims) : m.unranked(d);
  }
  for (uint32_t i = 0; i < m.nodes.size(); ++i)
    if (m.nodes[i].instance.valid()) m.nodes[i].instance = instance_with_outputs(m, NodeId{i});
  return Ok{};
}

}  // namespace roofcast
