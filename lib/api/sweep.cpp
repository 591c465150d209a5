#include "roofcast/sweep.h"

#include "api/formulas.h"
#include "api/totals.h"
#include "ir/solve.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace roofcast {
namespace {

constexpr int64_t most_points = 1'000'000;
constexpr int64_t most_scanned = 1 << 20;  // integers tried one by one where no polynomial helps

std::vector<int64_t> values_of(const SweepAxis& axis) {
  std::vector<int64_t> out;
  for (int64_t v = axis.from; v <= axis.to && static_cast<int64_t>(out.size()) < most_points; v = axis.step ? v + axis.step : v * axis.factor) out.push_back(v);
  return out;
}

// "mfu>=0.5", "time<=10ms", "peak_memory<=40GB", "fits".
struct Target {
  enum class Kind { at_least, at_most, fits } kind = Kind::fits;
  std::string field;
  double limit = 0;
};

std::optional<Target> parse_target(const std::string& text) {
  if (text == "fits") return Target{};
  const size_t at = std::min(text.find(">="), text.find("<="));
  if (at == std::string::npos) return std::nullopt;
  Target t{text[at] == '>' ? Target::Kind::at_least : Target::Kind::at_most, text.substr(0, at), 0};
  const std::string_view number = std::string_view(text).substr(at + 2);
  const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), t.limit);
  if (fault != std::errc()) return std::nullopt;
  const std::string_view unit = number.substr(static_cast<size_t>(end - number.data()));
  static constexpr std::pair<std::string_view, double> units[] = {{"", 1}, {"%", 0.01}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}, {"ns", 1e-9},
                                                                  {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"GiB", 1073741824.0}};
  for (const auto& [name, factor] : units)
    if (unit == name) return t.limit *= factor, t;
  return std::nullopt;
}

std::optional<double> field_of(const Totals& t, const std::string& name) {
  std::optional<double> found;
  fields([&](std::string_view field, const auto& item, Unit, std::string_view) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::optional<double>>)
      if (field == name) found = item;
  }, t);
  return found;
}

bool has_field(const std::string& name) {
  bool found = false;
  fields([&](std::string_view field, const auto& item, Unit, std::string_view) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::optional<double>>) found |= field == name;
  }, Totals{});
  return found;
}

bool meets(const Totals& t, const Target& target) {
  if (target.kind == Target::Kind::fits) return t.fits.value_or(false);
  const auto v = field_of(t, target.field);
  return v && (target.kind == Target::Kind::at_least ? *v >= target.limit : *v <= target.limit);
}

class Sweeper {
public:
  Sweeper(Module& module, const Hardware& hardware, const SweepOptions& options, const MemoryModel& memory)
      : m_(module), hardware_(hardware), memory_(memory),
        costing_(module, hardware, time_model(options.model), options.causal) {
    costing_.resolve();
  }

  Totals at(SymbolId symbol, int64_t value) {
    m_.bound.set(symbol, value);
    costing_.resolve_again();
    return total(costing_, &memory_);
  }
  Totals now() {
    costing_.resolve_again();
    return total(costing_, &memory_);
  }

  // Integers between which no class and no sum of classes can change its bound; absent: not known.
  std::optional<std::vector<int64_t>> candidates(SymbolId symbol, int64_t from, int64_t to);
  // The bound of each class and of the model at one value.
  std::string bound_of(InstanceId instance, SymbolId symbol, int64_t value);

  // Every class once: an instance, and a node of it.
  std::vector<std::pair<InstanceId, NodeId>> classes() const {
    std::vector<std::pair<InstanceId, NodeId>> out;
    std::vector<char> seen(m_.instances.size());
    for (uint32_t i = 0; i < m_.nodes.size(); ++i)
      if (const InstanceId id = m_.nodes[i].instance; !costing_.free(NodeId{i}) && !seen[id.index]) {
        seen[id.index] = 1;
        out.push_back({id, NodeId{i}});
      }
    return out;
  }
  Costing& costing() { return costing_; }

private:
  Module& m_;
  const Hardware& hardware_;
  const MemoryModel& memory_;
  Costing costing_;
};

std::string Sweeper::bound_of(InstanceId instance, SymbolId symbol, int64_t value) {
  const Work& work = costing_.work_of(instance);
  Bindings values = costing_.values();
  values.set(symbol, value);
  const auto problem = bind(work, m_.instances[instance.index], values);
  if (!problem || !problem->has_work()) return {};
  const Time t = predict(*problem, hardware_, costing_.model());
  return t.bound == Bound::none ? std::string() : std::string(name(t.bound));
}

std::optional<std::vector<int64_t>> Sweeper::candidates(SymbolId symbol, int64_t from, int64_t to) {
  if (costing_.model() != TimeModel::ideal) return std::nullopt;
  const Bindings& values = costing_.values();
  std::vector<int64_t> out;
  const auto bandwidth = memory_bandwidth(hardware_);
  for (const auto& [instance, node] : classes()) {
    const Work& work = costing_.work_of(instance);
    if (!work.uncounted.empty()) continue;
    Expr bytes = 0;
    for (Expr e : work.reads) bytes += e;
    for (Expr e : work.writes) bytes += e;
    const auto matrix = polynomial_in(work.matrix_flops, symbol, values), vector = polynomial_in(work.vector_flops, symbol, values), traffic = polynomial_in(bytes, symbol, values);
    const auto fast = matrix_rate(hardware_, work.math), slow = vector_rate(hardware_, work.math);
    if (!matrix || !vector || !traffic || !slow || !bandwidth) return std::nullopt;
    const Polynomial hbm = scaled(*traffic, 1 / *bandwidth), by_vector = scaled(*vector, 1 / *slow);
    const bool contracts = work.matrix_flops != Expr(0);
    if (contracts && !fast) return std::nullopt;
    const Polynomial by_matrix = contracts ? scaled(*matrix, 1 / *fast) : Polynomial{0};
    for (const Polynomial& difference : {by_matrix - hbm, by_vector - hbm, by_matrix - by_vector})
      for (int64_t v : sign_changes(difference, from, to)) out.push_back(v);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// The least v in (from, to] at which `f` differs from its value at v − 1, where `at` lists all integers
// near which it may change; without it every integer is tried.
template <class F> std::vector<std::tuple<int64_t, std::string, std::string>> changes(F&& f, int64_t from, int64_t to, const std::optional<std::vector<int64_t>>& at) {
  std::vector<std::tuple<int64_t, std::string, std::string>> out;
  std::string before = f(from);
  auto step = [&](int64_t v) {
    std::string now = f(v);
    if (now.empty()) return;  // no work at this value
    if (now != before && !before.empty()) out.push_back({v, before, now});
    before = std::move(now);
  };
  if (!at) {
    for (int64_t v = from + 1; v <= to; ++v) step(v);
  } else {
    for (int64_t v : *at)
      if (v > from) step(v);
  }
  return out;
}

}  // namespace

Result<Sweep> sweep(const Model& model, const std::vector<Hardware>& hardware, const SweepOptions& options) {
  Module& m = model.module();
  if (options.over.empty()) return error("usage", "no symbol to sweep", {.file = m.file}, "--over batch=1..1024:*2");
  std::vector<SymbolId> symbols;
  for (const SweepAxis& axis : options.over) {
    if (axis.from < 0 || axis.to < axis.from || (axis.step <= 0 && (axis.factor < 2 || axis.from < 1)))
      return error("usage", "--over " + axis.symbol + " has no points", {.file = m.file}, "--over batch=1..1024:*2, or seq=128..4096:128");
    const auto id = m.exprs.find_symbol(axis.symbol);
    if (!id) {
      std::vector<std::string> names;
      for (SymbolId s = 0; s < m.exprs.symbol_count(); ++s) names.push_back(m.exprs.info(s).name);
      std::string near;
      for (const std::string& n : nearest_names(axis.symbol, names)) near += (near.empty() ? "near: " : ", ") + n;
      return error("symbol-unknown", "no symbol is called \"" + axis.symbol + "\"", {.file = m.file}, near);
    }
    symbols.push_back(*id);
  }
  std::vector<Target> targets;
  for (const std::string& text : options.until) {
    const auto target = parse_target(text);
    if (!target || (target->kind != Target::Kind::fits && !has_field(target->field)))
      return error("usage", "--until " + text + " is not understood", {}, "mfu>=0.5, time<=10ms, peak_memory<=40GB, fits");
    targets.push_back(*target);
  }

  Sweep out;
  out.file = m.file, out.symbol = options.over[0].symbol;
  const MemoryModel memory(m);
  const SweepAxis& first = options.over[0];
  for (const Hardware& hw : hardware) {
    Sweeper sweeper(m, hw, options, memory);
    warn_of_stand_in(out.warnings, hw, time_model(options.model));
    // Points, the last axis fastest.
    std::vector<std::vector<int64_t>> axes;
    size_t count = 1;
    for (const SweepAxis& axis : options.over) axes.push_back(values_of(axis)), count *= axes.back().size();
    if (static_cast<int64_t>(count) > most_points) return error("usage", std::to_string(count) + " points are too many", {}, "a larger step, or :*2");
    for (size_t i = 0; i < count; ++i) {
      SweepPoint point;
      size_t rest = i;
      for (size_t a = axes.size(); a-- > 0; rest /= axes[a].size()) {
        const int64_t v = axes[a][rest % axes[a].size()];
        m.bound.set(symbols[a], v);
        point.symbols[options.over[a].symbol] = v;
      }
      static_cast<Totals&>(point) = sweeper.now();
      point.value = point.symbols[out.symbol], point.hw = hw.name;
      out.points.push_back(std::move(point));
    }
    // Knees of the first axis, the others at their first values.
    for (size_t a = 0; a < axes.size(); ++a) m.bound.set(symbols[a], axes[a].front());
    sweeper.now();
    auto where = sweeper.candidates(symbols[0], first.from, first.to);
    if (!where && first.to - first.from > most_scanned) {
      out.warnings.push_back(warning("usage", "knees of " + first.symbol + " are not solved: the range is too long for formulas with quotients", {.file = m.file}));
      continue;
    }
    std::vector<int64_t> class_changes;
    for (const auto& [instance, node] : sweeper.classes()) {
      for (const auto& [value, from, to] : changes([&](int64_t v) { return sweeper.bound_of(instance, symbols[0], v); }, first.from, first.to, where)) {
        class_changes.push_back(value);
        if (out.knees.empty() || out.knees.back().op != display_name(m, node) || out.knees.back().hw != hw.name)
          out.knees.push_back({display_name(m, node), hw.name, first.symbol, value, from, to});
      }
    }
    // The model's bound: between the candidates it may still change once shares cross, so neighbours of
    // each crossing are found by bisection on each stretch.
    auto model_bound = [&](int64_t v) { return sweeper.at(symbols[0], v).bound.value_or(""); };
    std::vector<int64_t> stops{first.from, first.to};
    if (where) stops.insert(stops.end(), where->begin(), where->end());
    else if (first.to - first.from <= 4096) for (int64_t v = first.from; v <= first.to; ++v) stops.push_back(v);
    else for (int64_t v = first.from; v <= first.to; v += (first.to - first.from) / 4096 + 1) stops.push_back(v);
    std::sort(stops.begin(), stops.end());
    stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
    std::string before = model_bound(stops.front());
    for (size_t i = 1; i < stops.size(); ++i) {
      std::string now = model_bound(stops[i]);
      if (now != before) {
        int64_t low = stops[i - 1], high = stops[i];
        while (high - low > 1) {
          const int64_t middle = low + (high - low) / 2;
          (model_bound(middle) == before ? low : high) = middle;
        }
        out.knees.push_back({"model", hw.name, first.symbol, high, before, model_bound(high)});
        break;
      }
    }
    for (size_t t = 0; t < targets.size(); ++t) {
      Goal goal{options.until[t], hw.name, first.symbol, std::nullopt};
      const bool least = targets[t].kind == Target::Kind::at_least;
      auto good = [&](int64_t v) { return meets(sweeper.at(symbols[0], v), targets[t]); };
      // All integers if there are few; else by bisection between the ends, as costs grow with sizes.
      if (first.to - first.from <= 4096) {
        for (int64_t v = first.from; v <= first.to; ++v)
          if (good(v)) {
            goal.value = v;
            if (least) break;
          } else if (!least && goal.value) break;
      } else {
        int64_t low = first.from, high = first.to;
        if (least ? good(high) : good(low)) {
          if (least ? good(low) : good(high)) goal.value = least ? low : high;
          else {
            while (high - low > 1) {
              const int64_t middle = low + (high - low) / 2;
              (good(middle) == least ? high : low) = middle;
            }
            goal.value = least ? high : low;
          }
        }
      }
      out.goals.push_back(std::move(goal));
    }
    if (&hw == &hardware.front()) out.formulas = total_formulas(sweeper.costing(), false);
  }
  return out;
}

}  // namespace roofcast
