#include "os/machine/capture_sites.hpp"

#include <algorithm>
#include <filesystem>

#include "facts/site_folders.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

std::vector<std::string> list_json_files(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".json") paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  paths.resize(std::min(paths.size(), facts::k_site_files_limit));
  return paths;
}

}  // namespace

std::map<std::string, std::string> capture_site_files(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> files;
  for (const std::string& folder : folders) {
    for (const std::string& path : list_json_files(folder)) {
      files[path] = try_read_file(path, facts::k_site_file_limit).value_or("");
    }
  }
  return files;
}

}  // namespace ddprun::os
