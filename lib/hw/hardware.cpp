#include "hw/hardware.h"

#include <algorithm>

namespace roofcast {
namespace {

std::optional<double> value_of(const std::map<std::string, Figure>& figures, std::string_view name) {
  const auto at = figures.find(std::string(name));
  return at == figures.end() ? std::nullopt : std::optional(at->second.value);
}

std::optional<double> value_of(const std::optional<Figure>& figure) {
  return figure ? std::optional(figure->value) : std::nullopt;
}

const Memory* find_memory(const Hardware& hardware, const char* name) {
  const auto at = hardware.memory.find(name);
  return at == hardware.memory.end() ? nullptr : &at->second;
}

}  // namespace

std::optional<double> vector_rate(const Hardware& hardware, MathType type) {
  if (const auto own = value_of(hardware.vector_peak, name(type))) return own;
  if (type == MathType::fp64) return std::nullopt;
  return value_of(hardware.vector_peak, "fp32");
}

std::optional<double> matrix_rate(const Hardware& hardware, MathType type) {
  if (const auto own = value_of(hardware.matrix_peak, name(type))) return own;
  if (type == MathType::fp32 || type == MathType::fp64 || hardware.matrix_peak.empty())
    return value_of(hardware.vector_peak, name(type));
  return std::nullopt;
}

std::optional<double> memory_bandwidth(const Hardware& hardware) {
  const Memory* hbm = find_memory(hardware, "hbm");
  return hbm ? value_of(hbm->bandwidth) : std::nullopt;
}

std::optional<double> memory_capacity(const Hardware& hardware) {
  const Memory* hbm = find_memory(hardware, "hbm");
  return hbm ? value_of(hbm->capacity) : std::nullopt;
}

std::optional<double> cache_capacity(const Hardware& hardware) {
  const Memory* l2 = find_memory(hardware, "l2");
  return l2 ? value_of(l2->capacity) : std::nullopt;
}

std::optional<double> constant(const Hardware& hardware, const std::string& name) {
  if (const auto own = value_of(hardware.kernel, name)) return own;
  return value_of(hardware.chip, name);
}

std::vector<std::pair<std::string, const Link*>> link_levels(const Hardware& hardware) {
  std::vector<std::pair<std::string, const Link*>> levels;
  for (const auto& [name, link] : hardware.link)
    if (link.size != 1) levels.push_back({name, &link});  // size 1: an overlay took it out
  std::stable_sort(levels.begin(), levels.end(),
                   [](const auto& a, const auto& b) { return a.second->level < b.second->level; });
  return levels;
}

std::optional<double> knee(const Hardware& hardware, MathType type) {
  const auto peak = matrix_rate(hardware, type), bandwidth = memory_bandwidth(hardware);
  return peak && bandwidth ? std::optional(*peak / *bandwidth) : std::nullopt;
}

}  // namespace roofcast
