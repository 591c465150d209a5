#include "ops/user_ops.h"

#include "support/diagnostic.h"
#include "support/toml.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace roofcast {
namespace {

constexpr uintmax_t largest_file = 1 << 20;
constexpr int size_depth = 16;  // of sizes that depend on other sizes

std::optional<size_t> to_index(std::string_view text) {
  size_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = fault == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole ? std::optional(value) : std::nullopt;
}

// What a name in a formula may stand for.
struct NameParts {
  enum class Kind { loop, attribute, size, dim, bytes_in, bytes_out } kind;
  size_t first = 0, second = 0;  // operand and dim; row and element
};

std::optional<NameParts> find_name(const UserOp& op, std::string_view name) {
  using Kind = NameParts::Kind;
  if (std::find(op.loops.begin(), op.loops.end(), name) != op.loops.end())
    return NameParts{Kind::loop};
  for (size_t i = 0; i < op.sizes.size(); ++i)
    if (op.sizes[i].first == name) return NameParts{Kind::size, i};
  const size_t dot = std::min(name.find('.'), name.size());
  const auto element = to_index(name.substr(std::min(dot + 1, name.size())));
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const UserOp::AttributeDefault& a = op.attributes[i];
    if (a.name == name && !a.is_list) return NameParts{Kind::attribute, i};
    if (a.is_list && a.name == name.substr(0, dot) && element)
      return NameParts{Kind::attribute, i, *element};
  }
  if (name.starts_with("in") && element)
    if (const auto input = to_index(name.substr(2, dot - 2)))
      return NameParts{Kind::dim, *input, *element};
  if (name.starts_with("bytes_in"))
    if (const auto input = to_index(name.substr(8))) return NameParts{Kind::bytes_in, *input};
  if (name.starts_with("bytes_out"))
    if (const auto output = to_index(name.substr(9))) return NameParts{Kind::bytes_out, *output};
  return std::nullopt;
}

// A formula over one instance. `access` may still lack the sizes that `op.sizes` gives.
class Formulas {
public:
  Formulas(const OpView& view, const Access& access)
      : view_(view), op_(*view.instance.op->user), access_(access) {}

  Expr value(std::string_view formula) const {
    if (depth_ > size_depth) return {};
    ++depth_;
    const auto e = parse_expr(formula, [this](std::string_view name) { return resolve(name); });
    --depth_;
    return e.value_or(Expr());
  }

private:
  Expr resolve(std::string_view name) const {
    const auto parts = find_name(op_, name);
    if (!parts) return {};
    switch (parts->kind) {
    case NameParts::Kind::loop: return loop(name);
    case NameParts::Kind::size: return value(op_.sizes[parts->first].second);
    case NameParts::Kind::attribute: return attribute(op_.attributes[parts->first], parts->second);
    case NameParts::Kind::bytes_in: return view_.bytes(parts->first);
    case NameParts::Kind::bytes_out: return view_.output_bytes(parts->first);
    case NameParts::Kind::dim: break;
    }
    const bool there = view_.ranked(parts->first) && parts->second < view_.rank(parts->first);
    return there ? view_.dim(parts->first, parts->second) : Expr();
  }

  // The loop of this name, or the product of those of a list.
  Expr loop(std::string_view name) const {
    for (const Factor& f : access_.factors)
      if (f.name == name && f.size.is_known()) return f.size;
    for (const auto& [size, formula] : op_.sizes)
      if (size == name) return value(formula);
    if (access_.empty()) return {};
    Expr product = 1;
    for (const Factor& f : access_.factors) {
      if (f.name == name) return {};
      if (f.name.starts_with(name) && to_index(std::string_view(f.name).substr(name.size())))
        product *= f.size;
    }
    return product;
  }

  Expr attribute(const UserOp::AttributeDefault& a, size_t element) const {
    if (!a.is_list) return view_.integer(a.name, a.values[0]);
    const auto given = view_.integers(a.name);
    const std::vector<int64_t>& values = given ? *given : a.values;
    return element < values.size() ? Expr(values[element]) : Expr();
  }

  const OpView& view_;
  const UserOp& op_;
  const Access& access_;
  mutable int depth_ = 0;
};

// The access with sizes from formulas; a dim made of several loops then gives the last one.
AccessResult user_access(const OpView& v) {
  const UserOp& op = *v.instance.op->user;
  AccessResult r = bind_notation(v, op.access);
  if (!r.fault.empty() || r.access.empty()) return r;
  while (r.access.inputs.size() < v.input_count()) r.access.inputs.emplace_back().outside = true;
  const Formulas formulas(v, r.access);
  for (Factor& f : r.access.factors)
    if (!f.size.is_known())
      for (const auto& [name, formula] : op.sizes)
        if (f.name == name) f.size = formulas.value(formula);
  for (size_t i = 0; i < r.access.inputs.size(); ++i) {
    const OperandMap& map = r.access.inputs[i];
    if (map.outside || !v.ranked(i) || v.rank(i) != map.dims.size()) continue;
    for (size_t d = 0; d < map.dims.size(); ++d) {
      if (map.dims[d].kind != DimMap::Kind::product) continue;
      Expr rest = 1;
      Factor* open = nullptr;
      size_t unknown = 0;
      for (uint8_t f : map.dims[d].factors) {
        if (r.access.factors[f].size.is_known()) rest *= r.access.factors[f].size;
        else open = &r.access.factors[f], ++unknown;
      }
      if (unknown == 1) open->size = floor_div(v.dim(i, d), rest);
    }
  }
  return r;
}

void infer_user(InferContext& c) {
  const UserOp& op = *c.instance.op->user;
  const AccessResult r = user_access(c);
  if (!r.fault.empty())
    return c.fail(r.code, r.fault, "its access is \"" + op.access + "\"");
  for (size_t i = 0; i < c.output_count(); ++i) {
    const UserOp::OutputType type = i < op.dtypes.size() ? op.dtypes[i] : UserOp::OutputType{};
    const DType dtype = type.named != DType::undefined ? type.named : c.dtype(type.input);
    if (dtype == DType::undefined) continue;
    if (i < r.access.outputs.size() && !r.access.outputs[i].outside)
      c.output(i, dtype, dims_of(r.access, r.access.outputs[i]));
    else c.output_unranked(i, dtype);
  }
}

void user_work(const OpView& v, Work& w) {
  const UserOp& op = *v.instance.op->user;
  const Formulas formulas(v, w.access);
  w.matrix_flops = formulas.value(op.matrix_flops);
  w.vector_flops = formulas.value(op.vector_flops);
  auto all_in_one = [&](std::vector<Expr>& amounts, const std::optional<std::string>& formula) {
    if (!formula || amounts.empty()) return;
    std::fill(amounts.begin(), amounts.end(), Expr(0));
    amounts[0] = formulas.value(*formula);
  };
  all_in_one(w.reads, op.bytes_read), all_in_one(w.writes, op.bytes_written);
}

// ---- Reading the file.

class Reader {
public:
  Reader(std::string file, UserOps& out) : file_(std::move(file)), out_(out) {}
  std::optional<Diagnostic> fault;

  void read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (key.str() != "op" || !node.is_array_of_tables())
        return fail(key.source(), "no key \"" + std::string(key.str()) + "\" here",
                    "[[op]] begins an op");
      for (const toml::node& item : *node.as_array())
        if (!fault) read_op(*item.as_table());
    }
    if (!fault && out_.ops.empty()) fail({}, "no op in the file", "[[op]] begins one");
  }

private:
  void fail(const toml::source_region& at, std::string message, std::string hint = {}) {
    if (fault) return;
    Where where{.file = file_};
    if (at.begin.line) where.line = at.begin.line;
    fault = roofcast::error("ops-key", std::move(message), std::move(where), std::move(hint));
  }

  std::optional<std::string> text(const toml::node& node) {
    const auto value = node.is_string() ? node.value<std::string>() : std::nullopt;
    if (!value) fail(node.source(), "a text is wanted here", "in quotes");
    return value;
  }

  void read_op(const toml::table& table) {
    UserOp& op = out_.ops.emplace_back();
    std::vector<std::pair<const toml::node*, std::string>> formulas;
    bool counted = false;
    auto formula = [&](const toml::node& node) {
      const auto value = text(node);
      if (value) formulas.push_back({&node, *value});
      return value;
    };
    for (const auto& [key, node] : table) {
      const std::string_view k = key.str();
      if (k == "domain") op.domain = text(node).value_or("");
      else if (k == "name") op.name = text(node).value_or("");
      else if (k == "source") op.source = text(node).value_or("");
      else if (k == "kind") read_kind(node, op);
      else if (k == "access") read_access(node, op);
      else if (k == "since") {
        op.row.since = static_cast<int>(node.value<int64_t>().value_or(0));
        if (op.row.since < 1) fail(node.source(), "since is the opset it begins with", "since = 1");
      } else if (k == "dtypes") read_dtypes(node, op);
      else if (k == "attributes") read_attributes(node, op);
      else if (k == "sizes") {
        if (!node.is_table()) fail(node.source(), "sizes is a table", "sizes = { n = \"2*k\" }");
        else
          for (const auto& [size, value] : *node.as_table())
            if (const auto f = formula(value)) op.sizes.push_back({std::string(size.str()), *f});
      } else if (k == "matrix_flops") op.matrix_flops = formula(node).value_or("0"), counted = true;
      else if (k == "vector_flops") op.vector_flops = formula(node).value_or("0"), counted = true;
      else if (k == "bytes_read") op.bytes_read = formula(node);
      else if (k == "bytes_written") op.bytes_written = formula(node);
      else {
        static const std::vector<std::string> known = {
            "domain",     "name",          "since",  "kind",         "access",
            "attributes", "sizes",         "dtypes", "matrix_flops", "vector_flops",
            "bytes_read", "bytes_written", "source"};
        std::string near;
        for (const std::string& n : nearest_names(k, known)) near += (near.empty() ? "" : ", ") + n;
        fail(key.source(), "no key \"" + std::string(k) + "\"",
             near.empty() ? "" : "near: " + near);
      }
    }
    if (op.name.empty()) fail(table.source(), "the op has no name", "name = \"MyOp\"");
    if (op.access.empty())
      fail(table.source(), op.name + " has no access", "access = \"b.., b.. -> b..\"");
    if (!counted)
      fail(table.source(), op.name + " has no cost",
           "vector_flops = \"b\", or \"0\" if it has none");
    for (const auto& [node, value] : formulas) check(*node, op, value);
    if (!fault) finish(op);
  }

  void read_kind(const toml::node& node, UserOp& op) {
    const auto value = text(node);
    if (!value) return;
    std::string all;
    for (int i = 0; i < kind_count; ++i) {
      const auto kind = static_cast<Kind>(i);
      if (kind == Kind::control || kind == Kind::collective || kind == Kind::opaque) continue;
      if (name(kind) == *value) {
        op.row.kind = kind;
        return;
      }
      all += (all.empty() ? "" : ", ") + std::string(name(kind));
    }
    fail(node.source(), "no kind \"" + *value + "\"", "one of " + all);
  }

  void read_access(const toml::node& node, UserOp& op) {
    const auto value = text(node);
    if (!value) return;
    NotationCheck checked = check_notation(*value);
    if (!checked.fault.empty())
      return fail(node.source(), "access: " + checked.fault, "docs/custom-ops.md tells its form");
    op.access = *value, op.loops = std::move(checked.names);
  }

  void read_dtypes(const toml::node& node, UserOp& op) {
    const toml::array* list = node.as_array();
    if (!list) return fail(node.source(), "dtypes is a list", "dtypes = [0, \"float32\"]");
    for (const toml::node& item : *list) {
      const int64_t input = item.is_integer() ? item.value_or(int64_t{-1}) : -1;
      const auto type = dtype_from_name(item.is_string() ? item.value_or(std::string_view()) : "");
      if (input >= 0 && input < 256)
        op.dtypes.push_back({static_cast<size_t>(input), DType::undefined});
      else if (type) op.dtypes.push_back({0, *type});
      else
        fail(item.source(), "no element type", "an input's number, or a name such as \"float16\"");
    }
  }

  void read_attributes(const toml::node& node, UserOp& op) {
    const toml::table* table = node.as_table();
    if (!table)
      return fail(node.source(), "attributes is a table of defaults", "attributes = { heads = 8 }");
    for (const auto& [key, value] : *table) {
      UserOp::AttributeDefault& a = op.attributes.emplace_back();
      a.name = key.str(), a.is_list = value.is_array();
      auto add = [&](const toml::node& item) {
        const auto number = item.is_integer() ? item.value<int64_t>() : std::nullopt;
        if (number) a.values.push_back(*number);
        else fail(item.source(), "a whole number is wanted here", "formulas use integers only");
      };
      if (!a.is_list) add(value);
      else
        for (const toml::node& item : *value.as_array()) add(item);
    }
  }

  // Every name must be known, and the formula must be one.
  void check(const toml::node& node, const UserOp& op, const std::string& formula) {
    std::string unknown;
    ExprPool scratch;
    const auto parsed = parse_expr(formula, [&](std::string_view name) {
      if (!find_name(op, name) && unknown.empty()) unknown = name;
      return scratch.symbol(name);
    });
    if (!unknown.empty())
      return fail(node.source(), "\"" + unknown + "\" is no loop, size or attribute of " + op.name,
                  "inputs' dims are in0.0, in0.1, …");
    if (!parsed)
      fail(node.source(), "\"" + formula + "\" does not read as a formula",
           "+ - * // %, min, max, brackets; a quotient is // (rounded down)");
  }

  static void finish(UserOp& op) {
    op.formula = "matrix " + op.matrix_flops + "; vector " + op.vector_flops;
    if (op.bytes_read || op.bytes_written)
      op.formula += "; bytes " + op.bytes_read.value_or("inputs") + " + " +
                    op.bytes_written.value_or("outputs");
    if (op.row.kind == Kind::opaque) op.row.kind = Kind::pointwise;
    op.row.domain = op.domain, op.row.name = op.name, op.row.access = op.access;
    op.row.formula = op.formula, op.row.source = op.source;
    op.row.access_rule = user_access, op.row.infer = infer_user, op.row.work = user_work;
    op.row.user = &op;
  }

  std::string file_;
  UserOps& out_;
};

}  // namespace

Result<std::shared_ptr<const UserOps>> load_user_ops(const std::string& file) {
  std::error_code ignored;
  const bool regular = std::filesystem::is_regular_file(file, ignored);
  std::ifstream stream(file, std::ios::binary);
  if (!stream || !regular)
    return error("file-missing", "cannot be read", {.file = file}, "check the path");
  if (std::filesystem::file_size(file, ignored) > largest_file)
    return error("ops-key", "larger than a file of custom ops can be", {.file = file},
                 "is this the right file?");
  std::stringstream text;
  text << stream.rdbuf();
  const toml::parse_result parsed = toml::parse(text.str(), file);
  if (!parsed)
    return error("ops-key", std::string(parsed.error().description()),
                 {.file = file, .line = parsed.error().source().begin.line},
                 "see https://toml.io for the syntax");
  auto ops = std::make_shared<UserOps>();
  Reader reader(file, *ops);
  reader.read(parsed.table());
  if (reader.fault) return std::move(*reader.fault);
  return std::shared_ptr<const UserOps>(std::move(ops));
}

}  // namespace roofcast
