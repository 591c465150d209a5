// Quantities as people read them: 3.89 ms, 16.06 GB, 7.82 TFLOP, 41.4 k.
#pragma once

#include <cstdint>
#include <string>

namespace roofcast {

std::string format_seconds(double seconds);         // "3.89 ms", "841 µs", "38.9 s"
std::string format_bytes(double bytes);             // decimal: "16.06 GB", "528 kB"
std::string format_quantity(double value, const char* unit);  // 7.82e12, "FLOP" → "7.82 TFLOP"
std::string format_flops(double flops);             // "7.82 TFLOP"
std::string format_count(double count);             // "8.03 G", "41.4 k", "588"
std::string format_rate(double per_second, const char* unit);  // "3.35 TB/s", "989 TFLOP/s"
std::string format_share(double share);             // 0.314 → "31.4 %"
std::string format_significant(double value, int digits = 3);  // "0.17", "1.3", "441"

}  // namespace roofcast
