#include "roofcast/layout.h"

#include "support/diagnostic.h"

#include <charconv>

namespace roofcast {

std::string Layout::text() const {
  std::string out;
  auto add = [&](const std::string& part) { out += (out.empty() ? "" : ",") + part; };
  auto axis = [&](const char* name, int64_t n) {
    if (n > 1) add(std::string(name) + "=" + std::to_string(n));
  };
  axis("dp", dp), axis("tp", tp), axis("pp", pp), axis("cp", cp), axis("ep", ep);
  if (zero) add("zero=" + std::to_string(zero));
  if (sp) add(keep_gathered ? "sp=gathered" : "sp");
  axis("mb", microbatches), axis("vpp", interleave);
  if (recompute != "none") add("recompute=" + recompute);
  if (schedule != "1f1b") add("schedule=" + schedule);
  return out.empty() ? "dp=1" : out;
}

Result<Layout> parse_layout(std::string_view text) {
  Layout l;
  auto fault = [&](std::string_view what) {
    return error("usage", "--layout: " + std::string(what), {}, "as in --layout dp=2,tp=4,pp=2,mb=8,zero=1,sp,recompute=full");
  };
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (item.empty()) continue;
    const std::string_view name = item.substr(0, item.find('='));
    const std::string_view value = name.size() == item.size() ? "" : item.substr(name.size() + 1);
    if (name == "sp") {
      if (value == "auto") l.sp_auto = true;
      else if (value == "gathered") l.sp = l.keep_gathered = true;
      else if (value.empty() || value == "1" || value == "true" || value == "yes" || value == "on") l.sp = true;
      else if (value != "0" && value != "false" && value != "no" && value != "off") return fault("sp is on, off, auto or gathered (what is gathered for forward is kept whole for backward)");
      continue;
    }
    if (name == "recompute") {
      if (value != "none" && value != "selective" && value != "full") return fault("recompute is none, selective or full");
      l.recompute = value;
      continue;
    }
    if (name == "schedule") {
      if (value != "1f1b" && value != "gpipe" && value != "zero-bubble") return fault("schedule is 1f1b, gpipe or zero-bubble");
      l.schedule = value;
      continue;
    }
    int64_t n = 0;
    const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), n);
    const bool whole = bad == std::errc() && end == value.data() + value.size();
    if (name == "zero") {
      if (!whole || n < 0 || n > 3) return fault("zero is 0 to 3");
      l.zero = n;
      continue;
    }
    int64_t* to = name == "dp" ? &l.dp : name == "tp" ? &l.tp : name == "pp" ? &l.pp : name == "cp" ? &l.cp : name == "ep" ? &l.ep
                  : name == "mb" || name == "microbatches" ? &l.microbatches : name == "vpp" ? &l.interleave : nullptr;
    if (!to) return fault("unknown \"" + std::string(name) + "\"; there are dp tp pp cp ep mb vpp zero sp recompute schedule");
    if (!whole || n < 1 || n > 1 << 20) return fault(std::string(name) + " takes a number from 1 to 1048576");
    *to = n;
  }
  if (l.ep > 1 && (l.dp * l.tp) % l.ep != 0) return fault("ep is carved out of dp·tp, so it divides it");
  if (static_cast<double>(l.dp) * static_cast<double>(l.tp) * static_cast<double>(l.pp) * static_cast<double>(l.cp) > 1 << 24) return fault("more than 16 million devices");
  return l;
}

}  // namespace roofcast
