// Views: a result struct printed in one format. They know no graph.
#pragma once

#include "report/json.h"
#include "report/table.h"
#include "roofcast/accuracy.h"
#include "roofcast/analyze.h"
#include "roofcast/diagnose.h"
#include "roofcast/diff.h"
#include "roofcast/fuse.h"
#include "roofcast/hardware.h"
#include "roofcast/layouts.h"
#include "roofcast/sweep.h"
#include "roofcast/ops.h"
#include "roofcast/validate.h"

#include <string>

namespace roofcast {

struct ViewOptions {
  bool color = false;
  size_t top = 20;        // rows shown; 0: all
  std::string sort;       // time | flops | bytes | intensity | count
  std::string by;         // empty: equal problems; op | scope | bound
};

std::string analysis_text(const Analysis&, const ViewOptions&);
std::string next_steps(const Analysis&);  // the line after it: commands and flags that lead on; empty: none
std::string explanation_text(const NodeExplanation&, bool color);
std::string analysis_markdown(const Analysis&, const ViewOptions&);
std::string analysis_csv(const Analysis&);
std::string analysis_html(const Analysis&, const Hardware&);
std::string analysis_perfetto(const Analysis&);
std::string formulas_text(const Analysis&, const ViewOptions&);
std::string formulas_latex(const Analysis&, const ViewOptions&);  // a longtable

std::string diagnosis_text(const Diagnosis&, const ViewOptions&);
std::string diagnosis_html(const Diagnosis&);
std::string diff_text(const Diff&, const ViewOptions&, bool markdown);
std::string sweep_text(const Sweep&, bool color);
std::string sweep_csv(const Sweep&);

std::string layouts_text(const LayoutSearch&, const ViewOptions&);
std::string layouts_csv(const LayoutSearch&);
std::string collectives_text(const std::vector<CollectiveRow>&, const ViewOptions&);

std::string fusion_text(const FusionPlan&, const ViewOptions&);
std::string fusion_markdown(const FusionPlan&, const ViewOptions&);
std::string fusion_csv(const FusionPlan&);

std::string hardware_text(const Hardware&, bool color);
std::string ops_text(const OpListing&, bool color);
std::string ops_markdown(const OpListing&);
std::string ops_csv(const OpListing&);

std::string validation_text(const Validation&, bool color, bool markdown);
std::string validation_csv(const Validation&);
std::string validation_html(const Validation&);

std::string hardware_list_text(const std::vector<Hardware>&, bool color);

std::string ablation_text(const Ablation&, bool color, bool markdown);
std::string accuracy_text(const Accuracy&, bool color, bool markdown);

}  // namespace roofcast
