#include "hw/hardware.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string figure(const Figure& f) {
  std::string out = fmt::format("{{ value = {:.6g}", f.value);
  if (f.source) out += ", source = " + quoted(*f.source);
  if (f.fitted_on) out += ", fitted_on = " + quoted(*f.fitted_on);
  return out + " }";
}

std::string figures(std::string_view title, const std::map<std::string, Figure>& all) {
  if (all.empty()) return {};
  std::string out = fmt::format("\n[{}]\n", title);
  for (const auto& [name, f] : all) out += fmt::format("{} = {}\n", name, figure(f));
  return out;
}

}  // namespace

std::string to_toml(const Hardware& h, std::string_view extends) {
  std::string out;
  if (!extends.empty()) out += "extends = " + quoted(extends) + "\n";
  out += "name = " + quoted(h.name) + "\n";
  for (const auto& [key, text] : {std::pair("title", &h.title), std::pair("vendor", &h.vendor), std::pair("family", &h.family)})
    if (!text->empty()) out += fmt::format("{} = {}\n", key, quoted(*text));
  out += figures("chip", h.chip) + figures("peak.matrix", h.matrix_peak) + figures("peak.vector", h.vector_peak);
  for (const auto& [name, m] : h.memory) {
    out += fmt::format("\n[memory.{}]\n", name);
    if (m.kind) out += "kind = " + quoted(*m.kind) + "\n";
    if (m.bandwidth) out += "bandwidth = " + figure(*m.bandwidth) + "\n";
    if (m.capacity) out += "capacity = " + figure(*m.capacity) + "\n";
  }
  for (const auto& [name, l] : h.link) {
    out += fmt::format("\n[link.{}]\nlevel = {}\nsize = {}\ntopology = {}\n", name, l.level, l.size, quoted(l.topology));
    if (l.in_network_reduction) out += "in_network_reduction = true\n";
    if (l.bandwidth) out += "bandwidth = " + figure(*l.bandwidth) + "\n";
    if (l.peer_bandwidth) out += "peer_bandwidth = " + figure(*l.peer_bandwidth) + "\n";
    if (l.latency) out += "latency = " + figure(*l.latency) + "\n";
  }
  return out + figures("kernel", h.kernel);
}

}  // namespace roofcast
