#include "ir/latex.h"

#include <cstdlib>

namespace roofcast {
namespace {

std::string symbol_name(const std::string& name) {
  std::string out = "\\mathit{";
  for (char c : name) {
    if (c == '_' || c == '#' || c == '%' || c == '&' || c == '$' || c == '{' || c == '}') out += '\\', out += c;
    else if (c == '\\') out += "\\backslash{}";
    else if (c == '~' || c == '^') out += "\\", out += c, out += "{}";
    else out += c;
  }
  return out + "}";
}

class Writer {
public:
  explicit Writer(const ExprPool& pool) : pool_(pool) {}

  std::string write(Expr e) const {
    if (e.is_constant()) return std::to_string(e.constant());
    const ExprNode* n = e.node();
    if (!n) return "?";
    switch (n->kind) {
    case ExprKind::symbol: return symbol_name(pool_.info(n->symbol).name);
    case ExprKind::sum: return sum(*n);
    case ExprKind::product: {
      std::string out;
      for (size_t i = 0; i < n->args.size();) {
        size_t power = 1;
        while (i + power < n->args.size() && n->args[i + power] == n->args[i]) ++power;
        out += (out.empty() ? "" : "\\,") + factor(n->args[i]);
        if (power > 1) out += "^{" + std::to_string(power) + "}";
        i += power;
      }
      return out;
    }
    case ExprKind::floor_div: return "\\left\\lfloor\\frac{" + write(n->args[0]) + "}{" + write(n->args[1]) + "}\\right\\rfloor";
    case ExprKind::min: return call("\\min", *n);
    case ExprKind::max: return call("\\max", *n);
    }
    return "?";
  }

private:
  std::string sum(const ExprNode& n) const {
    std::string out;
    auto term = [&](int64_t coefficient, const std::string& text) {
      if (coefficient < 0) out += out.empty() ? "-" : " - ";
      else if (!out.empty()) out += " + ";
      const std::string size = std::to_string(std::llabs(coefficient));
      out += text.empty() ? size : size == "1" ? text : size + "\\," + text;
    };
    for (const ExprTerm& t : n.terms) term(t.coefficient, factor(t.monomial));
    if (n.constant) term(n.constant, "");
    return out;
  }
  std::string factor(Expr e) const {
    const ExprNode* n = e.node();
    return n && n->kind == ExprKind::sum ? "\\left(" + write(e) + "\\right)" : write(e);
  }
  std::string call(const char* name, const ExprNode& n) const {
    std::string out = std::string(name) + "\\left(";
    for (size_t i = 0; i < n.args.size(); ++i) out += (i ? ", " : "") + write(n.args[i]);
    return out + "\\right)";
  }

  const ExprPool& pool_;
};

}  // namespace

std::string latex(Expr e, const ExprPool& pool) { return Writer(pool).write(e); }

}  // namespace roofcast
