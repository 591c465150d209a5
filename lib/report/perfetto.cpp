// The predicted schedule as a Chrome trace, which ui.perfetto.dev opens: ops one after another on the
// compute stream, collectives on that of the network.
#include "report/views.h"

namespace roofcast {

std::string analysis_perfetto(const Analysis& a) {
  JsonWriter json;
  json.set_line_depth(2);
  json.begin_object();
  json.key("displayTimeUnit"), json.value(std::string_view("ns"));
  json.key("traceEvents");
  json.begin_array();
  auto named = [&](const char* what, int thread, const std::string& name) {
    json.begin_object();
    json.key("ph"), json.value(std::string_view("M"));
    json.key("name"), json.value(std::string_view(what));
    json.key("pid"), json.value(int64_t{0});
    if (thread >= 0) json.key("tid"), json.value(static_cast<int64_t>(thread));
    json.key("args");
    json.begin_object();
    json.key("name"), json.value(name);
    json.end_object();
    json.end_object();
  };
  named("process_name", -1, a.hardware.name + " (predicted, " + a.time_model + " model)");
  named("thread_name", 0, "compute");
  named("thread_name", 1, "network");
  double now = 0;
  for (const OpRow& row : a.ops) {
    if (!row.time || *row.time <= 0) continue;
    json.begin_object();
    json.key("ph"), json.value(std::string_view("X"));
    json.key("name"), json.value(row.name);
    json.key("cat"), json.value(row.bound.value_or("none"));
    json.key("pid"), json.value(int64_t{0});
    json.key("tid"), json.value(static_cast<int64_t>(row.collective ? 1 : 0));
    json.key("ts"), json.value(now * 1e6, 6);  // microseconds
    json.key("dur"), json.value(*row.time * 1e6, 6);
    json.key("args");
    write_json(json, row);
    json.end_object();
    now += *row.time;
  }
  json.end_array();
  json.end_object();
  return json.take() + "\n";
}

}  // namespace roofcast
