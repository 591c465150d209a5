#include "ops/access.h"

#include <algorithm>
#include <map>
#include <optional>

namespace roofcast {
namespace {

constexpr std::string_view role_names[] = {"pass", "reduce", "window", "lookup", "online", "whole", "ordered"};

// A pattern as written, before it meets types.
struct DimPattern {
  enum class Kind { product, window, list, one } kind = Kind::product;
  std::vector<std::string_view> names;
  std::optional<Role> role;  // by prefix or suffix
  bool stretches = false;    // may be one instead
};
struct OperandPattern {
  std::vector<DimPattern> dims;
  bool outside = false;
};
struct Pattern {
  std::vector<OperandPattern> inputs, outputs;
};

DimPattern parse_dim(std::string_view token) {
  DimPattern dim;
  if (token == "1") {
    dim.kind = DimPattern::Kind::one;
    return dim;
  }
  if (token[0] == '(') {
    token = token.substr(1, token.size() - 2);
    while (!token.empty()) {
      const size_t space = std::min(token.find(' '), token.size());
      dim.names.push_back(token.substr(0, space));
      token.remove_prefix(std::min(space + 1, token.size()));
    }
    return dim;
  }
  if (const size_t plus = token.find('+'); plus != token.npos) {
    dim.kind = DimPattern::Kind::window;
    dim.names = {token.substr(0, plus), token.substr(plus + 1)};
    return dim;
  }
  if (token[0] == '@') dim.role = Role::lookup, token.remove_prefix(1);
  switch (token.back()) {
  case '~': dim.role = Role::online, token.remove_suffix(1); break;
  case '!': dim.role = Role::whole, token.remove_suffix(1); break;
  case '?': dim.stretches = true, token.remove_suffix(1); break;
  case '>': dim.role = Role::ordered, token.remove_suffix(1); break;
  default: break;
  }
  if (token.ends_with("..")) dim.kind = DimPattern::Kind::list, token.remove_suffix(2);
  dim.names = {token};
  return dim;
}

OperandPattern parse_operand(std::string_view text) {
  OperandPattern operand;
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    size_t end = text[at] == '(' ? text.find(')', at) + 1 : text.find(' ', at);
    end = std::min(end, text.size());
    const std::string_view token = text.substr(at, end - at);
    if (token == ".") operand.outside = true;
    else operand.dims.push_back(parse_dim(token));
    at = end;
  }
  return operand;
}

std::vector<OperandPattern> parse_side(std::string_view text) {
  std::vector<OperandPattern> side;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    side.push_back(parse_operand(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return side;
}

Pattern parse(std::string_view text) {
  const size_t arrow = text.find("->");
  return {parse_side(text.substr(0, arrow)), parse_side(text.substr(arrow + 2))};
}

// One binding of a pattern to types: factors by name, sizes by unification.
class Binder {
public:
  Binder(const Pattern& pattern, std::span<const Type> inputs, std::span<const Type> outputs)
      : pattern_(pattern), inputs_(inputs), outputs_(outputs) {}

  AccessResult run() {
    if (!expand_lists() || !check_ranks()) return std::move(result_);
    declare_factors();
    unify_lists();
    unify_single();
    unify_composite();
    if (result_.fault.empty()) write_maps();
    else result_.access = {};
    return std::move(result_);
  }

private:
  static bool known(Type t) { return t && t->kind == TypeKind::tensor && t->ranked; }
  Type type(int side, size_t i) const {
    const auto types = side == 0 ? inputs_ : outputs_;
    return i < types.size() && known(types[i]) ? types[i] : nullptr;
  }
  const std::vector<OperandPattern>& patterns(int side) const { return side == 0 ? pattern_.inputs : pattern_.outputs; }

  void fault(std::string_view code, std::string text) {
    if (result_.fault.empty()) result_.code = code, result_.fault = std::move(text);
  }
  static std::string operand_name(int side, size_t i) { return (side == 0 ? "input " : "output ") + std::to_string(i); }

  template <class F> void each_operand(F&& f) {
    for (int side = 0; side < 2; ++side)
      for (size_t i = 0; i < patterns(side).size(); ++i)
        if (!patterns(side)[i].outside) f(side, i, patterns(side)[i]);
  }

  // How many dims each list stands for: the most that any operand leaves for it.
  bool expand_lists() {
    bool fine = true;
    each_operand([&](int side, size_t i, const OperandPattern& operand) {
      std::string_view list;
      size_t lists = 0;
      for (const DimPattern& d : operand.dims)
        if (d.kind == DimPattern::Kind::list) list = d.names[0], ++lists;
      if (lists != 1) return;
      const Type t = type(side, i);
      if (!t) {
        if (side == 0 && i < inputs_.size() && inputs_[i]) fine = false;  // rank not known
        return;
      }
      if (t->dims.size() + 1 < operand.dims.size()) {
        fault("rank-mismatch", operand_name(side, i) + " has " + std::to_string(t->dims.size()) + " dims, the op takes at least " +
                                   std::to_string(operand.dims.size() - 1));
        fine = false;
        return;
      }
      size_t& rank = list_rank_[list];
      rank = std::max(rank, t->dims.size() + 1 - operand.dims.size());
    });
    each_operand([&](int, size_t, const OperandPattern& operand) {
      for (const DimPattern& d : operand.dims)
        if (d.kind == DimPattern::Kind::list) list_rank_.try_emplace(d.names[0], 0);
    });
    return fine;
  }

  bool check_ranks() {
    each_operand([&](int side, size_t i, const OperandPattern& operand) {
      const Type t = type(side, i);
      if (!t) return;
      const bool has_list = std::any_of(operand.dims.begin(), operand.dims.end(), [](const DimPattern& d) { return d.kind == DimPattern::Kind::list; });
      if (!has_list && t->dims.size() != operand.dims.size())
        fault("rank-mismatch", operand_name(side, i) + " has " + std::to_string(t->dims.size()) + " dims, the op takes " + std::to_string(operand.dims.size()));
    });
    return result_.fault.empty();
  }

  uint8_t factor(std::string_view name) {
    for (size_t i = 0; i < factors().size(); ++i)
      if (factors()[i].name == name) return static_cast<uint8_t>(i);
    factors().push_back({.size = {}, .role = Role::pass, .name = std::string(name)});
    return static_cast<uint8_t>(factors().size() - 1);
  }
  uint8_t list_factor(std::string_view list, size_t k) { return factor(std::string(list) + std::to_string(k)); }
  std::vector<Factor>& factors() { return result_.access.factors; }

  void declare_factors() {
    std::map<std::string, int> occurs;  // bit 0: in an input, bit 1: in an output
    std::map<std::string, Role> roles;
    each_operand([&](int side, size_t, const OperandPattern& operand) {
      for (const DimPattern& d : operand.dims) {
        auto note = [&](const std::string& name, bool offset) {
          factor(name);
          occurs[name] |= 1 << side;
          if (d.role) roles[name] = *d.role;
          else if (offset) roles[name] = Role::window;
        };
        if (d.kind == DimPattern::Kind::list)
          for (size_t k = 0; k < list_rank_[d.names[0]]; ++k) note(std::string(d.names[0]) + std::to_string(k), false);
        else
          for (size_t k = 0; k < d.names.size(); ++k) note(std::string(d.names[k]), d.kind == DimPattern::Kind::window && k == 1);
      }
    });
    for (Factor& f : factors()) {
      if (auto at = roles.find(f.name); at != roles.end()) f.role = at->second;
      else f.role = occurs[f.name] == 1 ? Role::reduce : Role::pass;
    }
  }

  // Calls f(dim pattern, dim of the type, index in list or 0) for each dim of a typed operand.
  template <class F> void each_dim(int side, size_t i, F&& f) {
    const Type t = type(side, i);
    if (!t) return;
    const OperandPattern& operand = patterns(side)[i];
    size_t fixed = 0, lists = 0;
    for (const DimPattern& d : operand.dims) (d.kind == DimPattern::Kind::list ? lists : fixed) += 1;
    size_t at = 0;
    for (const DimPattern& d : operand.dims) {
      if (d.kind != DimPattern::Kind::list) {
        if (at < t->dims.size()) f(d, at++, size_t{0});
        continue;
      }
      const size_t rank = list_rank_[d.names[0]];
      const size_t present = lists == 1 ? t->dims.size() - fixed : rank;
      for (size_t k = rank - std::min(rank, present); k < rank && at < t->dims.size(); ++k) f(d, at++, k);
    }
  }

  static Expr broadcast(Expr a, Expr b) {
    if (!a.is_known()) return b;
    if (!b.is_known() || a == b || b == Expr(1)) return a;
    if (a == Expr(1)) return b;
    if (a.is_constant() != b.is_constant()) return a.is_constant() ? a : b;  // the symbol is that, or 1
    return a.is_constant() ? Expr() : max(a, b);
  }

  void unify_lists() {
    for (int side = 0; side < 2; ++side) {
      for (size_t i = 0; i < patterns(side).size(); ++i) {
        each_dim(side, i, [&](const DimPattern& d, size_t at, size_t k) {
          if (d.kind != DimPattern::Kind::list) return;
          Factor& f = factors()[list_factor(d.names[0], k)];
          const Expr dim = type(side, i)->dims[at];
          if (!dim.is_known()) return;
          if (f.size.is_known() && f.size != dim && f.size.is_constant() && dim.is_constant() && f.size != Expr(1) && dim != Expr(1)) {
            fault("dim-mismatch", "dims " + f.size.text() + " and " + dim.text() + " do not broadcast (" + operand_name(side, i) + ", dim " + std::to_string(at) + ")");
            return;
          }
          f.size = broadcast(f.size, dim);
        });
      }
    }
  }

  void set_size(uint8_t index, Expr dim, int side, size_t i, size_t at) {
    Factor& f = factors()[index];
    if (!dim.is_known()) return;
    if (!f.size.is_known() || (!f.size.is_constant() && dim.is_constant())) {
      f.size = dim;
    } else if (f.size.is_constant() && dim.is_constant() && f.size != dim) {
      fault("dim-mismatch", "dim " + f.name + " is " + f.size.text() + " elsewhere and " + dim.text() + " in " + operand_name(side, i) + " (dim " + std::to_string(at) + ")");
    }
  }

  void unify_single() {
    for (int side = 0; side < 2; ++side)
      for (size_t i = 0; i < patterns(side).size(); ++i)
        each_dim(side, i, [&](const DimPattern& d, size_t at, size_t) {
          if (d.kind != DimPattern::Kind::product || d.names.size() != 1) return;
          if (!d.stretches || type(side, i)->dims[at] != Expr(1)) set_size(factor(d.names[0]), type(side, i)->dims[at], side, i, at);
        });
  }

  // Dims made of several factors: as soon as all but one are known, the last follows.
  void unify_composite() {
    for (bool changed = true; changed && result_.fault.empty();) {
      changed = false;
      for (int side = 0; side < 2; ++side) {
        for (size_t i = 0; i < patterns(side).size(); ++i) {
          each_dim(side, i, [&](const DimPattern& d, size_t at, size_t) {
            if (d.kind != DimPattern::Kind::product || d.names.size() < 2) return;
            const Expr dim = type(side, i)->dims[at];
            if (!dim.is_known()) return;
            Expr rest = 1;
            std::optional<uint8_t> open;
            for (std::string_view n : d.names) {
              const uint8_t index = factor(n);
              if (factors()[index].size.is_known()) rest *= factors()[index].size;
              else if (open) return;
              else open = index;
            }
            const std::optional<Expr> q = exact_div(dim, rest);
            if (open) {
              if (!q && dim.is_constant() && rest.is_constant())
                fault("dim-mismatch", dim.text() + " of " + operand_name(side, i) + " (dim " + std::to_string(at) + ") does not divide by " + rest.text());
              factors()[*open].size = q ? *q : floor_div(dim, rest);
              changed = true;
            } else if (dim.is_constant() && rest.is_constant() && dim != rest) {
              fault("dim-mismatch", operand_name(side, i) + " has " + dim.text() + " where " + rest.text() + " is needed (dim " + std::to_string(at) + ")");
            }
          });
        }
      }
    }
  }

  void write_maps() {
    for (int side = 0; side < 2; ++side) {
      std::vector<OperandMap>& maps = side == 0 ? result_.access.inputs : result_.access.outputs;
      for (size_t i = 0; i < patterns(side).size(); ++i) {
        OperandMap& map = maps.emplace_back();
        const OperandPattern& operand = patterns(side)[i];
        const Type t = type(side, i);
        map.outside = operand.outside || (side == 0 && !t);
        if (map.outside) continue;
        auto product_map = [&](std::vector<uint8_t> list, Expr dim) {
          const bool stretched = list.size() == 1 && dim == Expr(1) && factors()[list[0]].size != Expr(1) && factors()[list[0]].size.is_known();
          map.dims.push_back({DimMap::Kind::product, stretched ? std::vector<uint8_t>{} : std::move(list)});
        };
        auto add = [&](const DimPattern& d, Expr dim, size_t k) {
          std::vector<uint8_t> list;
          switch (d.kind) {
          case DimPattern::Kind::one: map.dims.emplace_back(); break;
          case DimPattern::Kind::list: product_map({list_factor(d.names[0], k)}, dim); break;
          case DimPattern::Kind::window: map.dims.push_back({DimMap::Kind::window, {factor(d.names[0]), factor(d.names[1])}}); break;
          case DimPattern::Kind::product:
            for (std::string_view n : d.names) list.push_back(factor(n));
            if (d.stretches) {
              product_map(std::move(list), dim);
              break;
            }
            map.dims.push_back({DimMap::Kind::product, std::move(list)});
            break;
          }
        };
        if (t) {
          each_dim(side, i, [&](const DimPattern& d, size_t at, size_t k) { add(d, t->dims[at], k); });
        } else {
          for (const DimPattern& d : operand.dims)
            for (size_t k = 0; k < (d.kind == DimPattern::Kind::list ? list_rank_[d.names[0]] : 1); ++k) add(d, {}, k);
        }
      }
    }
  }

  const Pattern& pattern_;
  std::span<const Type> inputs_, outputs_;
  std::map<std::string_view, size_t> list_rank_;
  AccessResult result_;
};

}  // namespace

std::string_view name(Role role) { return role_names[static_cast<int>(role)]; }

AccessResult bind_access(std::string_view text, std::span<const Type> inputs, std::span<const Type> outputs) {
  const Pattern pattern = parse(text);
  return Binder(pattern, inputs, outputs).run();
}

NotationCheck check_notation(std::string_view text) {
  NotationCheck out;
  auto wrong = [&](std::string fault) {
    out.fault = std::move(fault);
    return out;
  };
  auto is_name = [](std::string_view name) {
    return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  };
  const size_t arrow = text.find("->");
  if (text.size() > 1000 || arrow == text.npos || text.find("->", arrow + 2) != text.npos)
    return wrong("one -> parts inputs from outputs");
  // What parse() takes apart: each token is checked before it gets there.
  for (std::string_view side : {text.substr(0, arrow), text.substr(arrow + 2)}) {
    size_t lists = 0;
    for (size_t at = 0; at < side.size();) {
      if (side[at] == ' ' || side[at] == ',') {
        if (side[at++] == ',') lists = 0;
        continue;
      }
      const size_t end = std::min(side[at] == '(' ? side.find(')', at) : side.find_first_of(" ,", at), side.size());
      const bool bracket = side[at] == '(';
      if (bracket && end == side.size()) return wrong("a bracket is not closed");
      std::string_view token = side.substr(at, end - at + bracket);
      at = end + bracket;
      if (token == "." || token == "1") continue;
      std::vector<std::string_view> parts;
      std::string_view rest = token;
      if (bracket) rest = rest.substr(1, rest.size() - 2);
      else if (token[0] == '@') rest.remove_prefix(1);
      if (!bracket && !rest.empty() && std::string_view("~!?>").find(rest.back()) != std::string_view::npos) rest.remove_suffix(1);
      if (!bracket && rest.ends_with("..") && ++lists > 1) return wrong("an operand has two lists");
      if (!bracket && rest.ends_with("..")) rest.remove_suffix(2);
      for (const char separator = bracket ? ' ' : '+'; !rest.empty();) {
        const size_t next = std::min(rest.find(separator), rest.size());
        if (next > 0 || !bracket) parts.push_back(rest.substr(0, next));
        rest.remove_prefix(std::min(next + 1, rest.size()));
      }
      if (parts.empty() || (!bracket && parts.size() > 2) || !std::all_of(parts.begin(), parts.end(), is_name))
        return wrong("\"" + std::string(token) + "\" is no dim");
      for (std::string_view part : parts)
        if (std::find(out.names.begin(), out.names.end(), part) == out.names.end()) out.names.emplace_back(part);
    }
  }
  return out;
}

std::vector<Expr> dims_of(const Access& access, const OperandMap& map) {
  std::vector<Expr> dims;
  for (const DimMap& d : map.dims) {
    Expr size = 1;
    for (uint8_t f : d.factors) size *= access.factors[f].size;
    dims.push_back(size);
  }
  return dims;
}

Expr extent(const Access& access, const OperandMap& map) { return product(dims_of(access, map)); }

Expr Access::points() const {
  Expr total = 1;
  for (const Factor& f : factors)
    if (f.role != Role::lookup) total *= f.size;
  return total;
}

std::string Access::text() const {
  auto side = [&](const std::vector<OperandMap>& maps) {
    std::string out = "(";
    for (size_t i = 0; i < maps.size(); ++i) {
      out += i ? ",[" : "[";
      for (size_t d = 0; d < maps[i].dims.size(); ++d) {
        const DimMap& dim = maps[i].dims[d];
        if (d) out += ",";
        if (dim.factors.empty()) out += "1";
        const bool brackets = dim.kind == DimMap::Kind::product && dim.factors.size() > 1;
        if (brackets) out += "(";
        for (size_t f = 0; f < dim.factors.size(); ++f) {
          if (f) out += dim.kind == DimMap::Kind::window ? "+" : " ";
          out += factors[dim.factors[f]].name;
        }
        if (brackets) out += ")";
      }
      out += maps[i].outside ? ".]" : "]";
    }
    return out + ")";
  };
  std::string out = side(inputs) + "->" + side(outputs);
  for (int r = 1; r <= static_cast<int>(Role::ordered); ++r) {
    std::string names;
    for (const Factor& f : factors)
      if (f.role == static_cast<Role>(r)) names += (names.empty() ? "" : ",") + f.name;
    if (!names.empty()) out += " " + std::string(role_names[r]) + "={" + names + "}";
  }
  return out;
}

uint8_t AccessBuilder::factor(std::string name, Expr size, Role role) {
  access_.factors.push_back({size, role, std::move(name)});
  return static_cast<uint8_t>(access_.factors.size() - 1);
}

}  // namespace roofcast
