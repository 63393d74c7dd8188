#include "checkpoints/flush_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/private_files.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"
#include "plan/rendezvous_plan.hpp"

namespace ddprun::checkpoints {

namespace {

constexpr std::size_t k_kept = 2;  // newest steps
constexpr std::chrono::hours k_abandoned{24};

// Reports whether nothing has been written there for a day: its job was killed.
bool is_abandoned(const std::string& folder) {
  const auto written = os::last_written(folder);
  return written && os::unix_milliseconds() - *written > Milliseconds(k_abandoned).count();
}

std::optional<Manifest> read_rank(const std::string& folder, int rank) {
  const std::string path = folder + "/" + checkpoint::manifest_name(rank);
  const auto text = copies::read_own_file(path, checkpoint::k_longest_manifest);
  try {
    return text ? std::optional(checkpoint::parse_manifest(*text)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns the parts of all ranks; none if one is missing.
std::map<int, Manifest> read_all(const std::string& folder) {
  std::map<int, Manifest> parts;
  for (int rank = 0; parts.empty() || rank < parts[0].world; ++rank) {
    auto manifest = read_rank(folder, rank);
    if (!manifest || (rank > 0 && manifest->world != parts[0].world)) return {};
    parts.emplace(rank, std::move(*manifest));
  }
  return parts;
}

std::string copy_file(const std::string& from, const File& file, const std::string& folder, bool durable) {
  const copies::OpenedOwnFile opened = copies::open_own_file(from);
  if (!opened.file || opened.stamp.bytes != file.bytes)
    throw Error(fmt::format("{} is missing or has another length", printable(from)));
  copies::NewFile target(folder, file.name);
  const auto hash =
      copies::read_hashed(opened, [&](std::string_view part) { return target.write(part), true; });
  if (!hash || (!file.blake2b.empty() && *hash != file.blake2b))
    throw Error(printable(from) + " does not match its hash");
  target.finish(durable);
  return *hash;
}

}  // namespace

FlushFolder::FlushFolder(std::string path, const std::string& key)
    : path_(std::move(path)), job_(fmt::format("-{:016x}-", plan::launch_hash(key))) {}

std::string FlushFolder::partial_folder(const Flushing& flushing) const {
  return fmt::format("{}/.{}{}{}.partial", path_, checkpoint::step_folder(flushing.step), job_,
                     flushing.number);
}

std::optional<std::pair<Step, int>> FlushFolder::newest() const {
  std::vector<Step> steps;
  for (const std::string& name : os::list_folder(path_))
    if (const auto step = checkpoint::parse_step(name)) steps.push_back(*step);
  std::ranges::sort(steps, std::greater());
  for (const Step step : steps)
    if (const auto first = read_rank(path_ + "/" + checkpoint::step_folder(step), 0))
      return std::pair(step, first->world);
  return std::nullopt;
}

std::map<int, Manifest> FlushFolder::parts_of(Step step) const {
  return path_.empty() ? std::map<int, Manifest>() : read_all(path_ + "/" + checkpoint::step_folder(step));
}

void FlushFolder::write(const Flushing& flushing, int rank, int world, LocalParts& parts) const {
  const Step step = flushing.step;
  const std::string folder = partial_folder(flushing);
  auto known = parts.parts_of(step);
  Manifest& manifest = known[rank];
  if (manifest.world != world)
    throw Error(fmt::format("step {} of rank {} is not here any more", step, rank));
  os::make_private_folder(path_);
  if (const int error = copies::make_step_folder(folder); error != 0)
    throw os::system_failure("cannot create " + printable(folder), error);
  for (File& file : manifest.files) file.blake2b = copy_file(parts.find(step, file.name), file, folder, true);
  copies::NewFile text(folder, checkpoint::manifest_name(rank));
  text.write(checkpoint::render(manifest));
  text.finish(true);
  copies::sync_folder(folder);
}

void FlushFolder::publish(const Flushing& flushing) const {
  const std::string partial = partial_folder(flushing),
                    whole = path_ + "/" + checkpoint::step_folder(flushing.step);
  const std::map<int, Manifest> parts = read_all(partial);
  std::map<std::string, std::uint64_t> wanted;
  for (const auto& [rank, manifest] : parts)
    for (const File& file : manifest.files) wanted[file.name] = file.bytes;
  std::vector<std::string> others;  // files of another attempt, or of a process that was killed
  for (const copies::StampedFile& file : copies::list_own_files(partial)) {
    const auto want = wanted.find(file.name);
    const auto rank = checkpoint::parse_manifest_name(file.name);
    if (want != wanted.end() && want->second == file.stamp.bytes)
      wanted.erase(want);
    else if (!rank || !parts.contains(*rank))
      others.push_back(partial + "/" + file.name);
  }
  if (parts.empty() || !wanted.empty()) throw Error(fmt::format("{} is not complete", printable(partial)));
  for (const std::string& path : others) ::unlink(path.c_str());
  os::remove_below(whole, true);  // it is of another history
  if (::rename(partial.c_str(), whole.c_str()) != 0)
    throw os::system_failure("cannot create " + printable(whole), errno);
  copies::sync_folder(path_);
  remove_others();
}

// Removes what this job, or one that was killed, wrote of flushes that came to nothing, and the older steps.
void FlushFolder::remove_others() const {
  std::vector<Step> steps;
  for (const std::string& name : os::list_folder(path_, /*hidden=*/true)) {
    const bool is_partial = name.starts_with(".step-") && name.ends_with(".partial");
    const std::string folder = path_ + "/" + name;
    if (is_partial && (name.find(job_) != std::string::npos || is_abandoned(folder)))
      os::remove_below(folder, true);
    if (const auto step = checkpoint::parse_step(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater());
  for (std::size_t i = k_kept; i < steps.size(); ++i) {
    const std::string folder = path_ + "/" + checkpoint::step_folder(steps[i]);
    if (read_rank(folder, 0)) os::remove_below(folder, true);
  }
}

std::string FlushFolder::copy(Step step, const File& file, const std::string& folder) const {
  return copy_file(fmt::format("{}/{}/{}", path_, checkpoint::step_folder(step), file.name), file, folder,
                   false);
}

}  // namespace ddprun::checkpoints
