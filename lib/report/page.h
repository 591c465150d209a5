// Parts of the HTML report, embedded at build time from lib/report/page and the distribution's D3.
#pragma once

#include <string_view>

namespace roofcast::page {

std::string_view html();
std::string_view style();
std::string_view script();
std::string_view library();

}  // namespace roofcast::page
