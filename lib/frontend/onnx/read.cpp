#include "frontend/onnx/read.h"

#include "frontend/inputs.h"
#include "frontend/onnx/captures.h"
#include "frontend/onnx/tensor.h"
#include "frontend/onnx/wire.h"
#include "ops/op_table.h"
#include "ops/user_ops.h"
#include "support/diagnostic.h"
#include "support/mapped_file.h"

#include <onnx-ml.pb.h>  // field numbers

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_set>

namespace roofcast {
namespace {

using onnx::AttributeProto;
using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;

// A NodeProto as slices of the file.
struct NodeSlices {
  std::string_view bytes, name, op_type, domain, overload, scope;
  std::vector<std::string_view> inputs, outputs, attributes, device_configurations;
};

// A GraphProto or FunctionProto's parts as slices.
struct GraphSlices {
  std::string_view name;
  std::vector<NodeSlices> nodes;
  std::vector<std::string_view> initializers, sparse_initializers, inputs, outputs, value_infos;
  std::unordered_map<size_t, TensorSlices> large;  // initializers read already, by index
};

struct Function {
  std::string_view bytes;
  std::string_view domain, name, overload;
  bool parsed = false;
  GraphSlices graph;                       // inputs and outputs are names here
  std::vector<std::string_view> defaults;  // attribute_proto
  std::map<std::string, int64_t, std::less<>> opsets;
};

// A call being expanded: what attribute references in its body stand for.
struct Call {
  const Function* function = nullptr;
  const std::vector<Attribute>* attributes = nullptr;
  const Call* outer = nullptr;
  int depth = 0;
};

struct Scope {
  Scope* parent = nullptr;
  RegionId region;
  std::unordered_map<NameId, ValueId> values;
  std::string prefix;  // of names inside an expanded function
  const Call* call = nullptr;
  int depth = 0;
};

class Reader {
public:
  Reader(Module& module, const MappedFile& file, const LoadOptions& options)
      : m_(module), mapped_(file), file_(file.bytes()), settings_(options), keep_symbols_(options.keep_symbols), tensors_(module, file.bytes()) {}

  Status read() {
    std::string_view graph;
    bool has_graph = false;
    WireReader model(file_, file_);
    for (WireField f; fine() && model.next(f);) {
      switch (f.number) {
      case ModelProto::kIrVersionFieldNumber: m_.ir_version = f.integer(); break;
      case ModelProto::kProducerNameFieldNumber: m_.producer = text(f) + m_.producer; break;
      case ModelProto::kProducerVersionFieldNumber: if (!f.bytes.empty()) m_.producer += " " + text(f); break;
      case ModelProto::kGraphFieldNumber: graph = bytes(f), has_graph = true; break;
      case ModelProto::kOpsetImportFieldNumber: read_opset(bytes(f), m_.opsets); break;
      case ModelProto::kFunctionsFieldNumber: add_function(bytes(f)); break;
      case ModelProto::kConfigurationFieldNumber: read_configuration(bytes(f)); break;
      default: break;
      }
    }
    check(model);
    if (fine() && !has_graph) fail("onnx-wire-type", "holds no graph, so it is not an ONNX model", {}, 0);
    if (fine()) read_main(graph);
    return fine() ? Status(Ok{}) : Status(*fault_);
  }

private:
  // Faults ------------------------------------------------------------------------------------------
  bool fine() const { return !fault_; }
  void fail(std::string_view code, std::string message, std::string node = {}, std::optional<uint64_t> byte = {}, std::string hint = {}) {
    if (fault_) return;
    Where where{.file = m_.file};
    if (!node.empty()) where.node = node;
    where.byte = byte;
    fault_ = error(code, std::move(message), std::move(where), std::move(hint));
  }
  void fail(Diagnostic d) { if (!fault_) fault_ = std::move(d); }
  // Absent for text that is a copy.
  std::optional<uint64_t> offset(std::string_view slice) const {
    const bool inside = std::greater_equal<>()(slice.data(), file_.data()) && std::less_equal<>()(slice.data(), file_.data() + file_.size());
    return inside ? std::optional(static_cast<uint64_t>(slice.data() - file_.data())) : std::nullopt;
  }
  void check(const WireReader& reader) {
    if (reader.fault() == WireReader::Fault::none) return;
    if (reader.fault() == WireReader::Fault::truncated && reader.wanted())
      fail("onnx-truncated", std::to_string(reader.wanted()) + " bytes declared, " + std::to_string(reader.left()) + " left", {}, reader.fault_offset(), "fetch the file again");
    else if (reader.fault() == WireReader::Fault::truncated)
      fail("onnx-truncated", "ends in the middle of a field", {}, reader.fault_offset(), "fetch the file again");
    else
      fail("onnx-wire-type", "is not protobuf", {}, reader.fault_offset(), "is it an ONNX model?");
  }
  std::string_view bytes(const WireField& f) {
    if (f.type != 2) fail("onnx-wire-type", "field " + std::to_string(f.number) + " has another wire type than ONNX gives it", {}, offset(f.bytes), "is it an ONNX model?");
    return f.bytes;
  }
  std::string text(const WireField& f) { return std::string(bytes(f)); }

  // Model level -------------------------------------------------------------------------------------
  void read_opset(std::string_view message, std::map<std::string, int64_t, std::less<>>& out) {
    std::string domain;
    int64_t version = 1;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      if (f.number == onnx::OperatorSetIdProto::kDomainFieldNumber) domain = text(f);
      if (f.number == onnx::OperatorSetIdProto::kVersionFieldNumber) version = f.integer();
    }
    check(r);
    out[domain == "ai.onnx" ? "" : domain] = version;
  }

  void read_configuration(std::string_view message) {
    std::pair<std::string, std::string> row;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      if (f.number == onnx::DeviceConfigurationProto::kNameFieldNumber) row.first = text(f);
      if (f.number == onnx::DeviceConfigurationProto::kNumDevicesFieldNumber) row.second = std::to_string(f.integer());
    }
    check(r);
    m_.device_configurations.push_back(std::move(row));
  }

  void add_function(std::string_view message) {
    Function fn;
    fn.bytes = message;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      if (f.number == FunctionProto::kNameFieldNumber) fn.name = bytes(f);
      if (f.number == FunctionProto::kDomainFieldNumber) fn.domain = bytes(f);
      if (f.number == FunctionProto::kOverloadFieldNumber) fn.overload = bytes(f);
      if (f.number == FunctionProto::kNodeFieldNumber) ++m_.declared_nodes;
    }
    check(r);
    functions_[function_key(fn.domain, fn.name, fn.overload)] = std::move(fn);
  }
  static std::string function_key(std::string_view domain, std::string_view name, std::string_view overload) {
    return std::string(domain == "ai.onnx" ? "" : domain) + "\n" + std::string(name) + "\n" + std::string(overload);
  }
  void parse_function(Function& fn) {
    fn.parsed = true;
    WireReader r(fn.bytes, file_);
    for (WireField f; fine() && r.next(f);) {
      switch (f.number) {
      case FunctionProto::kInputFieldNumber: fn.graph.inputs.push_back(bytes(f)); break;
      case FunctionProto::kOutputFieldNumber: fn.graph.outputs.push_back(bytes(f)); break;
      case FunctionProto::kNodeFieldNumber: fn.graph.nodes.push_back(read_node(bytes(f))); break;
      case FunctionProto::kAttributeProtoFieldNumber: fn.defaults.push_back(bytes(f)); break;
      case FunctionProto::kValueInfoFieldNumber: fn.graph.value_infos.push_back(bytes(f)); break;
      case FunctionProto::kOpsetImportFieldNumber: read_opset(bytes(f), fn.opsets); break;
      default: break;
      }
    }
  }

  // Slices --------------------------------------------------------------------------------------------
  NodeSlices read_node(std::string_view message) {
    NodeSlices n;
    n.bytes = message;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      switch (f.number) {
      case NodeProto::kInputFieldNumber: n.inputs.push_back(bytes(f)); break;
      case NodeProto::kOutputFieldNumber: n.outputs.push_back(bytes(f)); break;
      case NodeProto::kNameFieldNumber: n.name = bytes(f); break;
      case NodeProto::kOpTypeFieldNumber: n.op_type = bytes(f); break;
      case NodeProto::kDomainFieldNumber: n.domain = bytes(f); break;
      case NodeProto::kOverloadFieldNumber: n.overload = bytes(f); break;
      case NodeProto::kAttributeFieldNumber: n.attributes.push_back(bytes(f)); break;
      case NodeProto::kDeviceConfigurationsFieldNumber: n.device_configurations.push_back(bytes(f)); break;
      case NodeProto::kMetadataPropsFieldNumber: read_scope(bytes(f), n); break;
      default: break;
      }
    }
    check(r);
    if (fine() && (n.inputs.size() > limits::operands || n.outputs.size() > limits::operands))
      fail("onnx-too-large", "a node has more than " + std::to_string(limits::operands) + " operands", std::string(n.name), offset(message));
    if (n.domain == "ai.onnx") n.domain = {};
    return n;
  }

  // Exporters note the module path of a node under the key "namespace".
  void read_scope(std::string_view message, NodeSlices& n) {
    std::string_view key, value;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      if (f.number == onnx::StringStringEntryProto::kKeyFieldNumber) key = bytes(f);
      if (f.number == onnx::StringStringEntryProto::kValueFieldNumber) value = bytes(f);
    }
    check(r);
    if (key == "namespace") n.scope = value;
  }

  // A tensor whose bytes lie in the file is read while its page is at hand, and its name copied, so that
  // pages among weights need not come back.
  static constexpr size_t large_tensor = 64 << 10;
  void read_large(GraphSlices& g) {
    const std::string_view slice = g.initializers.back();
    TensorSlices t = tensors_.read(slice);
    t.name = m_.names[m_.names.own(t.name)];
    g.large.emplace(g.initializers.size() - 1, std::move(t));
    mapped_.release_before(slice.data());
  }

  GraphSlices read_slices(std::string_view message) {
    GraphSlices g;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      switch (f.number) {
      case GraphProto::kNodeFieldNumber: g.nodes.push_back(read_node(bytes(f))); break;
      case GraphProto::kNameFieldNumber: g.name = bytes(f); break;
      case GraphProto::kInitializerFieldNumber:
        g.initializers.push_back(bytes(f));
        if (f.bytes.size() > large_tensor) read_large(g);
        break;
      case GraphProto::kSparseInitializerFieldNumber: g.sparse_initializers.push_back(bytes(f)); break;
      case GraphProto::kInputFieldNumber: g.inputs.push_back(bytes(f)); break;
      case GraphProto::kOutputFieldNumber: g.outputs.push_back(bytes(f)); break;
      case GraphProto::kValueInfoFieldNumber: g.value_infos.push_back(bytes(f)); break;
      default: break;
      }
    }
    check(r);
    m_.declared_nodes += g.nodes.size();
    return g;
  }

  // Types ---------------------------------------------------------------------------------------------
  struct TypedName {
    std::string_view name;
    Type type = nullptr;
  };
  TypedName read_value_info(std::string_view message, SymbolOrigin origin) {
    TypedName v;
    std::string_view type;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      if (f.number == onnx::ValueInfoProto::kNameFieldNumber) v.name = bytes(f);
      if (f.number == onnx::ValueInfoProto::kTypeFieldNumber) type = bytes(f);
    }
    check(r);
    if (fine() && !type.empty()) v.type = read_type(type, v.name, origin, 0);
    return v;
  }

  Type read_type(std::string_view message, std::string_view value, SymbolOrigin origin, int depth) {
    if (depth > limits::nesting_depth) return fail("onnx-too-deep", "a type nests too deeply", {}, offset(message)), nullptr;
    using onnx::TypeProto;
    Type type = nullptr;
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      TypeNode node;
      switch (f.number) {
      case TypeProto::kTensorTypeFieldNumber:
      case TypeProto::kSparseTensorTypeFieldNumber:
        node.kind = f.number == TypeProto::kTensorTypeFieldNumber ? TypeKind::tensor : TypeKind::sparse_tensor;
        break;
      case TypeProto::kSequenceTypeFieldNumber: node.kind = TypeKind::sequence; break;
      case TypeProto::kOptionalTypeFieldNumber: node.kind = TypeKind::optional; break;
      case TypeProto::kMapTypeFieldNumber: node.kind = TypeKind::map; break;
      default: continue;
      }
      WireReader inner(bytes(f), file_);
      for (WireField g; fine() && inner.next(g);) {
        if (node.kind == TypeKind::tensor || node.kind == TypeKind::sparse_tensor) {
          if (g.number == TypeProto::Tensor::kElemTypeFieldNumber && g.type == 0) node.dtype = dtype_of(g.scalar);
          if (g.number == TypeProto::Tensor::kShapeFieldNumber) node.ranked = true, read_dims(bytes(g), value, origin, node.dims);
        } else if (node.kind == TypeKind::map) {
          if (g.number == TypeProto::Map::kKeyTypeFieldNumber && g.type == 0) node.dtype = dtype_of(g.scalar);
          if (g.number == TypeProto::Map::kValueTypeFieldNumber) node.element = read_type(bytes(g), value, origin, depth + 1);
        } else if (g.number == TypeProto::Sequence::kElemTypeFieldNumber) {
          node.element = read_type(bytes(g), value, origin, depth + 1);
        }
      }
      check(inner);
      if (fine()) type = m_.type(std::move(node));
    }
    check(r);
    return type;
  }
  static DType dtype_of(uint64_t v) { return v < dtype_count ? static_cast<DType>(v) : DType::undefined; }

  void read_dims(std::string_view message, std::string_view value, SymbolOrigin origin, std::vector<Expr>& dims) {
    WireReader r(message, file_);
    for (WireField f; fine() && r.next(f);) {
      if (f.number != onnx::TensorShapeProto::kDimFieldNumber) continue;
      Expr dim;
      std::string_view param;
      WireReader d(bytes(f), file_);
      for (WireField g; fine() && d.next(g);) {
        if (g.number == onnx::TensorShapeProto::Dimension::kDimValueFieldNumber && g.type == 0) dim = g.integer();
        if (g.number == onnx::TensorShapeProto::Dimension::kDimParamFieldNumber) param = bytes(g);
      }
      check(d);
      if (dim.is_constant() && dim.constant() < 0) dim = {};  // some exporters write -1 for "any"
      if (dim.is_overflow()) fail("dim-overflow", "a dim of \"" + std::string(value) + "\" is beyond 2^62", {}, offset(f.bytes));
      if (!param.empty()) dim = symbolic_dim(param, origin);
      else if (!dim.is_known() && origin == SymbolOrigin::input_dim)
        dim = bound_symbol(std::string(value) + "." + std::to_string(dims.size()), origin);
      dims.push_back(dim);
      if (dims.size() > limits::rank) fail("rank-mismatch", "\"" + std::string(value) + "\" has more than " + std::to_string(limits::rank) + " dims", {}, offset(message));
    }
    check(r);
  }

  Expr symbolic_dim(std::string_view param, SymbolOrigin origin) {
    if (param == "?") return {};
    if (const auto e = parse_expr(param, m_.exprs, origin)) return bound(*e);
    return bound_symbol(param, origin);
  }
  Expr bound_symbol(std::string_view name, SymbolOrigin origin) { return bound(m_.exprs.symbol(name, origin)); }
  // Symbols that the user has set are constants from here on.
  Expr bound(Expr e) {
    if (keep_symbols_ || e.is_constant()) return e;
    std::vector<SymbolId> symbols;
    collect_symbols(e, symbols);
    for (SymbolId id : symbols)
      if (!bindings.get(id))
        if (const auto v = settings_.find(m_.exprs.info(id).name)) bindings.set(id, *v);
    return substitute(e, bindings);
  }

  // Graphs --------------------------------------------------------------------------------------------
  void read_main(std::string_view message) {
    Scope scope;
    scope.region = RegionId{0};
    read_graph(message, scope);
  }

  ValueId define(Scope& scope, std::string_view name, Storage storage, Type type) {
    const NameId id = scope.prefix.empty() ? m_.names.intern(name) : m_.names.own(scope.prefix + std::string(name));
    const NameId key = m_.names.intern(name);
    const auto [at, is_new] = scope.values.try_emplace(key);
    if (!is_new) {
      fail("onnx-duplicate-name", "two values are called \"" + std::string(name) + "\"", {}, offset(name));
      return at->second;
    }
    at->second = m_.add_value({.name = id, .type = type, .region = scope.region, .storage = storage});
    return at->second;
  }
  static ValueId lookup(const Scope* scope, NameId key) {
    for (; scope; scope = scope->parent)
      if (auto at = scope->values.find(key); at != scope->values.end()) return at->second;
    return {};
  }

  void read_graph(std::string_view message, Scope& scope) {
    if (scope.depth > limits::nesting_depth) return fail("onnx-too-deep", "subgraphs nest more than " + std::to_string(limits::nesting_depth) + " deep", {}, offset(message));
    const GraphSlices g = read_slices(message);
    if (!fine()) return;
    const bool is_main = scope.region.index == 0;
    if (is_main) m_.graph_name = std::string(g.name);
    // Inputs first, so that their symbols are known as such.
    std::vector<TypedName> inputs;
    for (std::string_view slice : g.inputs) {
      inputs.push_back(read_value_info(slice, is_main ? SymbolOrigin::input_dim : SymbolOrigin::unbound));
      if (!fine()) return;
    }
    std::unordered_set<std::string_view> given;  // inputs with a default value
    for (bool sparse : {false, true}) {
      const std::vector<std::string_view>& slices = sparse ? g.sparse_initializers : g.initializers;
      for (size_t i = 0; i < slices.size(); ++i) {
        const auto known = sparse ? g.large.end() : g.large.find(i);
        const TensorSlices t = known != g.large.end() ? known->second : sparse ? tensors_.read_sparse(slices[i]) : tensors_.read(slices[i]);
        if (t.fault) return fail(*t.fault);
        const ValueId v = define(scope, t.name, Storage::weight, t.tensor.type);
        if (!fine()) return;
        m_[v].elements = t.tensor.elements, m_[v].stored_bytes = t.tensor.stored_bytes;
        given.insert(t.name);
      }
    }
    for (const TypedName& input : inputs) {
      if (given.contains(input.name)) continue;
      const ValueId v = define(scope, input.name, Storage::input, input.type);
      m_.regions[scope.region.index].inputs.push_back(v);
      if (!fine()) return;
    }
    read_body(g, scope, {});
    for (std::string_view slice : g.outputs) {
      const TypedName out = read_value_info(slice, SymbolOrigin::unbound);
      if (!fine()) return;
      const ValueId v = lookup(&scope, m_.names.intern(out.name));
      if (!v.valid()) return fail("onnx-missing-input", "the graph returns \"" + std::string(out.name) + "\", which nothing makes", {}, offset(slice));
      if (m_[v].producer.valid()) m_[v].declared = out.type;
      m_.regions[scope.region.index].outputs.push_back(v);
    }
  }

  // Defines all nodes' outputs, then reads the nodes in topological order. `given`: values of outputs
  // that exist already (the results of an expanded call), by name.
  void read_body(const GraphSlices& g, Scope& scope, const std::unordered_map<NameId, ValueId>& given) {
    std::unordered_map<NameId, uint32_t> makers;
    for (uint32_t i = 0; i < g.nodes.size() && fine(); ++i) {
      for (std::string_view out : g.nodes[i].outputs) {
        if (out.empty()) continue;
        const NameId key = m_.names.intern(out);
        if (auto at = given.find(key); at != given.end()) {
          if (!scope.values.try_emplace(key, at->second).second)
            return fail("onnx-duplicate-name", "two values are called \"" + std::string(out) + "\"", std::string(g.nodes[i].name), offset(out));
        } else {
          define(scope, out, Storage::activation, nullptr);
        }
        makers[key] = i;
      }
    }
    for (std::string_view slice : g.value_infos) {
      if (!fine()) return;
      const TypedName info = read_value_info(slice, SymbolOrigin::unbound);
      if (auto at = scope.values.find(m_.names.intern(info.name)); at != scope.values.end() && m_[at->second].storage == Storage::activation)
        m_[at->second].declared = info.type;
    }
    if (!fine()) return;
    for (uint32_t i : ordered(g, makers))
      if (fine()) read_node_into(g.nodes[i], scope);
  }

  // The file's order where it is topological, as ONNX asks; else sorted, else a cycle.
  std::vector<uint32_t> ordered(const GraphSlices& g, const std::unordered_map<NameId, uint32_t>& makers) {
    const uint32_t n = static_cast<uint32_t>(g.nodes.size());
    std::vector<uint32_t> order(n);
    for (uint32_t i = 0; i < n; ++i) order[i] = i;
    std::vector<std::vector<uint32_t>> needs(n);
    bool sorted = true;
    for (uint32_t i = 0; i < n; ++i) {
      auto need = [&](std::string_view name) {
        const auto key = m_.names.find(name);
        if (!key) return;
        if (auto at = makers.find(*key); at != makers.end()) {
          needs[i].push_back(at->second);
          sorted &= at->second < i;
        }
      };
      for (std::string_view in : g.nodes[i].inputs) need(in);
      std::vector<std::string_view> captured;
      for (std::string_view attribute : g.nodes[i].attributes) captured_names(attribute, captured);
      for (std::string_view name : captured) need(name);
    }
    if (sorted) return order;
    std::vector<uint32_t> waits(n, 0);
    std::vector<std::vector<uint32_t>> users(n);
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j : needs[i]) ++waits[i], users[j].push_back(i);
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t i = 0; i < n; ++i)
      if (!waits[i]) ready.push(i);
    order.clear();
    while (!ready.empty()) {
      const uint32_t i = ready.top();
      ready.pop();
      order.push_back(i);
      for (uint32_t u : users[i])
        if (--waits[u] == 0) ready.push(u);
    }
    if (order.size() < n) {
      for (uint32_t i = 0; i < n; ++i)
        if (waits[i]) {
          fail("onnx-cycle", "needs its own output, directly or through other nodes", node_name(g.nodes[i]), offset(g.nodes[i].bytes), "remove the cycle");
          break;
        }
    }
    return order;
  }

  static std::string node_name(const NodeSlices& n) { return std::string(n.name.empty() ? n.op_type : n.name); }

  // Nodes ---------------------------------------------------------------------------------------------
  void read_node_into(const NodeSlices& n, Scope& scope) {
    if (m_.nodes.size() >= limits::nodes)
      return fail("onnx-too-large", "more than " + std::to_string(limits::nodes) + " nodes once functions are inlined", node_name(n));
    std::vector<ValueId> inputs, outputs;
    for (std::string_view in : n.inputs) {
      if (in.empty()) {
        inputs.emplace_back();
        continue;
      }
      const ValueId v = lookup(&scope, m_.names.intern(in));
      // In a function, a formal input that the call leaves out is an optional input left out.
      if (!v.valid() && !(scope.call && left_out_.contains({scope.call, m_.names.intern(in)})))
        return fail("onnx-missing-input", "reads \"" + std::string(in) + "\", which nothing makes", node_name(n), offset(n.bytes));
      inputs.push_back(v);
    }
    for (std::string_view out : n.outputs) outputs.push_back(out.empty() ? ValueId{} : lookup(&scope, m_.names.intern(out)));

    std::vector<Attribute> attributes;
    std::vector<RegionId> bodies;
    for (std::string_view slice : n.attributes) {
      Attribute a = read_attribute(slice, n, scope, bodies);
      if (!fine()) return;
      if (a.kind != Attribute::Kind::none) attributes.push_back(std::move(a));
    }
    const int opset = scope.call ? opset_in(*scope.call->function, n.domain) : m_.opset(n.domain);
    auto function = functions_.find(function_key(n.domain, n.op_type, n.overload));
    if (!scope.call) origin_ = offset(n.bytes).value_or(0);
    if (function != functions_.end()) {
      // What an op of ai.onnx or of the user does is known better than by a body.
      const OpInfo* op = find_op(m_.custom_ops, n.domain, n.op_type, opset);
      if (!op || (!op->user && !n.domain.empty()))
        return expand(function->second, n, scope, inputs, outputs, attributes);
    }

    Node node;
    node.name = scope.prefix.empty() ? m_.names.intern(n.name) : m_.names.own(scope.prefix + node_name(n));
    node.op_type = m_.names.intern(n.op_type);
    node.domain = m_.names.intern(n.domain);
    node.scope = n.scope.empty() ? NameId{} : m_.names.intern(n.scope);
    node.region = scope.region;
    const NodeId id = m_.add_node(node, m_.attribute_list(std::move(attributes)), inputs, outputs, bodies);
    m_.node_opsets.push_back(opset);
    m_.node_origins.push_back(scope.call ? origin_ : offset(n.bytes).value_or(0));
    for (RegionId r : bodies) m_.regions[r.index].owner = id;
    m_.regions[scope.region.index].nodes.push_back(id);
    for (std::string_view slice : n.device_configurations) m_.node_shardings[id.index] += std::string(slice);
  }

  int opset_in(const Function& fn, std::string_view domain) const {
    auto at = fn.opsets.find(domain);
    return at == fn.opsets.end() ? m_.opset(domain) : static_cast<int>(std::clamp<int64_t>(at->second, 1, 1 << 20));
  }

  void expand(Function& fn, const NodeSlices& n, Scope& scope, const std::vector<ValueId>& inputs,
              const std::vector<ValueId>& outputs, std::vector<Attribute>& attributes) {
    const int depth = scope.call ? scope.call->depth + 1 : 1;
    for (const Call* c = scope.call; c; c = c->outer)
      if (c->function == &fn) return fail("onnx-recursive-function", "function \"" + std::string(fn.name) + "\" calls itself", node_name(n), offset(n.bytes));
    if (depth > limits::function_depth) return fail("onnx-too-deep", "functions call each other more than " + std::to_string(limits::function_depth) + " deep", node_name(n), offset(n.bytes));
    if (!fn.parsed) parse_function(fn);
    if (!fine()) return;
    for (std::string_view slice : fn.defaults) {
      std::vector<RegionId> none;
      const Attribute a = read_attribute(slice, n, scope, none);
      if (!fine()) return;
      if (std::none_of(attributes.begin(), attributes.end(), [&](const Attribute& b) { return b.name == a.name; })) attributes.push_back(a);
    }
    const Call call{&fn, &attributes, scope.call, depth};
    Scope inner;
    inner.region = scope.region;
    inner.prefix = scope.prefix + node_name(n) + "/";
    inner.call = &call;
    inner.depth = scope.depth;
    for (size_t i = 0; i < fn.graph.inputs.size(); ++i) {
      const NameId key = m_.names.intern(fn.graph.inputs[i]);
      if (i < inputs.size() && inputs[i].valid()) inner.values[key] = inputs[i];
      else left_out_.insert({&call, key});
    }
    std::unordered_map<NameId, ValueId> given;
    for (size_t i = 0; i < fn.graph.outputs.size() && i < outputs.size(); ++i)
      if (outputs[i].valid()) given[m_.names.intern(fn.graph.outputs[i])] = outputs[i];
    read_body(fn.graph, inner, given);
    if (!fine()) return;
    // An output that is an input of the function is passed on by an Identity.
    for (const auto& [key, value] : given) {
      auto at = inner.values.find(key);
      if (at == inner.values.end()) return fail("onnx-missing-input", "function \"" + std::string(fn.name) + "\" returns \"" + std::string(m_.names[key]) + "\", which nothing makes", node_name(n), offset(n.bytes));
      if (at->second == value) continue;
      Node pass;
      pass.name = m_.names.own(inner.prefix + std::string(m_.names[key]));
      pass.op_type = m_.names.intern("Identity");
      pass.domain = m_.names.intern("");
      pass.region = scope.region;
      const NodeId id = m_.add_node(pass, nullptr, std::span(&at->second, 1), std::span(&value, 1));
      m_.node_opsets.push_back(m_.opset(""));
      m_.node_origins.push_back(origin_);
      m_.regions[scope.region.index].nodes.push_back(id);
    }
    std::erase_if(left_out_, [&](const auto& item) { return item.first == &call; });
  }

  // Attributes ------------------------------------------------------------------------------------------
  Attribute read_attribute(std::string_view message, const NodeSlices& n, Scope& scope, std::vector<RegionId>& bodies) {
    using Kind = Attribute::Kind;
    Attribute a;
    std::string_view reference;
    int64_t declared = 0;
    bool wrong = false;
    WireReader r(message, file_);
    auto graph = [&](std::string_view bytes) {
      if (bodies.size() >= 255) return fail("onnx-too-large", "a node has more than 255 subgraphs", node_name(n));
      Scope inner;
      inner.parent = &scope, inner.prefix = scope.prefix, inner.call = scope.call, inner.depth = scope.depth + 1;
      inner.region = RegionId{static_cast<uint32_t>(m_.regions.size())};
      m_.regions.emplace_back();
      m_.regions.back().name = a.name;
      read_graph(bytes, inner);
      a.regions.push_back(static_cast<uint32_t>(bodies.size()));
      bodies.push_back(inner.region);
    };
    std::vector<std::string_view> graphs;
    for (WireField f; fine() && r.next(f);) {
      switch (f.number) {
      case AttributeProto::kNameFieldNumber: a.name = m_.names.intern(bytes(f)); break;
      case AttributeProto::kTypeFieldNumber: declared = f.integer(); break;
      case AttributeProto::kRefAttrNameFieldNumber: reference = bytes(f); break;
      case AttributeProto::kIFieldNumber: wrong |= f.type != 0, a.i = f.integer(), a.kind = Kind::integer; break;
      case AttributeProto::kFFieldNumber: wrong |= f.type != 5, a.f = f.real(), a.kind = Kind::real; break;
      case AttributeProto::kSFieldNumber: a.s = bytes(f), a.kind = Kind::string; break;
      case AttributeProto::kIntsFieldNumber: wrong |= !append_integers(f, a.ints, 1 << 20), a.kind = Kind::integers; break;
      case AttributeProto::kFloatsFieldNumber:
        a.kind = Kind::reals;
        if (f.type == 5) a.floats.push_back(f.real());
        else if (f.type == 2)
          for (size_t i = 0; i + 4 <= f.bytes.size() && a.floats.size() < (1 << 20); i += 4) {
            float v;
            std::memcpy(&v, f.bytes.data() + i, 4);
            a.floats.push_back(v);
          }
        else wrong = true;
        break;
      case AttributeProto::kStringsFieldNumber: a.strings.push_back(bytes(f)), a.kind = Kind::strings; break;
      case AttributeProto::kTFieldNumber:
      case AttributeProto::kSparseTensorFieldNumber: {
        const TensorSlices t = f.number == AttributeProto::kTFieldNumber ? tensors_.read(bytes(f)) : tensors_.read_sparse(bytes(f));
        if (t.fault) fail(*t.fault);
        a.tensor = t.tensor, a.kind = Kind::tensor;
        break;
      }
      case AttributeProto::kTensorsFieldNumber:
      case AttributeProto::kSparseTensorsFieldNumber: a.kind = Kind::tensors; break;
      case AttributeProto::kTpFieldNumber: a.type = read_type(bytes(f), {}, SymbolOrigin::unbound, 0), a.kind = Kind::type; break;
      case AttributeProto::kGFieldNumber: graphs.push_back(bytes(f)), a.kind = Kind::graph; break;
      case AttributeProto::kGraphsFieldNumber: graphs.push_back(bytes(f)), a.kind = Kind::graphs; break;
      default: break;
      }
    }
    check(r);
    if (wrong) fail("onnx-attribute", "attribute \"" + std::string(m_.names[a.name]) + "\" has a value of a wrong type", node_name(n), offset(message));
    for (std::string_view g : graphs)
      if (fine()) graph(g);
    if (a.kind == Kind::none && reference.empty()) {
      // An empty list leaves nothing on the wire but its declared type; so does a proto2 zero not set.
      switch (declared) {
      case AttributeProto::INTS: a.kind = Kind::integers; break;
      case AttributeProto::FLOATS: a.kind = Kind::reals; break;
      case AttributeProto::STRINGS: a.kind = Kind::strings; break;
      case AttributeProto::INT: a.kind = Kind::integer; break;
      case AttributeProto::FLOAT: a.kind = Kind::real; break;
      case AttributeProto::STRING: a.kind = Kind::string; break;
      default: break;
      }
    }
    if (!reference.empty()) return referenced(a.name, m_.names.intern(reference), scope);
    return a;
  }

  // What a reference in a function's body stands for: the call's attribute, under the name used here.
  static Attribute referenced(NameId name, NameId reference, const Scope& scope) {
    if (scope.call)
      for (const Attribute& a : *scope.call->attributes)
        if (a.name == reference) {
          Attribute copy = a;
          copy.name = name;
          return copy;
        }
    return {};
  }

  Module& m_;
  const MappedFile& mapped_;
  uint64_t origin_ = 0;  // byte of the node being read, outside of functions
  std::string_view file_;
  SymbolSettings settings_;
  bool keep_symbols_;
  TensorReader tensors_;
  std::map<std::string, Function> functions_;
  std::set<std::pair<const Call*, NameId>> left_out_;
  std::optional<Diagnostic> fault_;

public:
  Bindings bindings;  // symbols bound while reading
};

}  // namespace

Result<std::unique_ptr<Module>> read_onnx(const std::string& path, const LoadOptions& options) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) return file.error();
  return read_onnx(*file, path, options);
}

Result<std::unique_ptr<Module>> read_onnx(std::shared_ptr<const MappedFile> file, const std::string& path, const LoadOptions& options) {
  auto module = std::make_unique<Module>();
  module->file = path;
  module->owners.push_back(file);
  if (file->bytes().empty()) return error("onnx-truncated", "the file is empty", {.file = path, .byte = 0}, "fetch the file again");
  for (const std::string& name : options.ops) {
    Result<std::shared_ptr<const UserOps>> custom = load_user_ops(name);
    if (!custom) return custom.error();
    for (const UserOp& op : (*custom)->ops) module->custom_ops.push_back(&op.row);
    module->owners.push_back(*custom);
  }
  Reader reader(*module, *file, options);
  if (Status status = reader.read(); !status) return status.error();
  if (Status status = bind_inputs(*module, options, reader.bindings); !status) return status.error();
  module->bound = reader.bindings;
  return module;
}

}  // namespace roofcast
