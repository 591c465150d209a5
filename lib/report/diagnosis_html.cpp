// The HTML view of a diagnosis: one file without scripts; bars are plain elements, so it prints and reads
// aloud as tables.
#include "report/page.h"
#include "report/views.h"
#include "support/units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace roofcast {
namespace {

double seconds(Nanoseconds t) { return static_cast<double>(t.count()) * 1e-9; }

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// One bar of parts of a whole.
std::string bar(const std::vector<std::tuple<const char*, const char*, double>>& parts) {
  std::string out = "<div class=\"bar\">";
  for (const auto& [name, style, share] : parts)
    if (share > 0.0005) out += fmt::format("<span class=\"{}\" style=\"width:{:.3f}%\" title=\"{} {}\">{}</span>", style, 100 * share, name, format_share(share), share > 0.08 ? fmt::format("{} {}", name, format_share(share)) : "");
  return out + "</div>";
}

// The roofline with what was achieved, log-log, as a picture without scripts.
std::string roofline(const Diagnosis& d) {
  if (d.achieved.empty() || !d.peak || !d.memory_bandwidth) return {};
  const double peak = *d.peak, bandwidth = *d.memory_bandwidth, knee = peak / bandwidth;
  double left = knee / 1000, right = knee * 30, low = peak / 1e4;
  for (const Achieved& a : d.achieved)
    if (a.bytes > 0 && a.flops > 0) left = std::min(left, a.flops / a.bytes / 3), right = std::max(right, a.flops / a.bytes * 3), low = std::min(low, a.flops_rate / 3);
  auto x = [&](double v) { return 60 + 900 * std::log(v / left) / std::log(right / left); };
  auto y = [&](double v) { return 360 - 340 * std::log(v / low) / std::log(peak * 2 / low); };
  const double start = std::max(left, low / bandwidth);
  std::string out = "<h2>Roofline</h2><svg viewBox=\"0 0 1000 400\" role=\"img\" aria-label=\"achieved rates against the roofline\">";
  out += fmt::format("<path class=\"roof\" d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}H{:.1f}\"/>", x(start), y(start * bandwidth), x(knee), y(peak), x(right));
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text><text x=\"{:.1f}\" y=\"390\">FLOP per byte; knee {}</text>", x(knee), y(peak) - 6, format_rate(peak, "FLOP"), x(knee), format_significant(knee));
  for (const Achieved& a : d.achieved) {
    if (a.bytes <= 0 || a.flops <= 0) continue;
    out += fmt::format("<circle class=\"{}\" cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"8\"><title>{} kernels: {}, {} of the roofline</title></circle><text x=\"{:.1f}\" y=\"{:.1f}\">{} kernels, {} of the roof</text>",
                       a.leaning == "matrix" ? "compute" : "memory", x(a.flops / a.bytes), y(a.flops_rate), a.leaning, format_rate(a.flops_rate, "FLOP"), format_share(a.share_of_roof), x(a.flops / a.bytes) + 12,
                       y(a.flops_rate) + 4, a.leaning, format_share(a.share_of_roof));
  }
  return out + "</svg>\n";
}

}  // namespace

std::string diagnosis_html(const Diagnosis& d) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>roofcast diagnose</title><style>";
  out += page::style();
  out += ".bar{display:flex;height:1.2rem;border-radius:3px;overflow:hidden;margin:.15rem 0}.bar span{color:#fff;font-size:.75rem;padding:0 .3rem;white-space:nowrap;overflow:hidden;box-sizing:border-box}</style></head><body>\n";
  out += fmt::format("<header><h1>{}</h1><p>{}</p></header>\n", escaped(d.verdict ? *d.verdict + (d.where ? ", " + *d.where : "") : "no verdict"), escaped(d.source));
  if (d.shares) {
    const TimeShares& s = *d.shares;
    out += bar({{"compute", "compute", s.compute}, {"exposed comm", "communication", s.exposed_comm}, {"host copies", "memory", s.host_copies}, {"device copies", "memory", s.device_copies},
                {"host wait", "overhead", s.host_wait}, {"kernel wait", "overhead", s.kernel_wait}, {"other idle", "none", s.other_idle}});
  }
  out += "<h2>Evidence</h2><ul>";
  for (const std::string& e : d.evidence) out += "<li>" + escaped(e) + "</li>";
  out += "</ul><h2>Advice</h2><ol>";
  for (const std::string& e : d.advice) out += "<li>" + escaped(e) + "</li>";
  out += "</ol><p>" + escaped(d.rule) + "</p>\n";
  out += roofline(d);
  if (!d.steps.empty()) {
    out += "<h2>Steps</h2><table><thead><tr><th>step</th><th>rank</th><th>device</th><th class=\"number\">length</th><th style=\"width:60%\">compute, exposed communication, copies, idle</th></tr></thead><tbody>";
    constexpr size_t most = 200;
    for (size_t i = 0; i < d.steps.size() && i < most; ++i) {
      const StepFigures& s = d.steps[i];
      const double span = seconds(s.span) > 0 ? seconds(s.span) : 1;
      out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>", escaped(s.name), s.rank, s.device, format_seconds(seconds(s.span)),
                         bar({{"compute", "compute", seconds(s.compute) / span}, {"comm", "communication", seconds(s.comm_exposed) / span}, {"copies", "memory", seconds(s.copies_exposed) / span},
                              {"idle", "none", 1 - seconds(s.busy) / span}}));
    }
    out += "</tbody></table>\n";
  }
  for (const RankFigures& r : d.ranks)
    for (const DeviceFigures& v : r.devices) {
      out += fmt::format("<h2>Rank {}, device {}{}</h2><p>{} events, span {}, busy {}, idle {}</p>", r.rank, v.device, v.name ? " (" + escaped(*v.name) + ")" : "", v.events, format_seconds(seconds(v.span)),
                         format_seconds(seconds(v.busy)), format_seconds(seconds(v.idle.total)));
      out += "<table><thead><tr><th class=\"number\">share</th><th class=\"number\">time</th><th class=\"number\">×</th><th>class</th><th>kernel</th></tr></thead><tbody>";
      for (size_t i = 0; i < v.kernels.size() && i < 40; ++i) {
        const KernelRow& k = v.kernels[i];
        out += fmt::format("<tr><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>", format_share(k.share), format_seconds(seconds(k.time)), k.count, k.kernel_class,
                           escaped(k.name.substr(0, 160)));
      }
      out += "</tbody></table>\n";
    }
  return out + "</body></html>\n";
}

}  // namespace roofcast
