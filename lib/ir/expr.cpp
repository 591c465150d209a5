#include "ir/expr.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace roofcast {
namespace {

constexpr int64_t open_bound = limits::dim;  // stands for infinity in bounds
constexpr uint32_t tree_limit = 4096;        // nodes of one expression written out as a tree
constexpr size_t atom_limit = 32;            // factors of one monomial

int64_t clamp_wide(__int128 v) {
  return static_cast<int64_t>(std::clamp<__int128>(v, -open_bound, open_bound));
}
bool in_range(__int128 v) { return v >= -limits::dim && v <= limits::dim; }
int64_t floor_div_int(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

bool same_terms(const std::vector<ExprTerm>& a, const std::vector<ExprTerm>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ExprTerm& x, const ExprTerm& y) {
    return x.coefficient == y.coefficient && x.monomial == y.monomial;
  });
}

struct NodeHash {
  size_t operator()(const ExprNode* n) const {
    size_t h = static_cast<size_t>(n->kind) * 31 + n->symbol + static_cast<size_t>(n->constant) * 1000003;
    auto mix = [&](uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; };
    for (const ExprTerm& t : n->terms) mix(t.coefficient), mix(t.monomial.bits());
    for (Expr a : n->args) mix(a.bits());
    return h;
  }
};
struct NodeEqual {
  bool operator()(const ExprNode* a, const ExprNode* b) const {
    return a->kind == b->kind && a->symbol == b->symbol && a->constant == b->constant && a->args == b->args &&
           same_terms(a->terms, b->terms);
  }
};

}  // namespace

struct ExprPool::Impl {
  std::deque<ExprNode> nodes;
  std::deque<uint32_t> tree_sizes;
  std::unordered_set<const ExprNode*, NodeHash, NodeEqual> interned;
  std::deque<Symbol> symbols;
  std::vector<const ExprNode*> symbol_nodes;
  std::unordered_map<std::string, SymbolId> symbol_ids;
};

// The rules by which values are made; the only code that makes nodes.
struct Algebra {
  static ExprPool* pool_of(Expr a, Expr b = {}) {
    if (const ExprNode* n = a.node()) return n->pool;
    const ExprNode* n = b.node();
    return n ? n->pool : nullptr;
  }

  static Expr intern(ExprPool* pool, ExprNode node) {
    ExprPool::Impl& impl = *pool->impl_;
    if (auto found = impl.interned.find(&node); found != impl.interned.end()) return Expr(*found);
    uint64_t size = 1;
    int depth = 0;
    auto visit = [&](Expr e) {
      if (const ExprNode* n = e.node()) {
        depth = std::max<int>(depth, n->depth);
        size += impl.tree_sizes[n->id];
      } else {
        ++size;
      }
    };
    for (const ExprTerm& t : node.terms) visit(t.monomial);
    for (Expr a : node.args) visit(a);
    if (node.kind == ExprKind::floor_div || node.kind == ExprKind::min || node.kind == ExprKind::max) ++depth;
    if (depth > limits::expr_depth || size > tree_limit) return Expr::overflow();
    node.pool = pool;
    node.depth = static_cast<uint8_t>(depth);
    node.id = static_cast<uint32_t>(impl.nodes.size());
    set_bounds(node);
    impl.nodes.push_back(std::move(node));
    impl.tree_sizes.push_back(static_cast<uint32_t>(size));
    impl.interned.insert(&impl.nodes.back());
    return Expr(&impl.nodes.back());
  }

  static void set_bounds(ExprNode& n) {
    __int128 lo = 0, hi = 0;
    auto combine = [](__int128& lo, __int128& hi, int64_t blo, int64_t bhi, int64_t k) {
      if (k < 0) std::swap(blo, bhi);
      lo = std::abs(blo) >= open_bound ? (blo * (k < 0 ? -1 : 1) < 0 ? -open_bound : open_bound) : lo + static_cast<__int128>(blo) * k;
      hi = std::abs(bhi) >= open_bound ? (bhi * (k < 0 ? -1 : 1) < 0 ? -open_bound : open_bound) : hi + static_cast<__int128>(bhi) * k;
    };
    switch (n.kind) {
    case ExprKind::symbol: lo = 0, hi = open_bound; break;  // read from the symbol itself
    case ExprKind::sum: {
      lo = hi = n.constant;
      bool open_lo = false, open_hi = false;
      for (const ExprTerm& t : n.terms) {
        __int128 tlo = 0, thi = 0;
        combine(tlo, thi, lower_bound(t.monomial), upper_bound(t.monomial), t.coefficient);
        open_lo |= tlo <= -open_bound, open_hi |= thi >= open_bound;
        lo += tlo, hi += thi;
      }
      if (open_lo) lo = -open_bound;
      if (open_hi) hi = open_bound;
      break;
    }
    case ExprKind::product: {
      lo = hi = 1;
      for (Expr a : n.args) {
        const __int128 alo = lower_bound(a), ahi = upper_bound(a);
        const __int128 c[] = {clamp_wide(lo) * alo, clamp_wide(lo) * ahi, clamp_wide(hi) * alo, clamp_wide(hi) * ahi};
        lo = clamp_wide(*std::min_element(c, c + 4)), hi = clamp_wide(*std::max_element(c, c + 4));
      }
      break;
    }
    case ExprKind::floor_div: {
      const int64_t alo = lower_bound(n.args[0]), ahi = upper_bound(n.args[0]);
      const int64_t blo = lower_bound(n.args[1]), bhi = upper_bound(n.args[1]);
      if (blo < 1) {
        lo = -open_bound, hi = open_bound;
      } else {
        lo = alo <= -open_bound ? -open_bound : alo >= 0 ? floor_div_int(alo, bhi) : floor_div_int(alo, blo);
        hi = ahi >= open_bound ? open_bound : ahi >= 0 ? floor_div_int(ahi, blo) : floor_div_int(ahi, bhi);
      }
      break;
    }
    case ExprKind::min:
    case ExprKind::max: {
      const bool is_min = n.kind == ExprKind::min;
      lo = lower_bound(n.args[0]), hi = upper_bound(n.args[0]);
      for (Expr a : n.args) {
        const __int128 alo = lower_bound(a), ahi = upper_bound(a);
        lo = is_min ? std::min(lo, alo) : std::max(lo, alo);
        hi = is_min ? std::min(hi, ahi) : std::max(hi, ahi);
      }
      break;
    }
    }
    n.lower = clamp_wide(lo), n.upper = clamp_wide(hi);
  }

  static Expr make_symbol(ExprPool* pool, SymbolId id) {
    ExprNode n{};
    n.kind = ExprKind::symbol;
    n.symbol = id;
    return intern(pool, std::move(n));
  }

  // Sums as (constant, sorted terms).
  struct Sum {
    int64_t constant = 0;
    std::vector<ExprTerm> terms;
  };
  static Sum sum_of(Expr e) {
    if (e.is_constant()) return {e.constant(), {}};
    const ExprNode* n = e.node();
    if (n->kind == ExprKind::sum) return {n->constant, n->terms};
    return {0, {{1, e}}};
  }
  static Expr from_sum(ExprPool* pool, Sum s) {
    std::erase_if(s.terms, [](const ExprTerm& t) { return t.coefficient == 0; });
    if (s.terms.empty()) return Expr(s.constant);
    if (s.terms.size() == 1 && s.terms[0].coefficient == 1 && s.constant == 0) return s.terms[0].monomial;
    ExprNode n{};
    n.kind = ExprKind::sum;
    n.constant = s.constant;
    n.terms = std::move(s.terms);
    return intern(pool, std::move(n));
  }
  // Adds k × monomial into sorted terms; false on overflow.
  static bool accumulate(std::vector<ExprTerm>& terms, Expr monomial, __int128 k) {
    auto at = std::lower_bound(terms.begin(), terms.end(), monomial.node()->id,
                               [](const ExprTerm& t, uint32_t id) { return t.monomial.node()->id < id; });
    if (at != terms.end() && at->monomial == monomial) {
      k += at->coefficient;
      if (!in_range(k)) return false;
      at->coefficient = static_cast<int64_t>(k);
      return true;
    }
    if (!in_range(k)) return false;
    terms.insert(at, {static_cast<int64_t>(k), monomial});
    return true;
  }

  static Expr add_scaled(Expr a, Expr b, int64_t k) {
    if (a.is_constant() && b.is_constant()) {
      const __int128 v = static_cast<__int128>(a.constant()) + static_cast<__int128>(k) * b.constant();
      return in_range(v) ? Expr(static_cast<int64_t>(v)) : Expr::overflow();
    }
    ExprPool* pool = pool_of(a, b);
    Sum s = sum_of(a);
    const Sum t = sum_of(b);
    const __int128 c = static_cast<__int128>(s.constant) + static_cast<__int128>(k) * t.constant;
    if (!in_range(c)) return Expr::overflow();
    s.constant = static_cast<int64_t>(c);
    for (const ExprTerm& term : t.terms)
      if (!accumulate(s.terms, term.monomial, static_cast<__int128>(term.coefficient) * k)) return Expr::overflow();
    return from_sum(pool, std::move(s));
  }

  static std::vector<Expr> atoms_of(Expr monomial) {
    const ExprNode* n = monomial.node();
    return n->kind == ExprKind::product ? n->args : std::vector<Expr>{monomial};
  }
  static Expr from_atoms(ExprPool* pool, std::vector<Expr> atoms) {
    if (atoms.empty()) return Expr(1);
    if (atoms.size() == 1) return atoms[0];
    if (atoms.size() > atom_limit) return Expr::overflow();
    std::sort(atoms.begin(), atoms.end(), [](Expr a, Expr b) { return a.node()->id < b.node()->id; });
    ExprNode n{};
    n.kind = ExprKind::product;
    n.args = std::move(atoms);
    return intern(pool, std::move(n));
  }

  static Expr multiply(Expr a, Expr b) {
    if (a.is_constant() && b.is_constant()) {
      const __int128 v = static_cast<__int128>(a.constant()) * b.constant();
      return in_range(v) ? Expr(static_cast<int64_t>(v)) : Expr::overflow();
    }
    if (a == Expr(0) || b == Expr(0)) return 0;
    if (a == Expr(1)) return b;
    if (b == Expr(1)) return a;
    ExprPool* pool = pool_of(a, b);
    Sum s = sum_of(a), t = sum_of(b);
    // A product of long sums is kept as one monomial, so that sizes stay bounded.
    if ((s.terms.size() + 1) * (t.terms.size() + 1) > limits::expr_terms) {
      if (s.terms.size() > 1) s = {0, {{1, a}}};
      if (t.terms.size() > 1) t = {0, {{1, b}}};
    }
    Sum result;
    const __int128 c = static_cast<__int128>(s.constant) * t.constant;
    if (!in_range(c)) return Expr::overflow();
    result.constant = static_cast<int64_t>(c);
    for (const ExprTerm& x : s.terms)
      if (t.constant && !accumulate(result.terms, x.monomial, static_cast<__int128>(x.coefficient) * t.constant))
        return Expr::overflow();
    for (const ExprTerm& y : t.terms)
      if (s.constant && !accumulate(result.terms, y.monomial, static_cast<__int128>(y.coefficient) * s.constant))
        return Expr::overflow();
    for (const ExprTerm& x : s.terms) {
      for (const ExprTerm& y : t.terms) {
        std::vector<Expr> atoms = atoms_of(x.monomial);
        for (Expr atom : atoms_of(y.monomial)) atoms.push_back(atom);
        const Expr monomial = from_atoms(pool, std::move(atoms));
        if (monomial.is_overflow()) return monomial;
        if (!accumulate(result.terms, monomial, static_cast<__int128>(x.coefficient) * y.coefficient))
          return Expr::overflow();
      }
    }
    return from_sum(pool, std::move(result));
  }

  // Monomials in graded lexicographic order, for polynomial division.
  static bool monomial_less(Expr a, Expr b) {
    const std::vector<Expr> x = atoms_of(a), y = atoms_of(b);
    if (x.size() != y.size()) return x.size() < y.size();
    return std::lexicographical_compare(x.rbegin(), x.rend(), y.rbegin(), y.rend(),
                                        [](Expr p, Expr q) { return p.node()->id < q.node()->id; });
  }
  static const ExprTerm* leading(const Sum& s) {
    const ExprTerm* best = nullptr;
    for (const ExprTerm& t : s.terms)
      if (!best || monomial_less(best->monomial, t.monomial)) best = &t;
    return best;
  }
  // k·m with m the quotient monomial (1 as a constant), or nothing.
  static std::optional<Expr> divide_term(ExprPool* pool, const ExprTerm& a, const ExprTerm& b) {
    if (a.coefficient % b.coefficient != 0) return std::nullopt;
    std::vector<Expr> rest = atoms_of(a.monomial);
    for (Expr atom : atoms_of(b.monomial)) {
      auto at = std::find(rest.begin(), rest.end(), atom);
      if (at == rest.end()) return std::nullopt;
      rest.erase(at);
    }
    return multiply(Expr(a.coefficient / b.coefficient), from_atoms(pool, std::move(rest)));
  }

  static std::optional<Expr> exact(Expr a, Expr b) {
    if (b == Expr(1)) return a;
    if (a == b) return Expr(1);
    if (a.is_constant() && b.is_constant())
      return b.constant() != 0 && a.constant() % b.constant() == 0 ? std::optional(Expr(a.constant() / b.constant())) : std::nullopt;
    if (a == Expr(0)) return Expr(0);
    if (b == Expr(0)) return std::nullopt;
    ExprPool* pool = pool_of(a, b);
    Sum s = sum_of(a);
    const Sum d = sum_of(b);
    if (d.terms.empty()) {
      if (s.constant % d.constant) return std::nullopt;
      s.constant /= d.constant;
      for (ExprTerm& t : s.terms) {
        if (t.coefficient % d.constant) return std::nullopt;
        t.coefficient /= d.constant;
      }
      return from_sum(pool, std::move(s));
    }
    const ExprTerm lead = *leading(d);
    Expr rest = a, quotient = 0;
    for (size_t step = 0; step < limits::expr_terms; ++step) {
      if (rest == Expr(0)) return quotient;
      if (rest.is_constant() || rest.is_overflow()) return std::nullopt;
      const Sum r = sum_of(rest);
      const std::optional<Expr> q = divide_term(pool, *leading(r), lead);
      if (!q || q->is_overflow()) return std::nullopt;
      quotient = add_scaled(quotient, *q, 1);
      rest = add_scaled(rest, multiply(*q, b), -1);
      if (quotient.is_overflow() || rest.is_overflow()) return std::nullopt;
    }
    return std::nullopt;
  }

  static Expr divide(Expr a, Expr b) {
    if (b == Expr(0)) return Expr::overflow();
    if (a.is_constant() && b.is_constant()) return floor_div_int(a.constant(), b.constant());
    if (b.is_constant() && b.constant() < 0) return divide(add_scaled(0, a, -1), Expr(-b.constant()));
    if (std::optional<Expr> q = exact(a, b)) return *q;
    ExprPool* pool = pool_of(a, b);
    if (b.is_constant()) {
      int64_t d = b.constant();
      const Sum s = sum_of(a);
      Sum whole, rest;
      whole.constant = floor_div_int(s.constant, d);
      rest.constant = s.constant - whole.constant * d;
      int64_t common = d;
      for (const ExprTerm& t : s.terms) {
        const int64_t q = floor_div_int(t.coefficient, d), r = t.coefficient - q * d;
        if (q) whole.terms.push_back({q, t.monomial});
        if (r) rest.terms.push_back({r, t.monomial}), common = std::gcd(common, r);
      }
      if (common > 1) {
        for (ExprTerm& t : rest.terms) t.coefficient /= common;
        rest.constant = floor_div_int(rest.constant, common);
        d /= common;
      }
      Expr r = from_sum(pool, std::move(rest));
      const Expr w = from_sum(pool, std::move(whole));
      if (r.is_overflow() || w.is_overflow()) return Expr::overflow();
      if (lower_bound(r) >= 0 && upper_bound(r) < d) return w;
      if (const ExprNode* n = r.node(); n && n->kind == ExprKind::floor_div && n->args[1].is_constant()) {
        const __int128 wide = static_cast<__int128>(n->args[1].constant()) * d;
        if (!in_range(wide)) return Expr::overflow();
        return add_scaled(w, divide(n->args[0], Expr(static_cast<int64_t>(wide))), 1);
      }
      return add_scaled(w, d == 1 ? r : quotient_node(pool, r, Expr(d)), 1);
    }
    if (lower_bound(a) >= 0 && known_lt(a, b)) return 0;
    return quotient_node(pool, a, b);
  }
  static Expr quotient_node(ExprPool* pool, Expr a, Expr b) {
    ExprNode n{};
    n.kind = ExprKind::floor_div;
    n.args = {a, b};
    return intern(pool, std::move(n));
  }

  static Expr extremum(Expr a, Expr b, ExprKind kind) {
    const bool is_min = kind == ExprKind::min;
    if (a.is_constant() && b.is_constant())
      return is_min ? std::min(a.constant(), b.constant()) : std::max(a.constant(), b.constant());
    ExprPool* pool = pool_of(a, b);
    std::vector<Expr> args;
    auto flatten = [&](Expr e) {
      const ExprNode* n = e.node();
      if (n && n->kind == kind) args.insert(args.end(), n->args.begin(), n->args.end());
      else args.push_back(e);
    };
    flatten(a), flatten(b);
    std::vector<Expr> kept;
    for (Expr e : args) {
      // max(s, min(s, 512)) is s.
      auto beats = [&](Expr x, Expr y) {
        const ExprNode* n = y.node();
        const bool absorbs = n && n->kind == (is_min ? ExprKind::max : ExprKind::min) && std::find(n->args.begin(), n->args.end(), x) != n->args.end();
        return absorbs || (is_min ? known_le(x, y) : known_le(y, x));
      };
      if (std::any_of(kept.begin(), kept.end(), [&](Expr k) { return beats(k, e); })) continue;
      std::erase_if(kept, [&](Expr k) { return beats(e, k); });
      kept.push_back(e);
    }
    if (kept.size() == 1) return kept[0];
    std::sort(kept.begin(), kept.end(), [](Expr x, Expr y) {
      const uint64_t ix = x.node() ? x.node()->id + 1 : 0, iy = y.node() ? y.node()->id + 1 : 0;
      return ix != iy ? ix < iy : x.bits() < y.bits();
    });
    ExprNode n{};
    n.kind = kind;
    n.args = std::move(kept);
    return intern(pool, std::move(n));
  }
};

// Unknown stays unknown, overflow stays overflow.
#define ROOFCAST_PROPAGATE(a, b)                                                                   \
  if (!(a).is_known() || !(b).is_known()) return {};                                               \
  if ((a).is_overflow() || (b).is_overflow()) return Expr::overflow()

Expr operator+(Expr a, Expr b) { ROOFCAST_PROPAGATE(a, b); return Algebra::add_scaled(a, b, 1); }
Expr operator-(Expr a, Expr b) { ROOFCAST_PROPAGATE(a, b); return Algebra::add_scaled(a, b, -1); }
Expr operator*(Expr a, Expr b) { ROOFCAST_PROPAGATE(a, b); return Algebra::multiply(a, b); }
Expr operator-(Expr a) { return Expr(0) - a; }
Expr floor_div(Expr a, Expr b) { ROOFCAST_PROPAGATE(a, b); return Algebra::divide(a, b); }
Expr ceil_div(Expr a, Expr b) { return floor_div(a + b - 1, b); }
Expr mod(Expr a, Expr b) { return a - b * floor_div(a, b); }
Expr min(Expr a, Expr b) { ROOFCAST_PROPAGATE(a, b); return Algebra::extremum(a, b, ExprKind::min); }
Expr max(Expr a, Expr b) { ROOFCAST_PROPAGATE(a, b); return Algebra::extremum(a, b, ExprKind::max); }
std::optional<Expr> exact_div(Expr a, Expr b) {
  if (!a.is_known() || !b.is_known() || a.is_overflow() || b.is_overflow()) return std::nullopt;
  return Algebra::exact(a, b);
}
#undef ROOFCAST_PROPAGATE

Expr product(std::span<const Expr> factors) {
  Expr p = 1;
  for (Expr f : factors) p *= f;
  return p;
}

std::optional<SymbolId> Expr::as_symbol() const {
  const ExprNode* n = node();
  return n && n->kind == ExprKind::symbol ? std::optional(n->symbol) : std::nullopt;
}

int64_t lower_bound(Expr e) {
  if (e.is_constant()) return e.constant();
  const ExprNode* n = e.node();
  if (!n) return -open_bound;
  return n->kind == ExprKind::symbol ? n->pool->info(n->symbol).lower : n->lower;
}
int64_t upper_bound(Expr e) {
  if (e.is_constant()) return e.constant();
  const ExprNode* n = e.node();
  if (!n) return open_bound;
  if (n->kind != ExprKind::symbol) return n->upper;
  const Expr bound = n->pool->info(n->symbol).bound;
  return bound.is_known() ? upper_bound(bound) : open_bound;
}

// Text ------------------------------------------------------------------------------------------

namespace {

bool is_identifier(std::string_view s) {
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

std::string atom_text(Expr e);

// A quotient inside a product or power needs brackets: 4*(seq//2).
std::string bracketed(Expr e) {
  const ExprNode* n = e.node();
  const bool quotient = n && n->kind == ExprKind::floor_div;
  return quotient ? "(" + atom_text(e) + ")" : atom_text(e);
}

std::string monomial_text(Expr e) {
  const ExprNode* n = e.node();
  if (!n || n->kind != ExprKind::product) return atom_text(e);
  std::vector<std::string> parts;
  for (size_t i = 0; i < n->args.size();) {
    size_t j = i;
    while (j < n->args.size() && n->args[j] == n->args[i]) ++j;
    std::string text = bracketed(n->args[i]);
    if (j - i > 1) text += "^" + std::to_string(j - i);
    parts.push_back(std::move(text));
    i = j;
  }
  std::sort(parts.begin(), parts.end());
  std::string out = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) out += "*" + parts[i];
  return out;
}

std::string atom_text(Expr e) {
  const ExprNode* n = e.node();
  if (!n) return e.text();
  switch (n->kind) {
  case ExprKind::symbol: {
    const std::string& name = n->pool->info(n->symbol).name;
    return is_identifier(name) ? name : "`" + name + "`";
  }
  case ExprKind::floor_div: {
    auto side = [](Expr x) {
      const ExprNode* m = x.node();
      return m && m->kind != ExprKind::symbol && m->kind != ExprKind::min && m->kind != ExprKind::max ? "(" + x.text() + ")" : x.text();
    };
    return side(n->args[0]) + "//" + side(n->args[1]);
  }
  case ExprKind::min:
  case ExprKind::max: {
    std::string out = n->kind == ExprKind::min ? "min(" : "max(";
    for (size_t i = 0; i < n->args.size(); ++i) out += (i ? ", " : "") + n->args[i].text();
    return out + ")";
  }
  default: return "(" + e.text() + ")";
  }
}

std::string factor_text(Expr e) {
  const ExprNode* n = e.node();
  return n && n->kind == ExprKind::floor_div ? bracketed(e) : monomial_text(e);
}

}  // namespace

std::string Expr::text() const {
  if (!is_known()) return "?";
  if (is_overflow()) return "overflow";
  if (is_constant()) return std::to_string(constant());
  const ExprNode* n = node();
  if (n->kind != ExprKind::sum) return monomial_text(*this);
  struct Part {
    size_t degree;
    std::string text;
    int64_t coefficient;
  };
  std::vector<Part> parts;
  for (const ExprTerm& t : n->terms) {
    const ExprNode* m = t.monomial.node();
    const int64_t size = std::abs(t.coefficient);
    parts.push_back({m->kind == ExprKind::product ? m->args.size() : 1,
                     size == 1 ? monomial_text(t.monomial) : std::to_string(size) + "*" + factor_text(t.monomial),
                     t.coefficient});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.degree != b.degree ? a.degree > b.degree : a.text < b.text;
  });
  std::string out;
  for (const Part& p : parts) {
    if (out.empty()) out = p.coefficient < 0 ? "-" : "";
    else out += p.coefficient < 0 ? " - " : " + ";
    out += p.text;
  }
  if (n->constant) out += (n->constant < 0 ? " - " : " + ") + std::to_string(std::abs(n->constant));
  return out;
}

// Pool --------------------------------------------------------------------------------------------

ExprPool::ExprPool() : impl_(std::make_unique<Impl>()) {}
ExprPool::~ExprPool() = default;

Expr ExprPool::symbol(std::string_view name, SymbolOrigin origin, int64_t lower) {
  const auto [at, is_new] = impl_->symbol_ids.try_emplace(std::string(name), static_cast<SymbolId>(impl_->symbols.size()));
  if (is_new) {
    impl_->symbols.push_back({.name = std::string(name), .origin = origin, .lower = lower});
    impl_->symbol_nodes.push_back(Algebra::make_symbol(this, at->second).node());
  }
  return symbol_expr(at->second);
}

Expr ExprPool::fresh_symbol(std::string_view name, SymbolOrigin origin, int64_t lower) {
  std::string unique(name);
  for (int i = 2; impl_->symbol_ids.contains(unique); ++i) unique = std::string(name) + "." + std::to_string(i);
  return symbol(unique, origin, lower);
}

std::optional<SymbolId> ExprPool::find_symbol(std::string_view name) const {
  auto at = impl_->symbol_ids.find(std::string(name));
  return at == impl_->symbol_ids.end() ? std::nullopt : std::optional(at->second);
}
Symbol& ExprPool::info(SymbolId id) { return impl_->symbols[id]; }
const Symbol& ExprPool::info(SymbolId id) const { return impl_->symbols[id]; }
size_t ExprPool::symbol_count() const { return impl_->symbols.size(); }
Expr ExprPool::symbol_expr(SymbolId id) const { return Expr(impl_->symbol_nodes[id]); }

// Evaluation ----------------------------------------------------------------------------------------

void Bindings::set(SymbolId id, int64_t value) {
  if (values_.size() <= id) values_.resize(id + 1);
  values_[id] = value;
}

Resolution resolve_symbols(const ExprPool& pool, const Bindings& set) {
  Resolution r;
  for (SymbolId id = 0; id < pool.symbol_count(); ++id) {
    if (std::optional<int64_t> v = set.get(id)) {
      r.values.set(id, *v);
      continue;
    }
    const Symbol& symbol = pool.info(id);
    const Expr used = symbol.expected.is_known() ? symbol.expected : symbol.bound;
    std::optional<int64_t> v = used.is_known() ? evaluate(used, r.values) : std::nullopt;
    r.values.set(id, v.value_or(1));
    r.defaulted.push_back(id);
  }
  return r;
}

std::optional<int64_t> evaluate(Expr e, const Bindings& values) {
  if (e.is_constant()) return e.constant();
  const ExprNode* n = e.node();
  if (!n) return std::nullopt;
  switch (n->kind) {
  case ExprKind::symbol: return values.get(n->symbol);
  case ExprKind::sum: {
    __int128 total = n->constant;
    for (const ExprTerm& t : n->terms) {
      const auto v = evaluate(t.monomial, values);
      if (!v) return v;
      total += static_cast<__int128>(t.coefficient) * *v;
    }
    return in_range(total) ? std::optional(static_cast<int64_t>(total)) : std::nullopt;
  }
  case ExprKind::product: {
    __int128 total = 1;
    for (Expr a : n->args) {
      const auto v = evaluate(a, values);
      if (!v) return v;
      total *= *v;
      if (!in_range(total)) return std::nullopt;
    }
    return static_cast<int64_t>(total);
  }
  case ExprKind::floor_div: {
    const auto a = evaluate(n->args[0], values), b = evaluate(n->args[1], values);
    if (!a || !b || *b == 0) return std::nullopt;
    return floor_div_int(*a, *b);
  }
  case ExprKind::min:
  case ExprKind::max: {
    std::optional<int64_t> best;
    for (Expr arg : n->args) {
      const auto v = evaluate(arg, values);
      if (!v) return v;
      best = !best ? *v : n->kind == ExprKind::min ? std::min(*best, *v) : std::max(*best, *v);
    }
    return best;
  }
  }
  return std::nullopt;
}

std::optional<double> evaluate_real(Expr e, const Bindings& values) {
  if (const auto exact = evaluate(e, values)) return static_cast<double>(*exact);
  const ExprNode* n = e.node();
  if (!n) return std::nullopt;
  switch (n->kind) {
  case ExprKind::sum: {
    double total = static_cast<double>(n->constant);
    for (const ExprTerm& t : n->terms) {
      const auto v = evaluate_real(t.monomial, values);
      if (!v) return v;
      total += static_cast<double>(t.coefficient) * *v;
    }
    return total;
  }
  case ExprKind::product: {
    double total = 1;
    for (Expr a : n->args) {
      const auto v = evaluate_real(a, values);
      if (!v) return v;
      total *= *v;
    }
    return total;
  }
  case ExprKind::floor_div: {
    const auto a = evaluate_real(n->args[0], values), b = evaluate_real(n->args[1], values);
    if (!a || !b || *b == 0) return std::nullopt;
    return std::floor(*a / *b);
  }
  default: return std::nullopt;
  }
}

Expr substitute(Expr e, const Bindings& values) {
  const ExprNode* n = e.node();
  if (!n) return e;
  switch (n->kind) {
  case ExprKind::symbol: {
    const auto v = values.get(n->symbol);
    return v ? Expr(*v) : e;
  }
  case ExprKind::sum: {
    Expr total = n->constant;
    for (const ExprTerm& t : n->terms) total += Expr(t.coefficient) * substitute(t.monomial, values);
    return total;
  }
  case ExprKind::product: {
    Expr total = 1;
    for (Expr a : n->args) total *= substitute(a, values);
    return total;
  }
  case ExprKind::floor_div: return floor_div(substitute(n->args[0], values), substitute(n->args[1], values));
  case ExprKind::min:
  case ExprKind::max: {
    Expr best = substitute(n->args[0], values);
    for (size_t i = 1; i < n->args.size(); ++i) {
      const Expr v = substitute(n->args[i], values);
      best = n->kind == ExprKind::min ? min(best, v) : max(best, v);
    }
    return best;
  }
  }
  return e;
}

void collect_symbols(Expr e, std::vector<SymbolId>& out) {
  const ExprNode* n = e.node();
  if (!n) return;
  if (n->kind == ExprKind::symbol) {
    if (std::find(out.begin(), out.end(), n->symbol) == out.end()) out.push_back(n->symbol);
    return;
  }
  for (const ExprTerm& t : n->terms) collect_symbols(t.monomial, out);
  for (Expr a : n->args) collect_symbols(a, out);
}

std::optional<std::pair<SymbolId, int64_t>> solve_linear(Expr e, int64_t value, const Bindings& known) {
  const Expr rest = substitute(e, known);
  if (!rest.node()) return std::nullopt;
  const Algebra::Sum s = Algebra::sum_of(rest);
  if (s.terms.size() != 1) return std::nullopt;
  const std::optional<SymbolId> symbol = s.terms[0].monomial.as_symbol();
  const int64_t numerator = value - s.constant, k = s.terms[0].coefficient;
  if (!symbol || numerator % k != 0) return std::nullopt;
  return std::pair(*symbol, numerator / k);
}

// Parsing -------------------------------------------------------------------------------------------

namespace {

// Recursive descent over + - * // / % ^ **, brackets and the functions that exporters print.
class ExprParser {
public:
  ExprParser(std::string_view text, const NameResolver& resolve) : text_(text), resolve_(resolve) {}

  std::optional<Expr> parse() {
    const Expr e = sum();
    skip();
    if (failed_ || at_ != text_.size() || e.is_overflow()) return std::nullopt;
    return e;
  }

private:
  void skip() { while (at_ < text_.size() && text_[at_] == ' ') ++at_; }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  Expr fail() { failed_ = true; return 0; }

  Expr sum() {
    if (++depth_ > 32) return fail();
    Expr e = take("-") ? -product() : product();
    while (!failed_) {
      if (take("+")) e = e + product();
      else if (take("-")) e = e - product();
      else break;
    }
    --depth_;
    return e;
  }
  Expr product() {
    Expr e = power();
    while (!failed_) {
      if (take("//")) e = divisor(e, power());
      else if (take("**")) return fail();
      else if (take("*")) e = e * power();
      else if (take("%")) { const Expr d = power(); e = d == Expr(0) ? fail() : mod(e, d); }
      else if (take("/")) { const Expr d = power(); e = division(e, d); }
      else break;
    }
    return e;
  }
  Expr divisor(Expr a, Expr b) { return b == Expr(0) ? fail() : floor_div(a, b); }
  // A plain quotient must be exact, or stand inside floor(…) or ceiling(…).
  Expr division(Expr a, Expr b) {
    if (b == Expr(0)) return fail();
    if (rounding_ == 1) return floor_div(a, b);
    if (rounding_ == 2) return ceil_div(a, b);
    const auto q = exact_div(a, b);
    return q ? *q : fail();
  }
  Expr power() {
    Expr base = atom();
    if (take("^") || take("**")) {
      const Expr exponent = atom();
      if (!exponent.is_constant() || exponent.constant() < 0 || exponent.constant() > 8) return fail();
      Expr e = 1;
      for (int64_t i = 0; i < exponent.constant(); ++i) e *= base;
      return e;
    }
    return base;
  }
  Expr atom() {
    skip();
    if (failed_ || at_ >= text_.size()) return fail();
    if (take("(")) {
      const Expr e = sum();
      return take(")") ? e : fail();
    }
    if (take("`")) {
      const size_t end = text_.find('`', at_);
      if (end == std::string_view::npos) return fail();
      const std::string_view name = text_.substr(at_, end - at_);
      at_ = end + 1;
      return resolve_(name);
    }
    const unsigned char c = static_cast<unsigned char>(text_[at_]);
    if (std::isdigit(c)) {
      int64_t v = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        v = v * 10 + (text_[at_++] - '0');
        if (v > limits::dim / 16) return fail();
      }
      if (at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) return fail();
      return v;
    }
    if (!std::isalpha(c) && c != '_') return fail();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && text_[at_] == '(') return call(name);
    return resolve_(name);
  }
  Expr call(std::string_view name) {
    ++at_;
    const int outer = rounding_;
    if (name == "floor" || name == "FloorToInt" || name == "TruncToInt") rounding_ = 1;
    else if (name == "ceiling" || name == "ceil" || name == "CeilToInt") rounding_ = 2;
    std::vector<Expr> args{sum()};
    while (!failed_ && take(",")) args.push_back(sum());
    rounding_ = outer;
    if (!take(")")) return fail();
    const bool pair = args.size() == 2;
    if (name == "Max" || name == "max" || name == "Min" || name == "min") {
      Expr e = args[0];
      for (size_t i = 1; i < args.size(); ++i) e = name[1] == 'a' ? max(e, args[i]) : min(e, args[i]);
      return e;
    }
    if (pair && (name == "FloorDiv" || name == "floordiv" || name == "CleanDiv")) return divisor(args[0], args[1]);
    if (pair && (name == "CeilDiv" || name == "ceildiv") && args[1] != Expr(0)) return ceil_div(args[0], args[1]);
    if (pair && (name == "Mod" || name == "mod" || name == "PythonMod") && args[1] != Expr(0)) return mod(args[0], args[1]);
    if (args.size() == 1 && (name == "floor" || name == "ceiling" || name == "ceil" || name == "FloorToInt" || name == "CeilToInt" || name == "TruncToInt"))
      return args[0];
    return fail();
  }

  std::string_view text_;
  const NameResolver& resolve_;
  size_t at_ = 0;
  int depth_ = 0, rounding_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<Expr> parse_expr(std::string_view text, const NameResolver& resolve) {
  return text.size() > 20000 ? std::nullopt : ExprParser(text, resolve).parse();
}

std::optional<Expr> parse_expr(std::string_view text, ExprPool& pool, SymbolOrigin origin) {
  // Symbols of a text that turns out not to parse must not be left behind, so it is read twice.
  ExprPool scratch;
  if (!parse_expr(text, [&](std::string_view name) { return scratch.symbol(name, origin); }))
    return std::nullopt;
  return parse_expr(text, [&](std::string_view name) { return pool.symbol(name, origin); });
}

}  // namespace roofcast
