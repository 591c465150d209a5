#include "roofcast/diff.h"

#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

namespace roofcast {
namespace {

Change change(std::optional<double> a, std::optional<double> b) {
  Change c{a, b, std::nullopt};
  if (a && b && *a != 0) c.ratio = *b / *a;
  return c;
}

std::vector<NamedChange> compare(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  std::vector<NamedChange> out;
  auto add = [&](const std::string& name, std::optional<double> x, std::optional<double> y) {
    if (x == y) return;
    NamedChange c;
    static_cast<Change&>(c) = change(x, y);
    c.name = name;
    out.push_back(std::move(c));
  };
  for (const auto& [name, time] : a) {
    const auto at = b.find(name);
    add(name, time, at == b.end() ? std::nullopt : std::optional(at->second));
  }
  for (const auto& [name, time] : b)
    if (!a.contains(name)) add(name, std::nullopt, time);
  auto size = [](const NamedChange& c) { return std::fabs(c.b.value_or(0) - c.a.value_or(0)); };
  std::stable_sort(out.begin(), out.end(), [&](const NamedChange& x, const NamedChange& y) { return size(x) > size(y); });
  return out;
}

template <class Key> std::map<std::string, double> times_by(const Analysis& a, Key&& key) {
  std::map<std::string, double> out;
  for (const OpRow& row : a.ops)
    if (row.time && *row.time > 0) out[key(row)] += *row.time;
  return out;
}

// Reads what `fields` names back from a JSON object.
class FieldReader {
public:
  explicit FieldReader(const nlohmann::json& object) : object_(object) {}
  template <class T> void operator()(std::string_view name, const T& item, Unit = Unit::none, std::string_view = {}) const {
    const auto at = object_.find(std::string(name));
    if (at == object_.end()) return;
    T& out = const_cast<T&>(item);  // the struct that is being filled is not const
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (at->is_number()) out = at->template get<double>();
    } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      if (at->is_string()) out = at->template get<std::string>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (at->is_string()) out = at->template get<std::string>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (at->is_number()) out = at->template get<double>();
    } else if constexpr (std::is_same_v<T, std::optional<bool>>) {
      if (at->is_boolean()) out = at->template get<bool>();
    }
  }

private:
  const nlohmann::json& object_;
};

}  // namespace

Diff diff(const Analysis& a, const Analysis& b) {
  Diff d;
  d.a = a.totals, d.b = b.totals;
  d.name_a = a.model.file + " on " + a.hardware.name, d.name_b = b.model.file + " on " + b.hardware.name;
  std::map<std::string, std::optional<double>> first;
  fields([&](std::string_view name, const auto& item, Unit, std::string_view) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::optional<double>>) first[std::string(name)] = item;
  }, a.totals);
  fields([&](std::string_view name, const auto& item, Unit, std::string_view) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::optional<double>>)
      if (first[std::string(name)] || item) d.totals[std::string(name)] = change(first[std::string(name)], item);
  }, b.totals);
  auto by_name = [](const OpRow& row) { return row.name; };
  auto by_op = [](const OpRow& row) { return row.op; };
  auto by_scope = [](const OpRow& row) { return row.scope.value_or("–"); };
  d.ops = compare(times_by(a, by_name), times_by(b, by_name));
  d.by_op = compare(times_by(a, by_op), times_by(b, by_op));
  d.by_scope = compare(times_by(a, by_scope), times_by(b, by_scope));
  return d;
}

Result<Analysis> read_analysis(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error("file-missing", "cannot be read", {.file = path}, "check the path");
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != "roofcast/analysis/1")
    return error("file-kind", "is no analysis", {.file = path}, "make one by `roofcast analyze MODEL --format json -o FILE`");
  Analysis a;
  const auto part = [&](const char* name) {
    const auto at = json.find(name);
    return at != json.end() && at->is_object() ? *at : nlohmann::json::object();
  };
  fields(FieldReader(part("totals")), a.totals);
  a.model.file = part("model").value("file", nlohmann::json(path)).is_string() ? part("model").value("file", path) : path;
  a.hardware.name = part("hardware").contains("name") && part("hardware")["name"].is_string() ? part("hardware")["name"].get<std::string>() : "";
  if (const auto ops = json.find("ops"); ops != json.end() && ops->is_array())
    for (const nlohmann::json& row : *ops)
      if (row.is_object()) fields(FieldReader(row), a.ops.emplace_back());
  return a;
}

std::optional<bool> exceeds(const Diff& d, const std::string& rule) {
  const size_t at = rule.find_first_of("<>");
  if (at == rule.npos || at == 0 || rule.back() != '%') return std::nullopt;
  const auto field = d.totals.find(rule.substr(0, at));
  std::string_view number = std::string_view(rule).substr(at + 1, rule.size() - at - 2);
  if (number.starts_with('+')) number.remove_prefix(1);
  double percent = 0;
  const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), percent);
  if (fault != std::errc() || end != number.data() + number.size() || field == d.totals.end()) return std::nullopt;
  const Change& c = field->second;
  if (!c.a || !c.b) return true;  // appeared or vanished
  const double grown = *c.a != 0 ? 100 * (*c.b / *c.a - 1) : *c.b == 0 ? 0 : INFINITY;
  return rule[at] == '>' ? grown > percent : grown < percent;
}

}  // namespace roofcast
