#include "ir/print.h"

#include <algorithm>
#include <charconv>

namespace roofcast {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    constexpr char hex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (byte < 0x20 || byte == 0x7f) out += "\\x", out += hex[byte >> 4], out += hex[byte & 15];
    else out += c;
  }
  return out + "\"";
}

bool is_plain(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_.$/-").find(c) != std::string_view::npos;
  });
}

// A real keeps a point or an exponent, so that it reads back as one.
std::string real_text(double v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".einf") == text.npos) text += ".0";
  return text;
}

std::string scalar_text(const Scalar& s) {
  if (s.kind == Scalar::Kind::unknown) return "?";
  if (s.kind == Scalar::Kind::real) return real_text(s.real);
  if (s.den == 1) return s.num.text();
  return "(" + s.num.text() + ")/" + std::to_string(s.den);
}

class Printer {
public:
  explicit Printer(const Module& module) : m_(module) {}

  std::string run() {
    if (!m_.producer.empty()) out_ += "producer " + quoted(m_.producer) + "\n";
    if (m_.ir_version) out_ += "ir " + std::to_string(m_.ir_version) + "\n";
    for (const auto& [domain, version] : m_.opsets) out_ += "opset " + quoted(domain) + " " + std::to_string(version) + "\n";
    for (const auto& [name, count] : m_.device_configurations) out_ += "devices " + quoted(name) + " " + count + "\n";
    out_ += "graph @" + quoted(m_.graph_name);
    region(RegionId{0}, 0);
    return std::move(out_);
  }

private:
  std::string value(ValueId id) const {
    if (!id.valid()) return "_";
    const std::string_view name = m_.names[m_[id].name];
    return "%" + (is_plain(name) ? std::string(name) : quoted(name));
  }

  // Type of a value: inferred, else declared.
  std::string type(ValueId id) const {
    const Value& v = m_[id];
    return to_string(v.type ? v.type : v.declared);
  }

  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  // Formal inputs, outputs, initializers, then the nodes.
  void region(RegionId id, int depth) {
    const Region& r = m_.regions[id.index];
    out_ += "(";
    for (size_t i = 0; i < r.inputs.size(); ++i) {
      out_ += (i ? ", " : "") + value(r.inputs[i]) + ": " + type(r.inputs[i]);
      if (m_[r.inputs[i]].elements) out_ += " = " + to_string(m_[r.inputs[i]].elements);
    }
    out_ += ") -> (";
    for (size_t i = 0; i < r.outputs.size(); ++i) out_ += (i ? ", " : "") + value(r.outputs[i]);
    out_ += ")";
    if (r.trips != Expr(1)) out_ += " trips [" + r.trips.text() + "]";
    out_ += " {\n";
    for (uint32_t i = 0; i < m_.values.size(); ++i) {
      const Value& v = m_.values[i];
      if (v.region != id || v.storage != Storage::weight || v.producer.valid()) continue;
      indent(depth + 1);
      out_ += (v.elements ? "const " : "weight ") + value(ValueId{i}) + ": " + type(ValueId{i});
      out_ += " bytes " + std::to_string(v.stored_bytes);
      if (v.elements) out_ += " = " + to_string(v.elements);
      out_ += "\n";
    }
    for (NodeId n : r.nodes) node(n, depth + 1);
    indent(depth);
    out_ += "}\n";
  }

  void node(NodeId id, int depth) {
    const Node& n = m_[id];
    indent(depth);
    const auto outputs = m_.outputs(n);
    for (size_t i = 0; i < outputs.size(); ++i) out_ += (i ? ", " : "") + value(outputs[i]);
    out_ += outputs.empty() ? "= " : " = ";
    const std::string_view domain = m_.names[n.domain], op = m_.names[n.op_type];
    if (!domain.empty()) out_ += (is_plain(domain) ? std::string(domain) : quoted(domain)) + "::";
    out_ += is_plain(op) ? std::string(op) : quoted(op);
    out_ += "(";
    const auto inputs = m_.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) out_ += (i ? ", " : "") + value(inputs[i]);
    out_ += ")";
    attributes(id);
    out_ += " :";
    for (size_t i = 0; i < outputs.size(); ++i) out_ += (i ? ", " : " ") + (outputs[i].valid() ? type(outputs[i]) : "?");
    if (!m_.names[n.name].empty()) out_ += " @" + quoted(m_.names[n.name]);
    if (!m_.names[n.scope].empty()) out_ += " in " + quoted(m_.names[n.scope]);
    if (m_.node_opsets[id.index] != m_.opset(domain)) out_ += " opset " + std::to_string(m_.node_opsets[id.index]);
    if (n.phase != Phase::forward) out_ += n.phase == Phase::backward ? " backward" : " optimizer";
    if (n.stage) out_ += " stage " + std::to_string(n.stage);
    if (const auto at = m_.node_shardings.find(id.index); at != m_.node_shardings.end()) out_ += " sharding " + quoted_bytes(at->second);
    out_ += "\n";
    for (RegionId body : m_.regions_of(n)) {
      indent(depth + 1);
      const std::string_view name = m_.names[m_.regions[body.index].name];
      out_ += "body " + quoted(name);
      region(body, depth + 1);
    }
  }

  static std::string quoted_bytes(std::string_view bytes) {
    std::string out = "\"";
    for (char c : bytes) {
      constexpr char hex[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      out += "\\x", out += hex[byte >> 4], out += hex[byte & 15];
    }
    return out + "\"";
  }

  template <class T, class F> static std::string list(const char* what, const std::vector<T>& items, F&& text) {
    std::string out = std::string(what) + "[";
    for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + text(items[i]);
    return out + "]";
  }

  std::string tensor(const Tensor& t) const {
    std::string out = "tensor " + to_string(t.type) + " bytes " + std::to_string(t.stored_bytes);
    if (t.elements) out += " = " + to_string(t.elements);
    return out;
  }

  void attributes(NodeId id) {
    const AttributeList attributes = m_.attributes[id.index];
    if (!attributes || attributes->items.empty()) return;
    out_ += " {";
    bool first = true;
    for (const Attribute& a : attributes->items) {
      if (!first) out_ += ", ";
      first = false;
      const std::string_view name = m_.names[a.name];
      out_ += (is_plain(name) ? std::string(name) : quoted(name)) + " = ";
      switch (a.kind) {
      case Attribute::Kind::none: out_ += "none"; break;
      case Attribute::Kind::integer: out_ += std::to_string(a.i); break;
      case Attribute::Kind::real: out_ += "real " + real_text(a.f); break;
      case Attribute::Kind::string: out_ += quoted(a.s); break;
      case Attribute::Kind::integers: out_ += list("ints ", a.ints, [](int64_t i) { return std::to_string(i); }); break;
      case Attribute::Kind::reals: out_ += list("reals ", a.floats, real_text); break;
      case Attribute::Kind::strings: out_ += list("strings ", a.strings, quoted); break;
      case Attribute::Kind::tensor: out_ += tensor(a.tensor); break;
      case Attribute::Kind::tensors: out_ += "tensors"; break;
      case Attribute::Kind::graph: out_ += list("graph ", a.regions, [](uint32_t r) { return std::to_string(r); }); break;
      case Attribute::Kind::graphs: out_ += list("graphs ", a.regions, [](uint32_t r) { return std::to_string(r); }); break;
      case Attribute::Kind::type: out_ += "type " + to_string(a.type); break;
      case Attribute::Kind::reference: out_ += "reference " + quoted(a.s); break;
      }
    }
    out_ += "}";
  }

  const Module& m_;
  std::string out_;
};

}  // namespace

std::string to_string(Elements elements) {
  std::string out = "[";
  for (size_t i = 0; i < elements->items.size(); ++i) out += (i ? ", " : "") + scalar_text(elements->items[i]);
  return out + "]";
}

std::string print(const Module& module) { return Printer(module).run(); }

}  // namespace roofcast
