#include "agent/event_log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/text.hpp"
#include "os/atomic_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::agent {

EventLog::EventLog(std::string events_path, std::string metrics_path, std::string host,
                   std::function<void(const std::string&)> complain)
    : events_path_(std::move(events_path)),
      metrics_path_(std::move(metrics_path)),
      host_(std::move(host)),
      complain_(std::move(complain)) {}

void EventLog::give_up(std::string& path, const char* what, const std::string& why) {
  complain_(fmt::format("cannot write the {} {} on {}: {}", what, printable(path), host_, why));
  path.clear();
}

// One write a line: several jobs may append to one file.
void EventLog::append(const std::string& line) {
  if (!file_) file_ = os::open_to_append(events_path_);
  const bool written =
      file_ && ::write(file_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!written) give_up(events_path_, "events to", os::describe_errno(errno));
}

void EventLog::write(const events::Event& event) {
  if (!events_path_.empty()) append(events::render_event(event));
  if (metrics_path_.empty() || !metrics_.note(event)) return;
  const std::string why = os::replace_file(metrics_path_, metrics_.render());
  if (!why.empty()) give_up(metrics_path_, "metrics to", why);
}

}  // namespace ddprun::agent
