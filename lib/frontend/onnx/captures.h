// What a subgraph reads from the graphs around it.
#pragma once

#include <string_view>
#include <vector>

namespace roofcast {

// Names that the graphs in an attribute (an AttributeProto) use but do not define, deeper subgraphs
// included, appended to `out`. Faulty bytes end the walk: the reader proper reports them.
void captured_names(std::string_view attribute, std::vector<std::string_view>& out);

}  // namespace roofcast
