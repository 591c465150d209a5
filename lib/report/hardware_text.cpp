#include "report/views.h"
#include "support/units.h"

#include <algorithm>
#include <fmt/format.h>

namespace roofcast {
namespace {

std::string origin(const Figure& f) { return f.source ? *f.source : "fitted on " + *f.fitted_on; }

std::optional<double> bandwidth(const Hardware& h) {
  const auto at = h.memory.find("hbm");
  return at == h.memory.end() || !at->second.bandwidth ? std::nullopt : std::optional(at->second.bandwidth->value);
}

}  // namespace

std::string hardware_text(const Hardware& h, bool color) {
  std::string out = fmt::format("{}   {}   {}\n\n", h.name, h.title, h.file);
  Table table(color);
  table.column("figure"), table.column("value", Align::right), table.column("knee", Align::right), table.column("source");
  const auto memory_rate = bandwidth(h);
  for (const auto& [unit, peaks] : {std::pair("matrix", &h.matrix_peak), std::pair("vector", &h.vector_peak)})
    for (const auto& [type, figure] : *peaks)
      table.row({fmt::format("peak {} {}", unit, type), format_rate(figure.value, "FLOP"),
                 memory_rate ? format_significant(figure.value / *memory_rate) + " FLOP/B" : "", origin(figure)});
  for (const auto& [name, m] : h.memory) {
    if (m.bandwidth) table.row({name + " bandwidth", format_rate(m.bandwidth->value, "B"), "", origin(*m.bandwidth)});
    if (m.capacity) table.row({name + " capacity", format_bytes(m.capacity->value), "", origin(*m.capacity)});
  }
  for (const auto& [name, f] : h.chip)
    table.row({name, name == "clock" ? format_quantity(f.value, "Hz") : format_significant(f.value) + (name == "tdp" ? " W" : ""), "", origin(f)});
  std::vector<std::pair<std::string, const Link*>> links;
  for (const auto& [name, link] : h.link)
    if (link.size != 1) links.push_back({name, &link});
  std::stable_sort(links.begin(), links.end(), [](auto& a, auto& b) { return a.second->level < b.second->level; });
  for (const auto& [name, link] : links) {
    const std::string what = fmt::format("link {} ({}, {})", name, link->size ? std::to_string(link->size) + " devices" : "any number", link->topology);
    if (link->bandwidth) table.row({what, format_rate(link->bandwidth->value, "B"), "", origin(*link->bandwidth)});
    if (link->peer_bandwidth) table.row({"  to one peer", format_rate(link->peer_bandwidth->value, "B"), "", origin(*link->peer_bandwidth)});
    if (link->latency) table.row({"  latency", format_seconds(link->latency->value), "", origin(*link->latency)});
  }
  for (const auto& [name, f] : h.kernel) table.row({"kernel " + name, format_significant(f.value, 4), "", origin(f)});
  return out + table.text();
}

std::string hardware_list_text(const std::vector<Hardware>& all, bool color) {
  Table table(color);
  table.column("name"), table.column("what"), table.column("bf16 matrix", Align::right), table.column("memory", Align::right);
  table.column("bandwidth", Align::right), table.column("knee", Align::right), table.column("link", Align::right);
  for (const Hardware& h : all) {
    auto peak = h.matrix_peak.find("bf16");
    if (peak == h.matrix_peak.end()) peak = h.matrix_peak.find("fp16");
    const bool has_peak = peak != h.matrix_peak.end();
    const auto rate = bandwidth(h);
    const auto memory = h.memory.find("hbm");
    const Link* inner = nullptr;
    for (const auto& [name, link] : h.link)
      if (link.size != 1 && (!inner || link.level < inner->level)) inner = &link;
    table.row({h.name, h.title, has_peak ? format_rate(peak->second.value, "FLOP") : "–",
               memory != h.memory.end() && memory->second.capacity ? format_bytes(memory->second.capacity->value) : "–",
               rate ? format_rate(*rate, "B") : "–", has_peak && rate ? format_significant(peak->second.value / *rate) : "–",
               inner && inner->bandwidth ? format_rate(inner->bandwidth->value, "B") : "–"});
  }
  return table.text() + "dense peaks (fp16 where there is no bf16); bandwidth per direction; `roofcast hw NAME` gives all figures and sources\n";
}

}  // namespace roofcast
