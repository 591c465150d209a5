// Published tables of measured times as problems with their seconds.
//
//   gemm.csv        source,gpu,dtype,op,b,m,n,k,time_us,note             one contraction a row
//   attention.csv   …,batch,q_len,kv_len,heads,kv_heads,head_dim,window  one attention
//
// Which table a file is follows from its columns. Rows of which the CRC-32 of the comma-joined shape
// columns is even may be fitted on, the odd ones judge the fit.
#pragma once

#include "ops/work.h"
#include "roofcast/result.h"
#include "support/mapped_file.h"
#include "time/collectives.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

// How a table's times came about; the host's part is no kernel's.
enum class Timing : uint8_t {
  graph,   // replay of a recorded graph, or calls back to back: launches overlap
  kernel,  // sum of kernel times as a profiler gives them
  eager,   // events around one eager call: the host's launch path is the floor
  host,    // a clock of the host around one call and its synchronisation
};
std::string_view name(Timing);

// One iteration of a whole model.
struct ModelRun {
  std::string_view model, option;  // option: how it was spread over devices; empty: one alone
  bool training = false;           // backward too; the optimizer's step is not timed
  int64_t seq = 1, batch = 1;
};

struct MeasuredRow {
  std::string_view source, gpu, stack, dtype, op, note, text;  // as in the file; text: the whole line
  size_t file = 0;
  uint32_t line = 0;
  std::string_view family;      // "gemm_bf16", "attention_decode", …
  bool bound = true;            // bars hold for it
  bool fitted = false;          // CRC-32 of the shape columns is even
  Timing timing = Timing::graph;
  std::vector<Problem> problems;  // kernels of one call, one after another
  Collective collective;
  std::optional<ModelRun> run;  // of rows about whole models, which have no problems
  double seconds = 0;
};

// Why rows are not among them, and how many.
struct SkippedRows {
  std::string reason;
  int64_t rows = 0;
};

struct MeasuredTables {
  std::vector<std::shared_ptr<const MappedFile>> files;  // keep what rows point into
  std::vector<std::string> paths;
  std::vector<MeasuredRow> rows;
  std::vector<SkippedRows> skipped;
};

// Tables of other columns are skipped rows. Codes: file-missing, file-kind (no table of measurements, or
// a row that does not fit its header).
Result<MeasuredTables> read_measured_tables(const std::vector<std::string>& paths);

}  // namespace roofcast
