#include "ir/graph.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cstring>

namespace roofcast {

NameId Names::intern(std::string_view slice) {
  const auto [at, is_new] = ids_.try_emplace(slice, static_cast<uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(slice);
  return {at->second};
}

NameId Names::own(std::string_view text) {
  if (auto at = ids_.find(text); at != ids_.end()) return {at->second};
  return intern(owned_.emplace_back(text));
}

std::optional<NameId> Names::find(std::string_view text) const {
  auto at = ids_.find(text);
  return at == ids_.end() ? std::nullopt : std::optional(NameId{at->second});
}

// A key is the bytes of what makes two things equal; tables map it to the interned thing.
namespace {

class Key {
public:
  template <class T> Key& add(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Key& add(std::string_view text) {
    add(text.size());
    bytes_.append(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

private:
  std::string bytes_;
};

void add_scalar(Key& key, const Scalar& s) {
  key.add(s.kind).add(s.num.bits()).add(s.den).add(s.real);
}

}  // namespace

struct Module::Tables {
  std::unordered_map<std::string, std::unique_ptr<TypeNode>> types;
  std::unordered_map<std::string, std::unique_ptr<ElementsNode>> elements;
  std::unordered_map<std::string, std::unique_ptr<AttributeListNode>> attributes;
  std::unordered_map<std::string, InstanceId> instances;
};

Module::Module() : tables_(std::make_unique<Tables>()) { regions.emplace_back(); }
Module::~Module() = default;

int Module::opset(std::string_view domain) const {
  if (domain == "ai.onnx") domain = "";
  auto at = opsets.find(domain);
  return at == opsets.end() ? 1 : static_cast<int>(std::clamp<int64_t>(at->second, 1, 1 << 20));
}

ValueId Module::add_value(Value value) {
  values.push_back(value);
  return {static_cast<uint32_t>(values.size() - 1)};
}

NodeId Module::add_node(Node node, AttributeList list, std::span<const ValueId> in,
                        std::span<const ValueId> out, std::span<const RegionId> bodies) {
  const NodeId id{static_cast<uint32_t>(nodes.size())};
  node.inputs_begin = static_cast<uint32_t>(operands.size());
  node.input_count = static_cast<uint16_t>(in.size());
  operands.insert(operands.end(), in.begin(), in.end());
  node.outputs_begin = static_cast<uint32_t>(operands.size());
  node.output_count = static_cast<uint16_t>(out.size());
  operands.insert(operands.end(), out.begin(), out.end());
  node.regions_begin = static_cast<uint32_t>(node_regions.size());
  node.region_count = static_cast<uint8_t>(bodies.size());
  node_regions.insert(node_regions.end(), bodies.begin(), bodies.end());
  for (ValueId v : out)
    if (v.valid()) values[v.index].producer = id;
  nodes.push_back(node);
  attributes.push_back(list);
  return id;
}

Type Module::type(TypeNode node) {
  Key key;
  key.add(node.kind).add(node.dtype).add(node.ranked).add(node.element);
  for (Expr d : node.dims) key.add(d.bits());
  auto [at, is_new] = tables_->types.try_emplace(key.take());
  if (is_new) at->second = std::make_unique<TypeNode>(std::move(node));
  return at->second.get();
}

Type Module::tensor(DType dtype, std::vector<Expr> dims) {
  TypeNode node;
  node.dtype = dtype, node.ranked = true, node.dims = std::move(dims);
  return type(std::move(node));
}

Type Module::unranked(DType dtype) {
  TypeNode node;
  node.dtype = dtype;
  return type(std::move(node));
}

Elements Module::elements(std::vector<Scalar> items) {
  Key key;
  for (const Scalar& s : items) add_scalar(key, s);
  auto [at, is_new] = tables_->elements.try_emplace(key.take());
  if (is_new) {
    const bool complete = std::all_of(items.begin(), items.end(), [](const Scalar& s) { return s.is_known(); });
    at->second = std::make_unique<ElementsNode>(ElementsNode{std::move(items), complete});
  }
  return at->second.get();
}

AttributeList Module::attribute_list(std::vector<Attribute> items) {
  std::stable_sort(items.begin(), items.end(), [&](const Attribute& a, const Attribute& b) { return names[a.name] < names[b.name]; });
  Key key;
  for (const Attribute& a : items) {
    key.add(a.name.index).add(a.kind).add(a.i).add(a.f).add(a.s).add(a.tensor.type).add(a.tensor.elements).add(a.type);
    // Tensors of one type whose elements are not kept may differ; so do their bytes' sizes at least.
    key.add(a.tensor.stored_bytes);
    key.add(a.ints.size());
    for (int64_t i : a.ints) key.add(i);
    key.add(a.floats.size());
    for (double f : a.floats) key.add(f);
    key.add(a.strings.size());
    for (std::string_view s : a.strings) key.add(s);
    for (uint32_t r : a.regions) key.add(r);
  }
  auto [at, is_new] = tables_->attributes.try_emplace(key.take());
  if (is_new) at->second = std::make_unique<AttributeListNode>(AttributeListNode{std::move(items)});
  return at->second.get();
}

static std::string instance_key(const Instance& instance, bool with_outputs) {
  Key key;
  key.add(instance.op).add(instance.op_type.index).add(instance.domain.index).add(instance.opset).add(instance.attributes);
  key.add(instance.inputs.size());
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    key.add(instance.inputs[i]).add(instance.elements[i]).add(instance.stored[i]).add(instance.alias[i]).add<bool>(instance.present[i]);
  for (bool w : instance.wanted) key.add(w);
  if (with_outputs)
    for (Type t : instance.outputs) key.add(t);
  return key.take();
}

std::pair<InstanceId, bool> Module::instance(Instance instance) {
  const InstanceId next{static_cast<uint32_t>(instances.size())};
  if (!instance.only.valid()) {
    auto [at, is_new] = tables_->instances.try_emplace(instance_key(instance, true), next);
    if (!is_new) return {at->second, false};
  }
  instances.push_back(std::move(instance));
  return {next, true};
}

void Module::forget(InstanceId id) { tables_->instances.erase(instance_key(instances[id.index], false)); }

std::string display_name(const Module& module, NodeId id) {
  const Node& node = module[id];
  const std::string_view name = module.names[node.name];
  if (!name.empty()) return std::string(name);
  return std::string(module.names[node.op_type]) + "_" + std::to_string(id.index);
}

Status verify(const Module& module) {
  auto broken = [&](NodeId id, const std::string& what) {
    return error("ir-invalid", what, {.file = module.file, .node = display_name(module, id)}, "please report this");
  };
  std::vector<bool> seen(module.values.size(), false);
  for (size_t i = 0; i < module.values.size(); ++i) seen[i] = !module.values[i].producer.valid();
  // Regions hold nodes in topological order; a body's nodes come after what they capture.
  struct Frame {
    RegionId region;
    size_t next;
  };
  std::vector<Frame> stack{{RegionId{0}, 0}};
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const Region& region = module.regions[frame.region.index];
    if (frame.next == region.nodes.size()) {
      stack.pop_back();
      continue;
    }
    const NodeId id = region.nodes[frame.next++];
    if (id.index >= module.nodes.size()) return error("ir-invalid", "node id out of range");
    const Node& node = module[id];
    for (ValueId v : module.inputs(node)) {
      if (!v.valid()) continue;
      if (v.index >= module.values.size()) return broken(id, "input id out of range");
      if (!seen[v.index]) return broken(id, "reads a value before it is made: " + std::string(module.names[module[v].name]));
    }
    for (ValueId v : module.outputs(node)) {
      if (!v.valid()) continue;
      if (v.index >= module.values.size()) return broken(id, "output id out of range");
      if (module[v].producer != id) return broken(id, "output names another producer");
      seen[v.index] = true;
    }
    if (node.instance.valid()) {
      const Instance& instance = module.instances[node.instance.index];
      const std::span<const ValueId> outputs = module.outputs(node);
      for (size_t i = 0; i < outputs.size() && i < instance.outputs.size(); ++i)
        if (outputs[i].valid() && instance.outputs[i] && module[outputs[i]].type != instance.outputs[i])
          return broken(id, "output type differs from its instance");
    }
    for (RegionId r : module.regions_of(node)) stack.push_back({r, 0});
  }
  return Ok{};
}

}  // namespace roofcast
