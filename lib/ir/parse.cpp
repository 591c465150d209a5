#include "ir/print.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace roofcast {
namespace {

class Parser {
public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file), module_(std::make_unique<Module>()), m_(*module_) { m_.file = file; }

  Result<std::unique_ptr<Module>> run() {
    header();
    m_.graph_name = string();
    scopes_.emplace_back();
    if (!fault_) region(RegionId{0}, 0);
    skip();
    if (!fault_ && at_ != text_.size()) fail("more text than one graph");
    if (fault_) return std::move(*fault_);
    return std::move(module_);
  }

private:
  // ---- Lexing. After a fault everything reads as empty, so that parsing ends.

  void fail(const std::string& what) {
    if (fault_) return;
    const size_t end = std::min(at_, text_.size());
    fault_ = error("ir-syntax", what, {.file = file_, .line = 1 + static_cast<uint64_t>(std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(end), '\n'))},
                   "lib/ir/print.h shows the form");
    at_ = text_.size();
  }
  void skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
      else if (text_.substr(at_, 2) == "//") at_ = std::min(text_.find('\n', at_), text_.size());
      else break;
    }
  }
  bool peek(std::string_view token) {
    skip();
    return text_.substr(at_, token.size()) == token;
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_.$/-").find(c) != std::string_view::npos; }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    // A word must end here.
    if (is_word(token.back()) && at_ + token.size() < text_.size() && is_word(text_[at_ + token.size()]) && std::isalpha(static_cast<unsigned char>(token[0]))) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!fault_ && !accept(token)) fail("\"" + std::string(token) + "\" is wanted before \"" + std::string(text_.substr(at_, 20)) + "\"");
  }
  std::string_view word() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == from) fail("a name is wanted before \"" + std::string(text_.substr(at_, 20)) + "\"");
    return text_.substr(from, at_ - from);
  }
  std::string string() {
    expect("\"");
    std::string out;
    while (!fault_) {
      if (at_ >= text_.size() || text_[at_] == '\n') {
        fail("a text lacks its closing quote");
        break;
      }
      const char c = text_[at_++];
      if (c == '"') break;
      if (c != '\\') {
        out += c;
      } else if (text_.substr(at_, 1) == "x" && at_ + 3 <= text_.size()) {
        int byte = 0;
        std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, byte, 16);
        out += static_cast<char>(byte);
        at_ += 3;
      } else if (at_ < text_.size()) {
        out += text_[at_++];
      }
    }
    return out;
  }
  std::string name() { return peek("\"") ? string() : std::string(word()); }
  int64_t integer() {
    skip();
    int64_t v = 0;
    const auto [end, fault] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (fault != std::errc()) fail("a whole number is wanted before \"" + std::string(text_.substr(at_, 20)) + "\"");
    else at_ = static_cast<size_t>(end - text_.data());
    return v;
  }
  double real() {
    skip();
    double v = 0;
    const auto [end, fault] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (fault != std::errc()) fail("a number is wanted before \"" + std::string(text_.substr(at_, 20)) + "\"");
    else at_ = static_cast<size_t>(end - text_.data());
    return v;
  }
  std::string_view own(const std::string& text) { return m_.names[m_.names.own(text)]; }

  // The text up to a comma or closing bracket outside of brackets and backquotes.
  std::string_view item() {
    skip();
    const size_t from = at_;
    int depth = 0;
    bool quoted = false;
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char c = text_[at_];
      if (c == '`') quoted = !quoted;
      else if (quoted) {}
      else if (c == '(') ++depth;
      else if (c == ')' && depth > 0) --depth;
      else if (depth == 0 && (c == ',' || c == ']' || c == ')')) break;
      ++at_;
    }
    std::string_view out = text_.substr(from, at_ - from);
    while (!out.empty() && out.back() == ' ') out.remove_suffix(1);
    return out;
  }

  Expr expression(std::string_view text) {
    if (text == "?") return {};
    int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault == std::errc() && end == text.data() + text.size()) return number;
    const auto e = parse_expr(text, m_.exprs, SymbolOrigin::input_dim);
    if (!e) fail("\"" + std::string(text) + "\" is no expression");
    return e.value_or(Expr());
  }

  // "3", "batch + 1", "(batch)/2", "0.5", "?"
  Scalar scalar(std::string_view text) {
    if (text == "?") return {};
    if (const size_t slash = text.rfind(")/"); slash != text.npos && text.starts_with("(")) {
      int64_t den = 0;
      const auto [end, fault] = std::from_chars(text.data() + slash + 2, text.data() + text.size(), den);
      if (fault == std::errc() && end == text.data() + text.size() && den > 0)
        return {Scalar::Kind::rational, expression(text.substr(1, slash - 1)), den, 0};
    }
    double v = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (fault == std::errc() && end == text.data() + text.size() && text.find_first_of(".einf") != text.npos) return {Scalar::Kind::real, {}, 1, v};
    return Scalar::integer(expression(text));
  }
  Elements elements() {
    std::vector<Scalar> items;
    expect("[");
    while (!fault_ && !accept("]")) {
      if (!items.empty()) expect(",");
      items.push_back(scalar(item()));
    }
    return m_.elements(std::move(items));
  }

  // "f32[batch, 3]", "i64[*]", "seq(f32[*])", "optional(…)", "map(i64, f32[])", "sparse f32[3]", "?"
  Type type(int depth = 0) {
    if (depth > limits::nesting_depth) return fail("types nest too deeply"), nullptr;
    if (accept("?")) return nullptr;
    TypeNode node;
    if (accept("seq(") || accept("optional(")) {
      node.kind = text_.substr(at_ - 4, 4) == "seq(" ? TypeKind::sequence : TypeKind::optional;
      node.element = type(depth + 1);
      expect(")");
      return m_.type(std::move(node));
    }
    if (accept("map(")) {
      node.kind = TypeKind::map;
      node.dtype = dtype();
      expect(",");
      node.element = type(depth + 1);
      expect(")");
      return m_.type(std::move(node));
    }
    if (accept("sparse")) node.kind = TypeKind::sparse_tensor;
    node.dtype = dtype();
    expect("[");
    if (accept("*")) {
      expect("]");
      return m_.type(std::move(node));
    }
    node.ranked = true;
    while (!fault_ && !accept("]")) {
      if (!node.dims.empty()) expect(",");
      node.dims.push_back(expression(item()));
      if (node.dims.size() > limits::rank) fail("more than " + std::to_string(limits::rank) + " dims");
    }
    return m_.type(std::move(node));
  }
  DType dtype() {
    const std::string_view text = word();
    const auto d = dtype_from_name(text);
    if (!d && !fault_) fail("\"" + std::string(text) + "\" is no element type");
    return d.value_or(DType::undefined);
  }

  // ---- Structure

  void header() {
    while (!fault_) {
      if (accept("producer")) m_.producer = string();
      else if (accept("ir")) m_.ir_version = integer();
      else if (accept("opset")) {
        const std::string domain = string();
        m_.opsets[domain] = integer();
      } else if (accept("devices")) {
        const std::string device = string();
        m_.device_configurations.push_back({device, std::to_string(integer())});
      } else {
        expect("graph");
        expect("@");
        return;
      }
    }
  }

  NameId value_name() {
    expect("%");
    return m_.names.own(name());
  }
  ValueId define(RegionId region, NameId name, Storage storage, Type declared) {
    Value v;
    v.name = name, v.region = region, v.storage = storage, v.declared = declared;
    const ValueId id = m_.add_value(v);
    if (!scopes_.back().try_emplace(name.index, id).second) fail("two values are called \"" + std::string(m_.names[name]) + "\"");
    return id;
  }
  ValueId find(NameId name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto at = scope->find(name.index); at != scope->end()) return at->second;
    fail("nothing makes \"" + std::string(m_.names[name]) + "\"");
    return {};
  }

  void region(RegionId id, int depth) {
    if (depth > limits::nesting_depth) return fail("bodies nest too deeply");
    expect("(");
    while (!fault_ && !accept(")")) {
      if (!m_.regions[id.index].inputs.empty()) expect(",");
      const NameId name = value_name();
      expect(":");
      const Type t = type();
      const ValueId v = define(id, name, Storage::input, t);
      m_[v].type = t;
      if (accept("=")) m_[v].elements = elements();
      m_.regions[id.index].inputs.push_back(v);
    }
    expect("->");
    expect("(");
    std::vector<NameId> outputs;
    while (!fault_ && !accept(")")) {
      if (!outputs.empty()) expect(",");
      outputs.push_back(accept("_") ? NameId{} : value_name());
    }
    if (accept("trips")) {
      expect("[");
      const Expr trips = expression(item());
      m_.regions[id.index].trips = trips;
      expect("]");
    }
    expect("{");
    while (!fault_ && !accept("}")) {
      if (accept("weight") || accept("const")) initializer(id);
      else node(id, depth);
    }
    for (NameId name : outputs)
      if (!fault_) {
        const ValueId v = name.valid() ? find(name) : ValueId{};
        m_.regions[id.index].outputs.push_back(v);
      }
  }

  void initializer(RegionId id) {
    const NameId name = value_name();
    expect(":");
    const Type t = type();
    const ValueId v = define(id, name, Storage::weight, t);
    m_[v].type = t;
    expect("bytes");
    m_[v].stored_bytes = static_cast<uint64_t>(std::max<int64_t>(0, integer()));
    if (accept("=")) m_[v].elements = elements();
  }

  void node(RegionId region_id, int depth) {
    std::vector<NameId> output_names;
    while (!fault_ && !accept("=")) {
      if (!output_names.empty()) expect(",");
      output_names.push_back(accept("_") ? NameId{} : value_name());
    }
    Node n;
    n.region = region_id;
    std::string op = name(), domain;
    if (accept("::")) domain = std::exchange(op, name());
    n.op_type = m_.names.own(op), n.domain = m_.names.own(domain);
    expect("(");
    std::vector<ValueId> inputs;
    for (bool first = true; !fault_ && !accept(")"); first = false) {
      if (!first) expect(",");
      inputs.push_back(accept("_") ? ValueId{} : find(value_name()));
    }
    AttributeList list = attributes();
    std::vector<Type> types;
    if (accept(":"))
      for (size_t i = 0; i < output_names.size() && !fault_; ++i) {
        if (i) expect(",");
        types.push_back(type());
      }
    types.resize(output_names.size());
    int opset = m_.opset(domain);
    std::string sharding;
    while (!fault_) {
      if (accept("@")) n.name = m_.names.own(string());
      else if (accept("in")) n.scope = m_.names.own(string());
      else if (accept("opset")) opset = static_cast<int>(std::clamp<int64_t>(integer(), 1, 1 << 20));
      else if (accept("backward")) n.phase = Phase::backward;
      else if (accept("optimizer")) n.phase = Phase::optimizer;
      else if (accept("stage")) n.stage = static_cast<uint16_t>(integer());
      else if (accept("sharding")) sharding = string();
      else break;
    }
    if (inputs.size() > limits::operands || output_names.size() > limits::operands) fail("too many operands");
    std::vector<RegionId> bodies;
    while (!fault_ && accept("body")) {
      const RegionId body{static_cast<uint32_t>(m_.regions.size())};
      m_.regions.emplace_back().name = m_.names.own(string());
      bodies.push_back(body);
      scopes_.emplace_back();
      region(body, depth + 1);
      scopes_.pop_back();
      if (bodies.size() > 200) fail("too many bodies");
    }
    if (fault_) return;
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < output_names.size(); ++i)
      outputs.push_back(output_names[i].valid() ? define(region_id, output_names[i], Storage::activation, types[i]) : ValueId{});
    const NodeId id = m_.add_node(n, list, inputs, outputs, bodies);
    for (RegionId body : bodies) m_.regions[body.index].owner = id;
    m_.node_opsets.push_back(opset);
    if (!sharding.empty()) m_.node_shardings[id.index] = std::move(sharding);
    m_.regions[region_id.index].nodes.push_back(id);
    if (m_.nodes.size() > limits::nodes) fail("more than " + std::to_string(limits::nodes) + " nodes");
  }

  AttributeList attributes() {
    std::vector<Attribute> items;
    if (!accept("{")) return m_.attribute_list({});
    while (!fault_ && !accept("}")) {
      if (!items.empty()) expect(",");
      Attribute a;
      a.name = m_.names.own(name());
      expect("=");
      attribute(a);
      items.push_back(std::move(a));
    }
    return m_.attribute_list(std::move(items));
  }

  template <class F> void list(F&& each) {
    expect("[");
    for (bool first = true; !fault_ && !accept("]"); first = false) {
      if (!first) expect(",");
      each();
    }
  }

  void attribute(Attribute& a) {
    if (peek("\"")) a.kind = Attribute::Kind::string, a.s = own(string());
    else if (accept("none")) a.kind = Attribute::Kind::none;
    else if (accept("real")) a.kind = Attribute::Kind::real, a.f = real();
    else if (accept("ints")) a.kind = Attribute::Kind::integers, list([&] { a.ints.push_back(integer()); });
    else if (accept("reals")) a.kind = Attribute::Kind::reals, list([&] { a.floats.push_back(real()); });
    else if (accept("strings")) a.kind = Attribute::Kind::strings, list([&] { a.strings.push_back(own(string())); });
    else if (accept("graphs")) a.kind = Attribute::Kind::graphs, list([&] { a.regions.push_back(static_cast<uint32_t>(integer())); });
    else if (accept("graph")) a.kind = Attribute::Kind::graph, list([&] { a.regions.push_back(static_cast<uint32_t>(integer())); });
    else if (accept("tensors")) a.kind = Attribute::Kind::tensors;
    else if (accept("type")) a.kind = Attribute::Kind::type, a.type = type();
    else if (accept("reference")) a.kind = Attribute::Kind::reference, a.s = own(string());
    else if (accept("tensor")) {
      a.kind = Attribute::Kind::tensor, a.tensor.type = type();
      expect("bytes");
      a.tensor.stored_bytes = static_cast<uint64_t>(std::max<int64_t>(0, integer()));
      if (accept("=")) a.tensor.elements = elements();
    } else a.kind = Attribute::Kind::integer, a.i = integer();
  }

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  std::unique_ptr<Module> module_;
  Module& m_;
  std::optional<Diagnostic> fault_;
  std::vector<std::unordered_map<uint32_t, ValueId>> scopes_;
};

}  // namespace

Result<std::unique_ptr<Module>> parse(std::string_view text, const std::string& file) { return Parser(text, file).run(); }

}  // namespace roofcast
