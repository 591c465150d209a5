// The graph: nodes and values in arrays, in topological order, with regions for subgraph bodies.
//
// A Module owns everything that its graph refers to: names, expressions, types, attribute lists and
// Instances. An Instance is what an op does, apart from where it stands: op, attributes, input types
// and known input values. It is hash-consed, so the 80 equal layers of a model share some fifteen, and
// whatever is computed of an Instance (types, work, time) is computed once.
#pragma once

#include "ir/type.h"
#include "roofcast/result.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace roofcast {

// Ids are indices; a type of their own keeps them apart.
template <class Tag> struct Id {
  uint32_t index = UINT32_MAX;
  constexpr bool valid() const { return index != UINT32_MAX; }
  constexpr bool operator==(const Id&) const = default;
  constexpr auto operator<=>(const Id&) const = default;
};
using NameId = Id<struct NameTag>;
using ValueId = Id<struct ValueTag>;    // invalid: an optional input that is left out
using NodeId = Id<struct NodeTag>;
using RegionId = Id<struct RegionTag>;
using InstanceId = Id<struct InstanceTag>;

// Interned strings. Text given as a slice of a mapped file is not copied; `own` copies.
class Names {
public:
  NameId intern(std::string_view slice);
  NameId own(std::string_view text);
  std::optional<NameId> find(std::string_view text) const;
  std::string_view operator[](NameId id) const { return id.valid() ? texts_[id.index] : std::string_view(); }

private:
  std::vector<std::string_view> texts_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::deque<std::string> owned_;
};

struct Tensor {  // of an attribute or initializer: type, and elements if it is small
  Type type = nullptr;
  Elements elements = nullptr;
  uint64_t stored_bytes = 0;
};

struct Attribute {
  enum class Kind : uint8_t { none, integer, real, string, integers, reals, strings, tensor, tensors, graph, graphs, type, reference };
  NameId name;
  Kind kind = Kind::none;
  int64_t i = 0;
  double f = 0;
  std::string_view s;                    // string; reference: the function's attribute name
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string_view> strings;
  Tensor tensor;
  Type type = nullptr;
  std::vector<uint32_t> regions;         // graph, graphs: index among the node's regions
};

// Sorted by name text; interned, so equal lists are one pointer.
struct AttributeListNode {
  std::vector<Attribute> items;
};
using AttributeList = const AttributeListNode*;

enum class Storage : uint8_t { activation, input, weight, constant };
enum class Phase : uint8_t { forward, backward, optimizer };

struct Value {
  NameId name;
  NodeId producer;            // invalid for inputs and initializers
  Type type = nullptr;
  Type declared = nullptr;    // what the file says (value_info); inference wins
  Elements elements = nullptr;
  uint64_t stored_bytes = 0;  // weight: bytes in the file
  RegionId region;
  Storage storage = Storage::activation;
  bool from_shapes = false;         // its elements follow from shapes and constants alone, not from data
  DType stored = DType::undefined;  // a folded constant that lies packed in memory as another type
};

struct OpInfo;  // lib/ops/op_info.h

struct Node {
  NameId name, op_type, domain, scope;
  InstanceId instance;
  uint32_t inputs_begin = 0, outputs_begin = 0, regions_begin = 0;
  uint16_t input_count = 0, output_count = 0;
  RegionId region;
  uint8_t region_count = 0;
  Phase phase = Phase::forward;
  uint16_t stage = 0;
};
static_assert(sizeof(Node) <= 48);

// A body: of the whole graph (region 0), or of a node's subgraph attribute.
struct Region {
  NodeId owner;                   // invalid for the main region
  NameId name;                    // attribute name: "then_branch", "body"
  std::vector<ValueId> inputs;    // formal inputs
  std::vector<ValueId> outputs;
  std::vector<NodeId> nodes;      // topological order
  Expr trips = 1;                 // how often it runs each time its owner does
};

// An op as what it does, apart from where it stands. See lib/ops/op_info.h for what is made of it.
struct Instance {
  const OpInfo* op = nullptr;     // null: unknown op
  NameId op_type, domain;
  int opset = 0;
  AttributeList attributes = nullptr;
  std::vector<Type> inputs;       // null: left out or not known
  std::vector<bool> present;      // false: the optional input is left out
  std::vector<Elements> elements; // of inputs
  std::vector<DType> stored;      // of inputs; undefined: as the type says
  std::vector<uint8_t> alias;     // first input that is the same value
  std::vector<Type> outputs;
  std::vector<Elements> output_elements;
  std::vector<bool> wanted;       // false: the optional output is left out
  NodeId only;                    // valid: made for this one node (data-dependent sizes, regions)
};

struct FunctionBody;  // template of a model-local function, kept by the frontend until inlined

// Everything that a graph's parts refer to.
struct Module {
  Names names;
  ExprPool exprs;

  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<Region> regions;           // [0] is the main graph
  std::vector<ValueId> operands;         // inputs and outputs of nodes, one after another
  std::vector<RegionId> node_regions;
  std::vector<AttributeList> attributes; // by node, parallel to `nodes`
  std::vector<int> node_opsets;          // likewise: of the node's domain (functions have their own)
  std::vector<uint64_t> node_origins;    // likewise: byte of its NodeProto in the file, or of the call it was inlined for
  std::vector<Instance> instances;

  std::map<std::string, int64_t, std::less<>> opsets;  // domain ("" is ai.onnx) → version
  std::string file, producer, graph_name;
  int64_t ir_version = 0;
  uint64_t declared_nodes = 0;           // in the file, subgraphs and function bodies included
  std::vector<std::pair<std::string, std::string>> device_configurations;  // name, number of devices
  std::map<uint32_t, std::string> node_shardings;  // node index → raw NodeDeviceConfigurationProto
  bool tf32 = false;                     // fp32 contractions run in TF32 (--dtype tf32)
  Bindings bound;                        // symbols that the user's --set and --shape made constants
  std::vector<Diagnostic> warnings;
  std::vector<const OpInfo*> custom_ops;               // of --ops files; they go before the op table
  std::vector<std::shared_ptr<const void>> owners;     // mapped files that names point into, custom ops

  std::span<const ValueId> inputs(const Node& n) const { return {operands.data() + n.inputs_begin, n.input_count}; }
  std::span<const ValueId> outputs(const Node& n) const { return {operands.data() + n.outputs_begin, n.output_count}; }
  std::span<const RegionId> regions_of(const Node& n) const { return {node_regions.data() + n.regions_begin, n.region_count}; }
  const Value& operator[](ValueId id) const { return values[id.index]; }
  Value& operator[](ValueId id) { return values[id.index]; }
  const Node& operator[](NodeId id) const { return nodes[id.index]; }
  Node& operator[](NodeId id) { return nodes[id.index]; }
  const Region& main() const { return regions[0]; }
  Region& main() { return regions[0]; }
  int opset(std::string_view domain) const;

  ValueId add_value(Value value);
  NodeId add_node(Node node, AttributeList attributes, std::span<const ValueId> inputs,
                  std::span<const ValueId> outputs, std::span<const RegionId> regions = {});

  // Interning.
  Type tensor(DType dtype, std::vector<Expr> dims);
  Type unranked(DType dtype);
  Type type(TypeNode node);
  Elements elements(std::vector<Scalar> items);
  AttributeList attribute_list(std::vector<Attribute> items);
  // The equal Instance if there is one (its outputs too, if it has been inferred), else a new one.
  std::pair<InstanceId, bool> instance(Instance instance);
  // Keeps an Instance that turned out to be for one node only from being shared.
  void forget(InstanceId id);

  Module();
  ~Module();
  Module(const Module&) = delete;

private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// A node's name for messages and reports: its own, or "<op>_<index>" if it has none.
std::string display_name(const Module& module, NodeId id);

// What must hold of any module: ids in range, order topological, one producer a value, types of
// operands equal to those of the instance. A violation is a bug of ours (code ir-invalid).
Status verify(const Module& module);

}  // namespace roofcast

template <class Tag> struct std::hash<roofcast::Id<Tag>> {
  size_t operator()(roofcast::Id<Tag> id) const noexcept { return id.index; }
};
