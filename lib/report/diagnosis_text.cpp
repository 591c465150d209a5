#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

double seconds(Nanoseconds t) { return static_cast<double>(t.count()) * 1e-9; }

std::string headline(const Diagnosis& d) {
  if (!d.verdict) return "no verdict: no device event was recorded";
  const TimeShares& s = *d.shares;
  if (*d.verdict == "communication")
    return d.where == "host_link" ? fmt::format("communication-bound over the host link: copies fill {} of the time", format_share(s.host_copies))
                                  : fmt::format("communication-bound: {} of the time waits for collectives", format_share(s.exposed_comm));
  if (*d.verdict == "cpu_io") return fmt::format("CPU/IO-bound: the device waits for the host {} of the time", format_share(s.host_wait + s.kernel_wait));
  if (*d.verdict == "memory") return "memory-bound: the device is busy with kernels that move bytes";
  if (*d.verdict == "compute") return "compute-bound: the device is busy with matrix kernels";
  return "mixed: no single bound";
}

}  // namespace

std::string diagnosis_text(const Diagnosis& d, const ViewOptions& options) {
  std::string out = styled(headline(d), Style::bold, options.color);
  double step = 0;
  for (const StepFigures& s : d.steps) step += seconds(s.span);
  out += fmt::format("     {} {}", d.ranks.size(), d.ranks.size() == 1 ? "rank" : "ranks");
  if (!d.steps.empty()) out += fmt::format(", {} steps, {}/step", d.steps.size(), format_seconds(step / static_cast<double>(d.steps.size())));
  out += "\n";
  if (d.shares) {
    const TimeShares& s = *d.shares;
    out += fmt::format("  compute {}   exposed comm {}   copies {} (host link {})   idle {} (host {}, kernel {}, other {})\n", format_share(s.compute), format_share(s.exposed_comm),
                       format_share(s.host_copies + s.device_copies), format_share(s.host_copies), format_share(s.host_wait + s.kernel_wait + s.other_idle), format_share(s.host_wait),
                       format_share(s.kernel_wait), format_share(s.other_idle));
  }
  for (const std::string& e : d.evidence) out += "evidence  " + e + "\n";
  for (size_t i = 0; i < d.advice.size(); ++i) out += fmt::format("advice {}  {}\n", i + 1, d.advice[i]);
  if (!d.rule.empty()) out += "rule  " + d.rule + "\n";
  if (d.mfu) out += "MFU  " + format_share(*d.mfu) + "\n";
  for (const Achieved& a : d.achieved)
    out += fmt::format("achieved  {} kernels: {}, {}, {} of the roofline\n", a.leaning, format_rate(a.flops_rate, "FLOP"), format_rate(a.bytes_rate, "B"), format_share(a.share_of_roof));
  if (d.baseline) {
    out += fmt::format("\nagainst {} ({})\n", d.baseline->source, d.baseline->verdict.value_or("no verdict"));
    for (const RunChange& c : d.baseline->changes)
      out += c.quantity == "step_seconds" ? fmt::format("  step          {} → {}\n", format_seconds(c.before), format_seconds(c.after))
                                          : fmt::format("  {:<13} {} → {}\n", c.quantity, format_share(c.before), format_share(c.after));
  }
  if (d.ranks.empty()) return out;
  Table devices(options.color);
  devices.column("rank", Align::right), devices.column("device", Align::right), devices.column("name");
  for (const char* name : {"events", "span", "busy", "compute", "comm", "exposed", "copies", "idle", "host", "kernel", "other"}) devices.column(name, Align::right);
  for (const RankFigures& r : d.ranks)
    for (const DeviceFigures& v : r.devices) {
      auto t = [](Nanoseconds n) { return format_seconds(seconds(n)); };
      devices.row({std::to_string(r.rank), std::to_string(v.device), v.name.value_or("unknown"), std::to_string(v.events), t(v.span), t(v.busy), t(v.compute), t(v.comm.total), t(v.comm.exposed),
                   t(v.copies.total), t(v.idle.total), t(v.idle.host_wait), t(v.idle.kernel_wait), t(v.idle.other)});
    }
  out += "\n" + devices.text();
  Table kernels(options.color);
  kernels.column("share", Align::right), kernels.column("time", Align::right), kernels.column("×", Align::right), kernels.column("class"), kernels.column("kernel");
  const size_t top = options.top == 0 ? SIZE_MAX : options.top;
  size_t rest = 0;
  for (const RankFigures& r : d.ranks)
    for (const DeviceFigures& v : r.devices) {
      if (&v != &r.devices.front() || &r != &d.ranks.front()) continue;
      for (size_t i = 0; i < v.kernels.size(); ++i) {
        const KernelRow& k = v.kernels[i];
        if (i >= top) {
          rest = v.kernels.size() - i;
          break;
        }
        std::string name = k.name;
        constexpr size_t widest = 70;
        if (name.size() > widest) {
          size_t cut = widest;
          while (cut > 0 && (name[cut] & 0xC0) == 0x80) --cut;
          name = name.substr(0, cut) + "…";
        }
        kernels.row({format_share(k.share), format_seconds(seconds(k.time)), std::to_string(k.count), k.kernel_class, name});
      }
    }
  out += "\n" + kernels.text();
  if (rest) out += fmt::format("  … {} more kernels (--top 0)\n", rest);
  return out;
}

}  // namespace roofcast
