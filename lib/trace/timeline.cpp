#include "trace/timeline.h"

#include <algorithm>
#include <tuple>

namespace roofcast::trace {

uint32_t NamePool::intern(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  names_.emplace_back(name);
  classes_.emplace_back();
  const uint32_t id = static_cast<uint32_t>(names_.size() - 1);
  ids_.emplace(names_.back(), id);
  return id;
}

KernelClass NamePool::class_of(uint32_t id) {
  if (!classes_[id]) classes_[id] = classifier_.classify(names_[id]);
  return *classes_[id];
}

std::string_view to_string(CopyKind kind) {
  constexpr std::string_view names[] = {"none", "h2d", "d2h", "d2d", "p2p", "memset", "other"};
  return names[static_cast<size_t>(kind)];
}

CopyKind copy_kind_of(std::string_view name) {
  constexpr std::pair<std::string_view, CopyKind> words[] = {
      {"HtoD", CopyKind::h2d},         {"DtoH", CopyKind::d2h},
      {"DtoD", CopyKind::d2d},         {"PtoP", CopyKind::p2p},
      {"HostToDevice", CopyKind::h2d}, {"DeviceToHost", CopyKind::d2h},
      {"DeviceToDevice", CopyKind::d2d}};
  for (const auto& [word, kind] : words)
    if (name.find(word) != std::string_view::npos) return kind;
  return CopyKind::other;
}

size_t Timeline::device_index(int64_t id) {
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].id == id) return i;
  devices.push_back({id, {}, {}});
  return devices.size() - 1;
}

uint16_t Timeline::track_index(int64_t device, int64_t stream, std::optional<uint32_t> process) {
  const auto key = std::make_tuple(device, stream, process ? int64_t{*process} : int64_t{-1});
  if (const auto found = track_ids_.find(key); found != track_ids_.end()) return found->second;
  // Beyond 65535 streams the rest share the last one: busy time is by device and stays exact.
  if (tracks.size() > 0xFFFE) return 0xFFFE;
  tracks.push_back({stream, process});
  return track_ids_[key] = static_cast<uint16_t>(tracks.size() - 1);
}

uint64_t Timeline::device_events() const {
  uint64_t count = 0;
  for (const Device& device : devices) count += device.events.size();
  return count;
}

namespace {

struct ById {
  static auto key(const Launch& l) { return std::make_tuple(l.key, l.id); }
  static auto key(const DeviceEvent& e) { return std::make_tuple(e.join_key, e.join_id); }
  bool operator()(const auto& a, const auto& b) const { return key(a) < key(b); }
};

// The launch of `event` among those of its id. The last one that began before the event wins: an
// id that is used again belongs to the later call.
uint32_t choose_launch(const Timeline& timeline, const DeviceEvent& event, size_t first, size_t last,
                       std::optional<uint32_t> process) {
  uint32_t chosen = no_index;
  for (size_t i = first; i < last; ++i) {
    const Launch& launch = timeline.launches[i];
    if (process && launch.process != *process) continue;
    if (chosen == no_index || launch.start <= event.start) chosen = static_cast<uint32_t>(i);
  }
  return chosen;
}

}  // namespace

void join_launches(Timeline& timeline) {
  auto& launches = timeline.launches;
  std::sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
    return std::tie(a.key, a.id, a.start) < std::tie(b.key, b.id, b.start);
  });
  for (Device& device : timeline.devices) {
    auto& events = device.events;
    const auto by_start = [](const DeviceEvent& a, const DeviceEvent& b) {
      return std::tie(a.start, a.join_id, a.duration) < std::tie(b.start, b.join_id, b.duration);
    };
    if (!std::is_sorted(events.begin(), events.end(), by_start))
      std::sort(events.begin(), events.end(), by_start);

    std::map<uint32_t, uint64_t> votes;  // processes of launches whose id is theirs alone
    bool shared_ids = false;
    size_t near = 0;  // events are launched in about the order of their ids
    const auto launches_of = [&](const DeviceEvent& event) {
      const auto same = [&](size_t i) { return i < launches.size() && ById::key(launches[i]) == ById::key(event); };
      if (!same(near) || (near > 0 && same(near - 1))) {
        if (same(near + 1) && !same(near)) ++near;
        else near = static_cast<size_t>(
              std::lower_bound(launches.begin(), launches.end(), event, ById()) - launches.begin());
      }
      size_t last = near;
      while (same(last)) ++last;
      return last;
    };
    for (DeviceEvent& event : events) {
      if (event.join_key == JoinKey::none) continue;
      const size_t last = launches_of(event);
      if (near == last) continue;
      const std::optional<uint32_t> process = timeline.tracks[event.track].process;
      const bool one_process = launches[near].process == launches[last - 1].process;
      if (process || one_process) {
        event.launch = choose_launch(timeline, event, near, last, process);
        if (!process) ++votes[launches[near].process];
      } else {
        shared_ids = true;
      }
    }
    if (!shared_ids) continue;
    std::optional<uint32_t> owner;
    for (const auto& [process, count] : votes)
      if (!owner || count > votes[*owner]) owner = process;
    for (DeviceEvent& event : events) {
      if (event.join_key == JoinKey::none || event.launch != no_index) continue;
      const size_t last = launches_of(event);
      event.launch = choose_launch(timeline, event, near, last, owner);
    }
  }
}

}  // namespace roofcast::trace
