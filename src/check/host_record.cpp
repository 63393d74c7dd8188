#include "check/host_record.hpp"

#include "check/record_fields.hpp"
#include "check/record_text.hpp"

namespace ddprun::check {

std::string render_record(const HostRecord& record) { return render_json_text(record); }
HostRecord parse_record(const std::string& json) { return parse_json_text<HostRecord>(json); }
std::string render_gpu_health(const std::vector<GpuHealth>& gpus) { return render_json_text(gpus); }
std::vector<GpuHealth> parse_gpu_health(const std::string& json) {
  return parse_json_text<std::vector<GpuHealth>>(json);
}

}  // namespace ddprun::check
