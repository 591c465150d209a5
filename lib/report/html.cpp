// The HTML report: one file, no network. Rows are summed to distinct problems, so that 16,000 ops stay
// small and quick.
#include "report/page.h"
#include "report/views.h"
#include "support/units.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace roofcast {
namespace {

struct PageGroup {
  int64_t id = 0;
  std::string op, at, size, bound;
  double count = 0;
  std::optional<double> flops, bytes, time, t_math, t_hbm;  // of one run
};
template <class F> void fields(F&& field, const PageGroup& g) {
  field("id", g.id), field("op", g.op), field("at", g.at), field("size", g.size), field("bound", g.bound), field("count", g.count);
  field("flops", g.flops), field("bytes", g.bytes), field("time", g.time), field("t_math", g.t_math), field("t_hbm", g.t_hbm);
}

struct PageSum {
  std::string name, bound;
  double time = 0;
};
template <class F> void fields(F&& field, const PageSum& s) { field("name", s.name), field("bound", s.bound), field("time", s.time); }

struct PageRoof {
  std::string name, unit;
  double peak = 0;
};
template <class F> void fields(F&& field, const PageRoof& r) { field("name", r.name), field("unit", r.unit), field("peak", r.peak); }

struct Page {
  std::string model, hardware, time_model, symbols;
  int64_t devices = 1, ops = 0;
  Totals totals;
  std::vector<PageGroup> groups;
  std::vector<PageRoof> roofs;
  std::optional<double> bandwidth;
  std::map<std::string, std::vector<PageSum>> sums;
  std::vector<CollectiveRow> collectives;
  std::vector<std::string> notes;
};
template <class F> void fields(F&& field, const Page& p) {
  field("model", p.model), field("hardware", p.hardware), field("time_model", p.time_model), field("symbols", p.symbols);
  field("devices", p.devices), field("ops", p.ops), field("totals", p.totals), field("groups", p.groups), field("roofs", p.roofs);
  field("bandwidth", p.bandwidth), field("sums", p.sums), field("collectives", p.collectives), field("notes", p.notes);
}

Page page_of(const Analysis& a, const Hardware& h) {
  Page p;
  p.model = a.model.file.substr(a.model.file.rfind('/') + 1);
  p.hardware = a.hardware.name, p.time_model = a.time_model, p.devices = a.layout.devices(), p.ops = a.coverage.ops;
  p.totals = a.totals;
  p.collectives = a.collectives;
  for (const auto& [name, value] : a.symbols)
    if (p.symbols.size() < 200) p.symbols += (p.symbols.empty() ? "" : ", ") + name + " = " + std::to_string(value);

  std::map<std::string, size_t> index;
  std::map<std::string, std::map<std::string, std::pair<double, std::map<std::string, double>>>> sums;
  for (const OpRow& row : a.ops) {
    if (row.group < 0 || row.count == 0) continue;
    const std::string scope = row.scope.value_or("–"), bound = row.bound.value_or("none");
    const auto [at, is_new] = index.try_emplace(row.op + "\n" + std::to_string(row.group), p.groups.size());
    if (is_new) {
      auto one = [&](const std::optional<double>& v) { return v ? std::optional(*v / row.count) : v; };
      p.groups.push_back({static_cast<int64_t>(p.groups.size()), row.op, row.scope.value_or(row.name), a.groups[static_cast<size_t>(row.group)].size, bound, 0,
                          one(row.flops), std::nullopt, one(row.time), one(row.t_math), one(row.t_hbm)});
      if (row.bytes_read && row.bytes_written) p.groups.back().bytes = (*row.bytes_read + *row.bytes_written) / row.count;
    }
    p.groups[at->second].count += row.count;
    const double time = row.time.value_or(0);
    for (const auto& [by, key] : {std::pair("op", row.op), std::pair("scope", scope), std::pair("bound", bound)}) {
      auto& sum = sums[by][key];
      sum.first += time, sum.second[bound] += time;
    }
  }
  for (const char* by : {"op", "scope", "bound"}) {
    std::vector<PageSum>& list = p.sums[by];
    for (const auto& [name, sum] : sums[by]) {
      const auto main = std::max_element(sum.second.begin(), sum.second.end(), [](auto& x, auto& y) { return x.second < y.second; });
      list.push_back({name, main->first, sum.first});
    }
    // The bars show the largest; thousands of scopes would only make the file large.
    std::stable_sort(list.begin(), list.end(), [](const PageSum& x, const PageSum& y) { return x.time > y.time; });
    if (list.size() > 500) list.resize(500);
  }
  if (a.main_math)
    if (const auto at = h.matrix_peak.find(*a.main_math); at != h.matrix_peak.end()) p.roofs.push_back({*a.main_math + " matrix", "matrix", at->second.value});
  if (const auto at = h.vector_peak.find("fp32"); at != h.vector_peak.end()) p.roofs.push_back({"fp32 vector", "vector", at->second.value});
  if (const auto at = h.memory.find("hbm"); at != h.memory.end() && at->second.bandwidth) p.bandwidth = at->second.bandwidth->value;

  if (a.coverage.uncounted.empty()) p.notes.push_back("All ops are counted.");
  for (const Uncounted& u : a.coverage.uncounted) p.notes.push_back(fmt::format("{} × {} ({}) not counted: {}", u.count, u.op, u.domain, u.reason));
  p.notes.push_back(fmt::format("{} of {} shapes are known.", a.coverage.shapes_known, a.coverage.tensors));
  constexpr size_t shown = 20;
  for (size_t i = 0; i < a.coverage.assumed.size() && i < shown; ++i)
    p.notes.push_back(fmt::format("{} = {} is assumed: {}", a.coverage.assumed[i].symbol, a.coverage.assumed[i].used, a.coverage.assumed[i].why));
  if (a.coverage.assumed.size() > shown) p.notes.push_back(fmt::format("… and {} more assumed sizes", a.coverage.assumed.size() - shown));
  return p;
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  const size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), by);
}

}  // namespace

std::string analysis_html(const Analysis& a, const Hardware& hardware) {
  JsonWriter json(false);
  write_json(json, page_of(a, hardware));
  std::string data = json.take();
  // "</script>" in a name must not end the script.
  for (size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3) data.replace(at, 2, "<\\/");
  std::string out(page::html());
  // The data last: names in it may look like marks.
  replace(out, "/*STYLE*/", page::style());
  replace(out, "/*LIBRARY*/", page::library());
  replace(out, "/*SCRIPT*/", page::script());
  replace(out, "/*DATA*/", data);
  return out;
}

}  // namespace roofcast
