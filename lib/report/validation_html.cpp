// The HTML view of a validation: predicted over measured times, and the table. One file without scripts.
#include "report/page.h"
#include "report/views.h"
#include "support/units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace roofcast {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  }
  return out;
}

// Both axes logarithmic and alike: on the diagonal the prediction is right; the band is ±15 %.
std::string scatter(const Validation& v) {
  double low = 1e300, high = 0;
  for (const ValidatedOp& row : v.ops) {
    if (!row.predicted || *row.predicted <= 0 || row.measured <= 0) continue;
    low = std::min({low, row.measured, *row.predicted}), high = std::max({high, row.measured, *row.predicted});
  }
  if (high == 0) return {};
  low /= 1.5, high *= 1.5;
  constexpr double left = 80, right = 580, bottom = 520, top = 20, band = 0.15;
  auto part = [&](double t) { return std::log(t / low) / std::log(high / low); };
  auto x = [&](double t) { return left + (right - left) * part(t); };
  auto y = [&](double t) { return bottom - (bottom - top) * part(t); };
  std::string out = "<h2>Predicted over measured</h2><svg viewBox=\"0 0 620 570\" style=\"max-width:46rem\" role=\"img\" "
                    "aria-label=\"predicted over measured times; the table below has the same figures\">";
  out += fmt::format("<path d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}L{:.1f},{:.1f}L{:.1f},{:.1f}Z\" fill=\"currentColor\" opacity=\".08\"/>", x(low), y(low * (1 + band)), x(high / (1 + band)), y(high),
                     x(high), y(high * (1 - band)), x(low / (1 - band)), y(low));
  out += fmt::format("<path class=\"roof\" d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}\"/>", x(low), y(low), x(high), y(high));
  for (double decade = std::pow(10, std::ceil(std::log10(low))); decade < high; decade *= 10)
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text><text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", x(decade), bottom + 20,
                       format_seconds(decade), left - 6, y(decade) + 4, format_seconds(decade));
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured</text>", (left + right) / 2, bottom + 42);
  for (const ValidatedOp& row : v.ops)
    if (row.predicted && *row.predicted > 0 && row.measured > 0)
      out += fmt::format("<circle class=\"{}\" cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"4\" opacity=\".75\"><title>{} {}: measured {}, predicted {}</title></circle>", row.bound.value_or("none"), x(row.measured),
                         y(*row.predicted), escaped(row.op), escaped(row.size), format_seconds(row.measured), format_seconds(*row.predicted));
  return out + "</svg>\n";
}

std::string percent(const std::optional<double>& share, const char* form) { return share ? fmt::format(fmt::runtime(form), 100 * *share) : "–"; }

}  // namespace

std::string validation_html(const Validation& v) {
  const ValidationSummary& s = v.summary;
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>roofcast validate</title><style>";
  out += page::style();
  out += "</style></head><body>\n";
  out += fmt::format("<header><h1>{}</h1><p>{}, {} cache, predicted for {}</p></header>\n", escaped(v.file), escaped(v.device), v.cache, escaped(v.hardware));
  out += fmt::format("<p>total measured {}, predicted {} ({}); median |error| {}, nine tenths below {}; Kendall τ {}</p>\n", format_seconds(s.total_measured),
                     s.total_predicted ? format_seconds(*s.total_predicted) : "–", percent(s.total_error, "{:+.1f} %"), percent(s.median_abs_error, "{:.1f} %"), percent(s.p90, "{:.1f} %"),
                     s.kendall_tau ? fmt::format("{:.2f}", *s.kendall_tau) : "–");
  out += scatter(v);
  out += "<table><thead><tr>";
  for (const char* header : {"measured", "±", "predicted", "ideal", "error", "×"}) out += fmt::format("<th class=\"number\">{}</th>", header);
  out += "<th>op</th><th>shape</th><th>bound</th></tr></thead><tbody>";
  for (const ValidatedOp& row : v.ops)
    out += fmt::format("<tr><td class=\"number\">{}</td><td class=\"number\">{:.1f} %</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                       format_seconds(row.measured), 100 * row.spread, row.predicted ? format_seconds(*row.predicted) : "–", row.predicted_ideal ? format_seconds(*row.predicted_ideal) : "–",
                       percent(row.error, "{:+.1f} %"), row.count, escaped(row.op), escaped(row.size), row.bound.value_or("–"));
  out += "</tbody></table>\n";
  if (!v.skipped.empty()) {
    out += "<h2>Skipped</h2><ul>";
    for (const SkippedOp& op : v.skipped) out += fmt::format("<li>{} × {}: {}</li>", op.count, escaped(op.name), escaped(op.reason));
    out += "</ul>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace roofcast
