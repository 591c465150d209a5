#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

std::string percent(const std::optional<double>& share, bool sign) {
  if (!share) return "–";
  return sign ? fmt::format("{:+.1f} %", 100 * *share) : fmt::format("{:.1f} %", 100 * *share);
}
std::string seconds(const std::optional<double>& v) { return v ? format_seconds(*v) : "–"; }

Table table_of(const Validation& v, bool color) {
  Table table(color);
  for (const char* header : {"measured", "±", "predicted", "ideal", "error", "×"}) table.column(header, Align::right);
  for (const char* header : {"op", "shape", "bound", ""}) table.column(header);
  for (const ValidatedOp& row : v.ops)
    table.row({format_seconds(row.measured), percent(row.spread, false), seconds(row.predicted), seconds(row.predicted_ideal), percent(row.error, true),
               std::to_string(row.count), row.op, row.size, row.bound.value_or("–"), row.noisy ? "! noisy" : ""});
  return table;
}

}  // namespace

std::string validation_text(const Validation& v, bool color, bool markdown) {
  std::string out = v.source == "profile"
                        ? fmt::format("{} on {}, predicted for {}\n\n", v.file, v.device, v.hardware)
                        : fmt::format("{} on {}, {} cache, {} distinct ops, predicted for {}\n\n", v.file, v.device, v.cache, v.ops.size(), v.hardware);
  const Table table = table_of(v, color);
  out += markdown ? table.markdown() : table.text();
  const ValidationSummary& s = v.summary;
  out += fmt::format("total  measured {}, predicted {} ({})   median |error| {}, p90 {}, Kendall τ {}\n", format_seconds(s.total_measured), seconds(s.total_predicted),
                     percent(s.total_error, true), percent(s.median_abs_error, false), percent(s.p90, false), s.kendall_tau ? fmt::format("{:.2f}", *s.kendall_tau) : "–");
  if (v.interrupted) out += "interrupted: the rows above are what was timed\n";
  if (v.skipped.empty()) return out + "skipped: none\n";
  out += "skipped:\n";
  for (const SkippedOp& op : v.skipped) out += fmt::format("  {} × {}: {}\n", op.count, op.name, op.reason);
  return out;
}

std::string validation_csv(const Validation& v) {
  Table table;
  fields([&](std::string_view name, const auto&, Unit = Unit::none, std::string_view = {}) { table.column(name); }, ValidatedOp());
  for (const ValidatedOp& row : v.ops) {
    std::vector<std::string> cells;
    fields([&](std::string_view, const auto& item, Unit = Unit::none, std::string_view = {}) {
      using T = std::decay_t<decltype(item)>;
      if constexpr (std::is_same_v<T, std::string>) cells.push_back(item);
      else if constexpr (std::is_same_v<T, std::optional<std::string>>) cells.push_back(item.value_or(""));
      else if constexpr (std::is_same_v<T, std::optional<double>>) cells.push_back(item ? fmt::format("{}", *item) : "");
      else if constexpr (std::is_same_v<T, std::vector<int64_t>>) cells.push_back(fmt::format("{}", fmt::join(item, "x")));
      else cells.push_back(fmt::format("{}", item));
    }, row);
    table.row(std::move(cells));
  }
  return table.csv();
}

}  // namespace roofcast
