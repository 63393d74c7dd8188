#include "workers/inspection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "os/atomic_file.hpp"
#include "os/private_files.hpp"

namespace ddprun::workers {

namespace {

constexpr std::size_t k_socket_path = 107;                                      // sun_path, less its end
constexpr std::size_t k_tail = sizeof "/attempt_999999/inspect_999999.socket";  // below the run's folder

// Writes the module's files; reports whether all of them are there.
bool write_module(const std::string& folder) {
  const std::string about = folder + "/ddprun_inspection-0.dist-info";
  for (const std::string& each : {folder, about}) {
    if (os::make_private_folder(each) != 0) return false;
  }
  const std::pair<std::string, std::string_view> files[] = {
      {folder + "/ddprun_answer.py", k_answer_module},
      {folder + "/ddprun_inspection.py", k_inspection_module},
      {about + "/METADATA", "Metadata-Version: 2.1\nName: ddprun-inspection\nVersion: 0\n"},
      {about + "/entry_points.txt", "[torch.backends]\nddprun = ddprun_inspection:start\n"}};
  return std::all_of(std::begin(files), std::end(files),
                     [](const auto& file) { return os::replace_file(file.first, file.second).empty(); });
}

}  // namespace

Inspection::Inspection(const std::string& folder, const std::vector<std::string>& places) {
  try {
    if (folder.size() + k_tail > k_socket_path) sockets_.emplace(places);
  } catch (const Error&) {
    return;
  }
  if (write_module(folder + "/inspection")) folder_ = folder + "/inspection";
}

std::string Inspection::prefix(const std::string& attempt_folder, Attempt attempt, std::size_t worker) const {
  if (folder_.empty()) return {};
  if (sockets_) return fmt::format("{}/{}_inspect_{}", sockets_->path(), attempt.value, worker);
  return fmt::format("{}/inspect_{}", attempt_folder, worker);
}

}  // namespace ddprun::workers
