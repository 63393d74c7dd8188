// torch's flight records, as pickle and JSON, and the dumps of --stacks-every.
#include "promise.hpp"
#include "status/flight_record.hpp"
#include "status/moment.hpp"

using namespace ddprun;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  status::parse_flight_record(text, 0);
  if (const auto history = status::parse_history(0, text, text, 0, status::k_dumped_calls)) {
    require(history->calls.size() <= status::k_dumped_calls);
    const status::Moment moment = status::make_moment({*history}, 0);
    require(!status::describe_moment(moment).empty());
  }
  if (const auto moment = status::parse_moment(text)) {
    const std::string written = status::render_moment(*moment);
    require(written.size() <= status::k_max_moment);
    require(status::render_moment(status::parse_moment(written).value()) == written);
    status::describe_moment(status::join_newest({*moment}).value());
  }
  return 0;
}
