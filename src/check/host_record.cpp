#include "check/host_record.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "check/record_fields.hpp"

namespace ddprun::check {

namespace {

// A name that is no UTF-8 must not end the check.
template <class Record>
std::string render(const Record& record) {
  return nlohmann::json(record).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Record>
Record parse(const std::string& json) {
  try {
    return nlohmann::json::parse(json).get<Record>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("the record of a checked node cannot be read: ") + error.what());
  }
}

}  // namespace

std::string render_record(const HostRecord& record) { return render(record); }
HostRecord parse_record(const std::string& json) { return parse<HostRecord>(json); }
std::string render_gpu_health(const std::vector<GpuHealth>& gpus) { return render(gpus); }
std::vector<GpuHealth> parse_gpu_health(const std::string& json) {
  return parse<std::vector<GpuHealth>>(json);
}

}  // namespace ddprun::check
