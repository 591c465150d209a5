#include "support/units.h"

#include <cmath>
#include <fmt/format.h>

namespace roofcast {

std::string format_significant(double value, int digits) {
  if (value == 0) return "0";
  const double magnitude = std::floor(std::log10(std::fabs(value)));
  const int decimals = std::max(0, digits - 1 - static_cast<int>(magnitude));
  std::string text = fmt::format("{:.{}f}", value, decimals);
  // 9.996 rounds up to 10.00, which has one digit too many.
  if (decimals > 0 && std::fabs(std::stod(text)) >= std::pow(10, magnitude + 1))
    text = fmt::format("{:.{}f}", value, decimals - 1);
  return text;
}

std::string format_quantity(double value, const char* unit) {
  if (value == 0) return fmt::format("0 {}", unit);
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E", "Z"};
  int step = 0;
  double shown = value;
  while (std::fabs(shown) >= 999.5 && step < 7) shown /= 1000, ++step;
  const std::string number =
      step == 0 && std::floor(value) == value ? fmt::format("{:.0f}", value) : format_significant(shown);
  return fmt::format("{} {}{}", number, prefixes[step], unit);
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  const double size = std::fabs(seconds);
  if (size < 0.9995e-6) return format_significant(seconds * 1e9) + " ns";
  if (size < 0.9995e-3) return format_significant(seconds * 1e6) + " µs";
  if (size < 0.9995) return format_significant(seconds * 1e3) + " ms";
  return format_significant(seconds) + " s";
}

std::string format_bytes(double bytes) { return format_quantity(bytes, "B"); }
std::string format_flops(double flops) { return format_quantity(flops, "FLOP"); }
std::string format_rate(double per_second, const char* unit) { return format_quantity(per_second, unit) + "/s"; }
std::string format_share(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string format_count(double count) {
  std::string text = format_quantity(count, "");
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace roofcast
