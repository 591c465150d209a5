#include "frontend/inputs.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace roofcast {

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) ++p, ++t;
    else if (p < pattern.size() && pattern[p] == '*') star = p++, from = t;
    else if (star != std::string_view::npos) p = star + 1, t = ++from;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::optional<int64_t> SymbolSettings::find(std::string_view symbol) const {
  for (const auto& [name, value] : options_.set)
    if (name == symbol) return value;
  for (const auto& [name, value] : options_.set)
    if (name.find_first_of("*?") != std::string::npos && glob_match(name, symbol)) return value;
  return std::nullopt;
}

namespace {

Diagnostic contradiction(const Module& m, const std::string& what) {
  return error("shape-contradicts", what, {.file = m.file}, "check --shape");
}

const std::vector<int64_t>* find_entry(const std::vector<std::pair<std::string, std::vector<int64_t>>>& list, std::string_view name) {
  for (const auto& [key, value] : list)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace

Status bind_inputs(Module& m, const LoadOptions& options, Bindings& solved) {
  const std::vector<ValueId> inputs = m.main().inputs;
  std::vector<std::string> names;
  for (ValueId v : inputs) names.emplace_back(m.names[m[v].name]);
  for (const auto* list : {&options.shapes, &options.values})
    for (const auto& [name, value] : *list)
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        const std::vector<std::string> near = nearest_names(name, names);
        std::string hint = near.empty() ? "inputs:" : "near:";
        for (const std::string& n : near.empty() ? names : near) hint += " " + n;
        return error("usage", "no input is called \"" + name + "\"", {.file = m.file}, hint);
      }

  // Linear equations first; dims like (samples//5) - 1 are only checked, once their symbols are known.
  for (int round = 0; round < 2; ++round) {
    for (ValueId v : inputs) {
      const std::string_view name = m.names[m[v].name];
      const std::vector<int64_t>* shape = find_entry(options.shapes, name);
      if (!shape) continue;
      const Type type = m[v].type;
      if (!type || !type->is_tensor()) return contradiction(m, "input \"" + std::string(name) + "\" is no tensor");
      if (!type->ranked) continue;
      if (type->dims.size() != shape->size())
        return error("rank-mismatch", "input \"" + std::string(name) + "\" has " + std::to_string(type->dims.size()) + " dims in the file, " + std::to_string(shape->size()) + " in --shape", {.file = m.file}, "the file says " + to_string(type));
      for (size_t d = 0; d < shape->size(); ++d) {
        const Expr dim = substitute(type->dims[d], solved);
        const int64_t wanted = (*shape)[d];
        if (dim.is_constant()) {
          if (dim.constant() != wanted)
            return contradiction(m, "dim " + std::to_string(d) + " of input \"" + std::string(name) + "\" is " + type->dims[d].text() + (type->dims[d].is_constant() ? "" : " = " + dim.text()) + " in the file, " + std::to_string(wanted) + " in --shape");
        } else if (const auto solution = solve_linear(dim, wanted, solved)) {
          if (solution->second < 0) return contradiction(m, dim.text() + " = " + std::to_string(wanted) + " has no solution of a size");
          solved.set(solution->first, solution->second);
        }
      }
    }
  }
  for (ValueId v : inputs) {
    const std::string_view name = m.names[m[v].name];
    const Type type = m[v].type;
    if (const std::vector<int64_t>* shape = find_entry(options.shapes, name)) {
      m[v].type = m.tensor(type->dtype, {shape->begin(), shape->end()});
    } else if (type && type->is_tensor() && type->ranked) {
      std::vector<Expr> dims;
      for (Expr d : type->dims) dims.push_back(substitute(d, solved));
      m[v].type = m.tensor(type->dtype, std::move(dims));
    }
    if (const std::vector<int64_t>* values = find_entry(options.values, name)) {
      if (values->size() > limits::known_elements) return error("usage", "--value " + std::string(name) + " has too many elements");
      std::vector<Scalar> items;
      for (int64_t i : *values) items.push_back(Scalar::integer(i));
      if (m[v].type && m[v].type->is_tensor() && m[v].type->ranked && m[v].type->dims.size() == 1 && !m[v].type->dims[0].is_constant())
        m[v].type = m.tensor(m[v].type->dtype, {static_cast<int64_t>(items.size())});
      const Expr count = m[v].type ? m[v].type->elements() : Expr();
      if (count.is_constant() && count != Expr(static_cast<int64_t>(items.size())))
        return error("usage", "--value " + std::string(name) + " gives " + std::to_string(items.size()) + " elements, the input has " + count.text(), {.file = m.file});
      m[v].elements = m.elements(std::move(items));
    }
  }
  // Types written in terms of symbols that are known now.
  for (Value& value : m.values) {
    const Type declared = value.declared;
    if (!declared || !declared->is_tensor() || !declared->ranked) continue;
    std::vector<Expr> dims;
    for (Expr d : declared->dims) dims.push_back(substitute(d, solved));
    value.declared = m.tensor(declared->dtype, std::move(dims));
  }
  return Ok{};
}

Status bind_symbols(Module& m, const LoadOptions& options) {
  std::vector<std::string> names;
  std::vector<bool> used(options.set.size());
  for (SymbolId id = 0; id < m.exprs.symbol_count(); ++id) {
    const Symbol& symbol = m.exprs.info(id);
    names.push_back(symbol.name);
    // The exact name wins over a glob, an earlier setting over a later one.
    std::optional<size_t> best;
    for (size_t i = 0; i < options.set.size(); ++i) {
      const std::string& wanted = options.set[i].first;
      auto fits = [&](const std::string& name) { return glob_match(wanted, name); };
      if (!fits(symbol.name) && std::none_of(symbol.aliases.begin(), symbol.aliases.end(), fits)) continue;
      used[i] = true;
      if (!best || wanted == symbol.name) best = i;
    }
    if (best && !m.bound.get(id)) m.bound.set(id, options.set[*best].second);
  }
  for (size_t i = 0; i < options.set.size(); ++i) {
    const auto& [name, value] = options.set[i];
    if (value < 0) return error("usage", "--set " + name + " is negative", {.file = m.file}, "a size is 0 or more");
    if (used[i]) continue;
    std::vector<std::string> near = nearest_names(name, names);
    if (near.empty()) near.assign(names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(names.size(), 5)));
    std::string hint = names.empty() ? "it has none" : "near:";
    for (const std::string& n : near) hint += " " + n;
    return error("symbol-unknown", "no symbol is called \"" + name + "\"", {.file = m.file}, hint);
  }
  return Ok{};
}

}  // namespace roofcast
