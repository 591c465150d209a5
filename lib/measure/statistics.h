// Robust figures of repeated measurements.
#pragma once

#include <span>
#include <utility>
#include <vector>

namespace roofcast {

double median(std::vector<double> samples);
double percentile(std::vector<double> samples, double share);   // 0.9: nine tenths lie at or below

// Half of the distance between the quartiles, of the median: how unsteady a measurement is.
double spread(const std::vector<double>& samples);

// Kendall's tau-b of pairs: +1 if both orders agree. Ties count as neither. NaN for fewer than two pairs.
double kendall_tau(std::span<const std::pair<double, double>> pairs);

}  // namespace roofcast
