// What workers leave for their agent: error files and requests to torch's watchdog, which may be cut
// anywhere.
#include "lifecycle/watchdog_timers.hpp"
#include "promise.hpp"
#include "report/report.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

std::vector<lifecycle::WatchdogTimers::Expired> expired(const std::string& text, std::size_t cut) {
  lifecycle::WatchdogTimers timers;
  for (std::size_t at = 0; at < text.size(); at += cut) timers.feed(std::string_view(text).substr(at, cut));
  timers.next();
  auto told = timers.take_expired(1e300);
  for (const auto& each : told) require(each.pid > 1 && each.signal > 0 && each.signal <= 64);
  return told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  report::parse_error_file(text);
  const auto whole = expired(text, text.size() + 1);
  // An overlong line is dropped where it is seen to be one, which depends on the cut.
  for (const std::string& line : split(text, '\n')) {
    if (line.size() > 4000) return 0;
  }
  require(expired(text, 7) == whole);
  return 0;
}
