// The text view of an Analysis: what bounds the model, which ops take the time, where they sit
// against the knee.
#include "report/views.h"
#include "support/units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace roofcast {
namespace {

struct Line {
  double share = 0, time = 0;
  bool has_time = true;
  double count = 0;
  std::string op, at, size, bound, note;
  std::optional<double> intensity, knee;
  double flops = 0, bytes = 0;
};

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts(1);
  for (char c : path)
    if (c == '/' || c == '.') parts.emplace_back();
    else parts.back() += c;
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  return parts;
}

// What all paths have in common. Where they differ in a few names these are listed, else * stands;
// paths of different length are cut.
class CommonPath {
public:
  void add(const std::string& path) {
    std::vector<std::string> parts = split(path);
    if (first_) {
      for (std::string& part : parts) common_.push_back({std::move(part)});
      first_ = false;
      return;
    }
    if (parts.size() != common_.size()) {
      const size_t least = std::min(parts.size(), common_.size());
      common_.resize(least), parts.resize(least), cut_ = true;
    }
    for (size_t i = 0; i < common_.size(); ++i) {
      std::vector<std::string>& names = common_[i];
      if (names.size() <= most_named && std::find(names.begin(), names.end(), parts[i]) == names.end()) names.push_back(std::move(parts[i]));
    }
  }
  std::string text() const {
    std::string out;
    for (const std::vector<std::string>& names : common_) out += (out.empty() ? "" : ".") + piece(names);
    if (cut_) out += out.empty() ? "…" : ".…";
    // The end of a long path tells more than its beginning.
    constexpr size_t widest = 40;
    if (out.size() > widest) {
      size_t from = out.size() - widest;
      while (from < out.size() && (out[from] & 0xC0) == 0x80) ++from;
      out = "…" + out.substr(from);
    }
    return out;
  }

private:
  static constexpr size_t most_named = 2;
  static std::string piece(const std::vector<std::string>& names) {
    if (names.size() == 1) return names[0];
    const bool number = std::any_of(names.begin(), names.end(), [](const std::string& n) { return !n.empty() && std::isdigit(static_cast<unsigned char>(n[0])); });
    if (names.size() > most_named || number) return "*";
    return "{" + names[0] + "," + names[1] + "}";
  }

  std::vector<std::vector<std::string>> common_;
  bool first_ = true, cut_ = false;
};

Style style_of(const std::string& bound) {
  return bound == "compute" ? Style::green : bound == "memory" ? Style::yellow : bound == "communication" ? Style::red : Style::plain;
}

std::vector<Line> lines_of(const Analysis& a, const std::string& by) {
  struct Sum {
    Line line;
    CommonPath path;
  };
  std::map<std::string, size_t> index;
  std::vector<Sum> sums;
  for (const OpRow& row : a.ops) {
    if (row.group < 0 || row.count == 0) continue;
    std::string key = by == "op" ? row.op : by == "bound" ? row.bound.value_or("–") : by == "scope" ? row.scope.value_or("–")
                      : row.op + "\n" + std::to_string(row.group);
    auto [at, is_new] = index.try_emplace(std::move(key), sums.size());
    if (is_new) {
      sums.emplace_back();
      Line& l = sums.back().line;
      l.op = by == "bound" ? row.bound.value_or("–") : by == "scope" ? row.scope.value_or("–") : row.op;
      if (by.empty()) {
        const Group& g = a.groups[static_cast<size_t>(row.group)];
        l.size = g.size, l.intensity = row.intensity, l.knee = g.knee;
      }
    }
    Sum& sum = sums[at->second];
    if (row.time) sum.line.time += *row.time;
    else sum.line.has_time = false;
    sum.line.count += row.count;
    sum.line.flops += row.flops.value_or(0), sum.line.bytes += row.bytes_read.value_or(0) + row.bytes_written.value_or(0);
    const std::string bound = row.bound.value_or("");
    if (is_new) sum.line.bound = bound;
    else if (sum.line.bound != bound) sum.line.bound = "mixed";
    sum.path.add(row.scope ? *row.scope : row.name);
  }
  const double total = a.totals.time.value_or(0);
  std::vector<Line> lines;
  for (Sum& s : sums) {
    s.line.at = s.path.text();
    s.line.share = total > 0 ? s.line.time / total : 0;
    if (!s.line.intensity && s.line.bytes > 0) s.line.intensity = s.line.flops / s.line.bytes;
    if (s.line.intensity && s.line.knee) {
      const double ratio = *s.line.intensity / *s.line.knee;
      if (ratio > 0.8 && ratio < 1.25) s.line.note = "near the knee";
    }
    lines.push_back(std::move(s.line));
  }
  return lines;
}

void sort_lines(std::vector<Line>& lines, const std::string& column) {
  auto value = [&](const Line& l) {
    if (column == "flops") return l.flops;
    if (column == "bytes") return l.bytes;
    if (column == "intensity") return l.intensity.value_or(0);
    if (column == "count") return l.count;
    return l.time;
  };
  std::stable_sort(lines.begin(), lines.end(), [&](const Line& x, const Line& y) {
    if (value(x) != value(y)) return value(x) > value(y);
    return x.bytes > y.bytes;
  });
}

std::string header(const Analysis& a) {
  std::string line = a.model.file;
  if (const size_t slash = line.rfind('/'); slash != line.npos) line = line.substr(slash + 1);
  line += fmt::format("   {} parameters, {}   {} ops, {} distinct      {}, {}, {} model\n", format_count(static_cast<double>(a.model.parameters)),
                      format_bytes(static_cast<double>(a.model.parameter_bytes)), a.coverage.ops, a.groups.size(), a.hardware.name,
                      a.layout.devices() == 1 ? "1 device" : std::to_string(a.layout.devices()) + " devices", a.time_model);
  std::string symbols;
  for (const auto& [name, value] : a.symbols) {
    const bool assumed = std::any_of(a.coverage.assumed.begin(), a.coverage.assumed.end(), [&](const Assumed& s) { return s.symbol == name; });
    if (!assumed && symbols.size() < 120) symbols += (symbols.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  }
  if (!symbols.empty()) line += "symbols " + symbols + "\n";
  if (a.layout.devices() > 1 || a.phase == "training") line += fmt::format("layout {}, {}\n", a.layout.text(), a.phase);
  return line;
}

std::string answers(const Analysis& a, bool color) {
  const Totals& t = a.totals;
  std::string out;
  auto row = [&](std::string_view name, const std::string& value, const std::string& meaning) {
    out += fmt::format("  {:<9} {:<12}{}\n", name, value, meaning.empty() ? "" : styled("# " + meaning, Style::dim, color));
  };
  if (t.bound) {
    const BoundShares& s = *t.bound_shares;
    std::string shares;
    for (const auto& [what, share] : {std::pair("at the compute roof", s.compute), std::pair("at the memory roof", s.memory),
                                      std::pair("waiting for the network", s.communication), std::pair("in launches and latency", s.overhead)})
      if (share > 0) shares += (shares.empty() ? "" : ", ") + format_share(share) + (shares.empty() ? " of time " : " ") + what;
    row("bound", styled(*t.bound, style_of(*t.bound), color) + std::string(12 - std::min<size_t>(12, t.bound->size()), ' '), shares);
  }
  if (t.time) row("time", format_seconds(*t.time), a.totals.time_ideal && *a.totals.time_ideal != *t.time ? "ideal roofline " + format_seconds(*t.time_ideal) : "");
  if (t.mfu) row("MFU", format_share(*t.mfu), fmt::format("{} of {} possible in that time", format_flops(*t.matrix_flops), format_flops(*t.matrix_flops / *t.mfu)));
  auto seconds = [](const std::optional<double>& v) { return v ? format_seconds(*v) : std::string("–"); };
  out += fmt::format("  T_math    {}   T_hbm {}   T_net {}", seconds(t.t_math), seconds(t.t_hbm), seconds(t.t_net));
  if (t.intensity) out += fmt::format("      {} FLOP/B", format_significant(*t.intensity));
  if (a.knee) out += fmt::format(", knee {} ({})", format_significant(*a.knee), *a.main_math);
  out += "\n";
  if (t.peak_memory) {
    std::string note = t.memory_capacity ? (*t.fits ? "fits in " : "does not fit in ") + format_bytes(*t.memory_capacity) : "";
    if (t.why_not) note += ": " + *t.why_not;
    row("memory", format_bytes(*t.peak_memory), note);
  }
  return out;
}

std::string coverage(const Analysis& a, bool color) {
  const Coverage& c = a.coverage;
  std::string out = "  ";
  out += c.uncounted.empty() ? "all ops counted" : styled(fmt::format("{} of {} ops NOT counted", c.ops - c.counted, c.ops), Style::red, color);
  out += c.shapes_known == c.tensors ? ", all shapes known\n" : fmt::format(", {} of {} shapes known\n", c.shapes_known, c.tensors);
  for (const Uncounted& u : c.uncounted)
    out += fmt::format("    {} × {} ({}): {}; e.g. {}\n", u.count, u.op, u.domain, u.reason, u.example);
  constexpr size_t shown = 6;
  for (size_t i = 0; i < c.assumed.size() && i < shown; ++i) {
    const Assumed& s = c.assumed[i];
    out += fmt::format("  assumed {} = {}{}: {}\n", s.symbol, s.used, s.bound ? fmt::format(" (at most {})", *s.bound) : "", s.why);
  }
  if (c.assumed.size() > shown) out += fmt::format("  … and {} more assumed sizes (--format json lists all)\n", c.assumed.size() - shown);
  return out;
}

Table table_of(const std::vector<Line>& lines, size_t shown, const std::string& by, bool color) {
  Table table(color);
  table.column("share", Align::right), table.column("time", Align::right), table.column("×", Align::right);
  table.column(by == "bound" ? "bound" : by == "scope" ? "scope" : "op");
  if (by.empty()) table.column("at"), table.column("shape");
  table.column("FLOP/B", Align::right);
  if (by != "bound") table.column("bound");
  if (by.empty()) table.column("");
  for (size_t i = 0; i < lines.size() && i < shown; ++i) {
    const Line& l = lines[i];
    std::vector<std::string> cells{l.has_time ? format_share(l.share) : "–", l.has_time ? format_seconds(l.time) : "–",
                                   l.count == std::floor(l.count) ? fmt::format("{:.0f}", l.count) : format_significant(l.count), l.op};
    if (by.empty()) cells.push_back(l.at), cells.push_back(l.size);
    cells.push_back(l.intensity ? format_significant(*l.intensity) : "–");
    if (by != "bound") cells.push_back(l.bound);
    if (by.empty()) cells.push_back(l.note);
    table.row(std::move(cells), l.bound == "memory" || l.bound == "mixed" ? Style::plain : style_of(l.bound));
  }
  return table;
}

}  // namespace

std::string explanation_text(const NodeExplanation& e, bool color) {
  std::string out = fmt::format("{}   {}   {}\n", styled(e.node, Style::bold, color), e.op, e.size);
  if (!e.access.empty()) out += "  " + e.access + "\n";
  auto add = [&](const std::vector<ExplainedTerm>& terms) {
    for (const ExplainedTerm& t : terms) out += fmt::format("  {:<18} {:>9}   {}\n", t.name, t.seconds > 0 ? format_seconds(t.seconds) : "–", t.why);
  };
  add(e.terms);
  if (e.time) out += fmt::format("  {:<18} {:>9}   {}\n", "time", format_seconds(*e.time), e.bound ? "bound by " + *e.bound : "");
  if (e.ideal_terms.empty()) return out;
  out += "  by the ideal model\n";
  add(e.ideal_terms);
  if (e.time_ideal) out += fmt::format("  {:<18} {:>9}\n", "ideal time", format_seconds(*e.time_ideal));
  return out;
}

std::string analysis_text(const Analysis& a, const ViewOptions& options) {
  if (a.explanation) return explanation_text(*a.explanation, options.color);
  std::vector<Line> lines = lines_of(a, options.by);
  sort_lines(lines, options.sort);
  const size_t shown = options.top == 0 ? lines.size() : std::min(lines.size(), options.top);
  std::string out = header(a) + "\n" + answers(a, options.color) + "\n";
  out += table_of(lines, shown, options.by, options.color).text();
  if (shown < lines.size()) {
    double rest = 0;
    for (size_t i = shown; i < lines.size(); ++i) rest += lines[i].share;
    out += fmt::format("  … {} more rows, {} of time (--top 0)\n", lines.size() - shown, format_share(rest));
  }
  if (!a.collectives.empty()) out += "\n" + collectives_text(a.collectives, options);
  return out + "\n" + coverage(a, options.color);
}

std::string next_steps(const Analysis& a) {
  constexpr double worth_a_look = 0.1;  // of the time
  std::vector<std::string> steps;
  if (const auto& shares = a.totals.bound_shares; shares && shares->memory >= worth_a_look)
    steps.push_back(fmt::format("roofcast fuse ({} of time is memory-bound)", format_share(shares->memory)));
  if (a.time_model == "ideal") steps.push_back("--model kernel for launch and tile effects");
  return steps.empty() ? std::string() : fmt::format("  next: {}\n", fmt::join(steps, "   ·   "));
}

std::string analysis_markdown(const Analysis& a, const ViewOptions& options) {
  std::vector<Line> lines = lines_of(a, options.by);
  sort_lines(lines, options.sort);
  const size_t shown = options.top == 0 ? lines.size() : std::min(lines.size(), options.top);
  return "```\n" + header(a) + "\n" + answers(a, false) + "```\n\n" + table_of(lines, shown, options.by, false).markdown() + "\n```\n" + coverage(a, false) + "```\n";
}

std::string analysis_csv(const Analysis& a) {
  Table table;
  bool first = true;
  for (const OpRow& row : a.ops) {
    std::vector<std::string> cells;
    fields([&](std::string_view name, const auto& item, Unit, std::string_view) {
      if (first) table.column(name);
      JsonWriter json(false);
      if (is_absent(item)) {
        cells.emplace_back();
        return;
      }
      write_json(json, item);
      std::string text = json.take();
      if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
      cells.push_back(std::move(text));
    }, row);
    first = false;
    table.row(std::move(cells));
  }
  return table.csv();
}

}  // namespace roofcast
