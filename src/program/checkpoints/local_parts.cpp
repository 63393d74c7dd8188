#include "checkpoints/local_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/memory_text.hpp"
#include "os/clock.hpp"
#include "os/private_files.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::checkpoints {

namespace {

using checkpoint::File;
using checkpoint::Manifest;
using checkpoint::Part;

constexpr std::int64_t k_lone_age = 300;  // ms; a manifest follows at once, where one does

void write_manifest(const std::string& folder, int rank, const Manifest& manifest) {
  os::NewFile file(folder, checkpoint::manifest_name(rank));
  file.write(checkpoint::render(manifest));
  file.finish(false);
}

bool is_hashed(const Manifest& manifest) {
  return std::ranges::none_of(manifest.files, [](const File& file) { return file.blake2b.empty(); });
}

}  // namespace

std::string LocalParts::step_path(Step step, bool replica) const {
  return folder_ + (replica ? "/replicas/" : "/") + checkpoint::step_folder(step);
}

void LocalParts::notice_once(const std::string& what, const std::string& hint) {
  if (noticed_.insert(what).second) notice_(what, hint);
}

// ---- what is there

void LocalParts::look(bool ended) {
  Lock lock(mutex_);
  look_locked(ended);
  while (used() > limit_ && !seen_.sizes.empty()) {  // a program has asked for no room
    auto doomed = checkpoint::steps_to_remove(seen_.sizes, complete_, used() - limit_);
    const Step newest = seen_.sizes.rbegin()->first;
    if (doomed.empty()) doomed = {newest};
    if (doomed.back() == newest)
      tell_no_room(fmt::format("step {} of {} does not fit into {}", newest,
                               facts::describe_bytes(seen_.sizes[newest]), facts::describe_bytes(limit_)));
    const auto before = seen_.sizes;
    remove(doomed, lock, true);
    if (seen_.sizes == before) return;  // the file system refuses it
  }
}

void LocalParts::look_locked(bool ended) {
  Seen seen;
  if (!os::is_private_folder(folder_))
    notice_once(printable(folder_) + " is not this user's alone any more; its checkpoints are not used");
  else
    for (const bool replica : {false, true})
      for (const std::string& name : os::list_folder(folder_ + (replica ? "/replicas" : "")))
        if (const auto step = checkpoint::parse_step(name)) look_at_step(seen, *step, replica, ended);
  seen_ = std::move(seen);
  std::vector<Part> parts;
  for (const auto& [place, manifest] : seen_.parts) {
    const auto& [step, rank, replica] = place;
    parts.push_back({step, rank, manifest.world, checkpoint::size_of(manifest), replica});
  }
  if (parts == parts_) return;
  ++version_;
  parts_ = std::move(parts);
  changed_.notify_all();
}

void LocalParts::look_at_step(Seen& seen, Step step, bool replica, bool ended) {
  const std::string folder = step_path(step, replica);
  std::vector<os::StampedFile> files = os::list_own_files(folder);
  if (!replica) {
    write_lone_manifests(step, files, ended);
    files = os::list_own_files(folder);
  }
  Stamps stamps;
  for (const os::StampedFile& file : files) stamps.emplace(file.name, file.stamp);
  std::set<std::string_view> whole;  // files of complete parts
  for (const os::StampedFile& file : files) {
    const auto rank = checkpoint::parse_manifest_name(file.name);
    if (!rank) continue;
    read_manifest(seen, folder, file);
    const auto& read = seen.manifests[folder + "/" + file.name].manifest;
    if (!read || *rank >= read->world) continue;
    Manifest manifest = *read;
    const State state = check_part(seen, folder, manifest, stamps);
    if (state == State::damaged) discard(step, *rank, replica, manifest, seen);
    if (state == State::unchecked || state == State::right)
      for (const File& each : read->files) whole.insert(each.name);
    if (state != State::right) continue;
    if (!replica && is_hashed(manifest) && !is_hashed(*read)) {
      try {
        write_manifest(folder, *rank, manifest);
      } catch (const Error&) {  // no room: the next process would hash it anew
      }
    }
    seen.parts.emplace(Place{step, *rank, replica}, std::move(manifest));
  }
  for (const os::StampedFile& file : files) {
    if (!seen.inodes.insert(file.stamp.inode).second) continue;
    seen.sizes[step] += file.stamp.bytes;
    (whole.contains(file.name) ? seen.complete : seen.other) += file.stamp.bytes;
  }
}

void LocalParts::write_lone_manifests(Step step, const std::vector<os::StampedFile>& files,
                                      bool ended) const {
  for (const os::StampedFile& file : files) {
    const auto rank = checkpoint::parse_lone_file(file.name);
    const bool settled = ended || os::unix_milliseconds() - file.stamp.changed / 1000000 > k_lone_age;
    const std::string folder = step_path(step, false);
    if (!rank || *rank >= world_ || !settled || handed_over_.contains(folder + "/" + file.name)) continue;
    if (std::ranges::any_of(files, [&](const os::StampedFile& each) {
          return each.name == checkpoint::manifest_name(*rank);
        }))
      continue;
    try {
      write_manifest(folder, *rank, {world_, {{file.name, file.stamp.bytes}}});
    } catch (const Error&) {  // no room: the next look tries again
    }
  }
}

void LocalParts::read_manifest(Seen& seen, const std::string& folder, const os::StampedFile& file) {
  const std::string path = folder + "/" + file.name;
  const auto known = seen_.manifests.find(path);
  if (known != seen_.manifests.end() && known->second.stamp == file.stamp)
    return void(seen.manifests.emplace(path, known->second));
  ReadManifest read{file.stamp, {}};
  try {
    const auto text = os::read_own_file(path, checkpoint::k_longest_manifest);
    if (text) read.manifest = checkpoint::parse_manifest(*text);
  } catch (const Error& error) {
    notice_once(fmt::format("{} is not used: {}", printable(path), error.what()));
  }
  // Saved once more: what was known of its files is of others.
  for (const File& each : read.manifest ? read.manifest->files : std::vector<File>())
    if (each.blake2b.empty()) seen_.known.erase(folder + "/" + each.name);
  seen.manifests.emplace(path, std::move(read));
}

// Fills in the hashes that are known.
LocalParts::State LocalParts::check_part(Seen& seen, const std::string& folder, Manifest& manifest,
                                         const Stamps& files) {
  State worst = State::right;
  for (File& file : manifest.files) {
    const auto found = files.find(file.name);
    if (found == files.end() || found->second.bytes != file.bytes) return State::missing;
    const std::string path = folder + "/" + file.name;
    Known& known = seen.known[path];
    if (const auto before = seen_.known.find(path); before != seen_.known.end()) known = before->second;
    if (!file.blake2b.empty()) known.expected = file.blake2b;
    const State state = check_file(known, path, found->second);
    file.blake2b = known.expected;
    if (state == State::damaged || worst == State::right) worst = state;
  }
  return worst;
}

LocalParts::State LocalParts::check_file(Known& known, const std::string& path, const os::FileStamp& stamp) {
  if (known.hash.empty() || known.stamp != stamp) {
    known.hash.clear();
    if (queued_.insert(path).second) queue_.push_back(path);
    to_hash_.notify_one();
    return known.expected.empty() ? State::right : State::unchecked;
  }
  if (known.expected.empty()) known.expected = known.hash;
  return known.expected == known.hash ? State::right : State::damaged;
}

void LocalParts::discard(Step step, int rank, bool replica, const Manifest& manifest, const Seen& seen) {
  const std::string folder = step_path(step, replica) + "/";
  ::unlink((folder + checkpoint::manifest_name(rank)).c_str());
  for (const File& file : manifest.files) {
    const auto known = seen.known.find(folder + file.name);
    if (known != seen.known.end() && !known->second.hash.empty() &&
        known->second.hash != known->second.expected)
      ::unlink((folder + file.name).c_str());
  }
  notice_once(fmt::format("the {} of step {} of rank {} does not match its hash and is not used",
                          replica ? "replica" : "checkpoint", step, rank));
}

std::vector<Part> LocalParts::parts() const {
  const Lock lock(mutex_);
  return parts_;
}

bool LocalParts::wait_for_change(std::uint64_t& version, Milliseconds limit) {
  Lock lock(mutex_);
  const bool changed = changed_.wait_for(lock, limit, [&] { return version_ != version; });
  version = version_;
  return changed;
}

int LocalParts::attempt() const {
  const Lock lock(mutex_);
  return attempt_;
}

std::map<int, Manifest> LocalParts::parts_of(Step step) const {
  const Lock lock(mutex_);
  std::map<int, Manifest> parts;
  for (const auto& [place, manifest] : seen_.parts)
    if (std::get<Step>(place) == step) parts.emplace(std::get<int>(place), manifest);
  return parts;
}

std::optional<Manifest> LocalParts::part(Step step, int rank) const {
  auto parts = parts_of(step);
  const auto found = parts.find(rank);
  return found == parts.end() ? std::nullopt : std::optional(std::move(found->second));
}

std::string LocalParts::find(Step step, const std::string& name) const {
  const Lock lock(mutex_);
  for (const auto& [place, manifest] : seen_.parts) {
    if (std::get<Step>(place) != step) continue;
    if (std::ranges::find(manifest.files, name, &File::name) != manifest.files.end())
      return step_path(step, std::get<bool>(place)) + "/" + name;
  }
  return {};
}

// ---- hashes

void LocalParts::hash_files() {
  Lock lock(mutex_);
  while (true) {
    to_hash_.wait(lock, [this] { return !queue_.empty(); });
    const std::string path = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const os::OpenedOwnFile file = os::open_own_file(path);
    const auto hash = file.file ? os::read_hashed(file, [](std::string_view) { return true; }) : std::nullopt;
    lock.lock();
    queued_.erase(path);
    if (const auto known = seen_.known.find(path); hash && known != seen_.known.end()) {
      known->second.stamp = file.stamp;
      known->second.hash = *hash;
      look_locked();
    }
    changed_.notify_all();
  }
}

void LocalParts::wait_until_hashed() {
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return queued_.empty(); });
}

std::optional<std::string> LocalParts::hash(const std::string& path, bool again, Milliseconds limit) {
  Lock lock(mutex_);
  if (const auto known = seen_.known.find(path); again && known != seen_.known.end()) {
    known->second.hash.clear();
    look_locked();
  }
  const auto is_known = [&] {
    const auto known = seen_.known.find(path);
    return known == seen_.known.end() || !known->second.hash.empty();
  };
  if (!changed_.wait_for(lock, limit, is_known)) return "";
  const auto known = seen_.known.find(path);
  if (known == seen_.known.end() || known->second.hash != known->second.expected) return std::nullopt;
  return known->second.hash;
}

net::Shards::List LocalParts::own_parts(std::uint64_t known, Milliseconds limit) {
  Lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return version_ != known; });
  std::vector<checkpoint::Offer> offers;
  for (const auto& [place, manifest] : seen_.parts)
    if (!std::get<bool>(place)) offers.push_back({std::get<Step>(place), std::get<int>(place), manifest});
  return {version_, checkpoint::encode(offers), attempt_};
}

net::Shards LocalParts::shards() {
  return {
      [this](std::uint64_t known, Milliseconds limit) { return own_parts(known, limit); },
      [this](Step step) {
        std::vector<checkpoint::Offer> offers;
        for (auto& [rank, manifest] : parts_of(step)) offers.push_back({step, rank, manifest});
        return checkpoint::encode(offers);
      },
      [this](Step step, const std::string& name) { return find(step, name); },
      [this](const std::string& path, bool again, Milliseconds limit) { return hash(path, again, limit); }};
}

// ---- what goes

void LocalParts::remove(const std::vector<Step>& steps, Lock& lock, bool wait) {
  std::vector<std::string> gone;
  std::uint64_t bytes = 0;
  for (const Step step : steps) {
    bytes += seen_.sizes[step];
    for (const bool replica : {false, true}) {
      const std::string path = fmt::format("{}/removed/{}", folder_, ++removals_);
      if (::rename(step_path(step, replica).c_str(), path.c_str()) == 0) gone.push_back(path);
    }
  }
  if (gone.empty()) return;
  removing_ += bytes;
  look_locked();
  const auto finish = [this, gone, bytes] {
    for (const std::string& path : gone) os::remove_below(path, true);
    const Lock locked(mutex_);
    removing_ -= bytes;
    changed_.notify_all();
  };
  if (!wait) return std::thread(finish).detach();
  lock.unlock();
  finish();
  lock.lock();
}

void LocalParts::begin_attempt(int attempt, std::optional<Step> step, int world) {
  Lock lock(mutex_);
  attempt_ = attempt;
  world_ = world;
  for (const std::string& path : handed_over_) ::unlink(path.c_str());
  handed_over_.clear();
  look_locked();
  std::vector<Step> newer;
  for (const auto& [each, size] : seen_.sizes)
    if (!step || each > *step) newer.push_back(each);
  for (const std::string& name : os::list_folder(folder_)) {
    const auto each = checkpoint::parse_step(name);
    if (each && (!step || *each > *step) && !seen_.sizes.contains(*each)) newer.push_back(*each);
    if (!each || std::ranges::find(newer, *each) != newer.end()) continue;
    for (const os::StampedFile& file : os::list_own_files(folder_ + "/" + name))
      if (file.name.starts_with('.') && !checkpoint::is_file_name(file.name))
        ::unlink(fmt::format("{}/{}/{}", folder_, name, file.name).c_str());
  }
  remove(newer, lock, false);
}

void LocalParts::keep_complete(const std::vector<Step>& steps) {
  Lock lock(mutex_);
  complete_ = steps;
  remove(checkpoint::needless_steps(seen_.sizes, complete_), lock, false);
  changed_.notify_all();
}

std::vector<Step> LocalParts::complete() const {
  const Lock lock(mutex_);
  return complete_;
}

// ---- room

// Counts what is written under a reservation once.
std::uint64_t LocalParts::used() const {
  const std::uint64_t reserved =
      std::accumulate(reserved_.begin(), reserved_.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const auto& each) { return sum + each.second; });
  return seen_.complete + removing_ + std::max(seen_.other, other_before_ + reserved);
}

std::string LocalParts::reserve(const void* owner, std::uint64_t bytes, Milliseconds wait) {
  Lock lock(mutex_);
  reserved_.erase(owner);
  for (const TimePoint limit = os::now() + wait;;) {
    look_locked();
    if (reserved_.empty()) other_before_ = seen_.other;
    const std::uint64_t all = used() + bytes, free = os::free_bytes(folder_);
    if (all <= limit_ && bytes <= free) return reserved_.emplace(owner, bytes), "";
    const std::uint64_t missing = std::max(all > limit_ ? all - limit_ : 0, bytes > free ? bytes - free : 0);
    const auto doomed = checkpoint::steps_to_remove(seen_.sizes, complete_, missing);
    if (!doomed.empty()) {
      remove(doomed, lock, true);
      continue;
    }
    const bool may_change = bytes <= limit_ && (!seen_.sizes.empty() || removing_ > 0);
    if (may_change && changed_.wait_until(lock, limit) == std::cv_status::no_timeout) continue;
    const std::string why = fmt::format(
        "{} do not fit: {} of {} are in use{}", facts::describe_bytes(bytes), facts::describe_bytes(used()),
        facts::describe_bytes(limit_),
        bytes > free ? fmt::format(", {} has {} free", printable(folder_), facts::describe_bytes(free)) : "");
    tell_no_room(why);
    return why;
  }
}

void LocalParts::tell_no_room(const std::string& why) {
  if (!noticed_.insert("room").second) return;
  notice_("a checkpoint is not kept in memory: " + why,
          "--checkpoint-memory and the file system of --checkpoint-folder need room for three steps of this "
          "node and of the node whose replicas it keeps");
}

void LocalParts::release(const void* owner) {
  const Lock lock(mutex_);
  reserved_.erase(owner);
  changed_.notify_all();
}

// ---- parts of others

void LocalParts::add_replica(int attempt, const checkpoint::Offer& part, const Stamps& stamps) {
  const Lock lock(mutex_);
  if (attempt != attempt_) return;
  const std::string folder = step_path(part.step, true);
  for (const File& file : part.manifest.files)
    if (const auto found = stamps.find(file.name); found != stamps.end())
      seen_.known[folder + "/" + file.name] = {found->second, file.blake2b, file.blake2b};
  write_manifest(folder, part.rank, part.manifest);
  look_locked();
}

void LocalParts::hand_over(Step step, const std::string& name, const std::string& file) {
  const Lock lock(mutex_);
  const std::string folder = step_path(step, false), path = folder + "/" + name;
  if (file == path) return;
  int error = os::make_step_folder(folder);
  handed_over_.insert(path);
  if (error == 0) error = os::link_own_file(file, folder, name);
  if (error != 0) throw os::system_failure("cannot create " + printable(path), error);
}

bool LocalParts::has_handed_over(Step step, const std::string& name) const {
  const Lock lock(mutex_);
  const std::string path = step_path(step, false) + "/" + name;
  return handed_over_.contains(path) && ::access(path.c_str(), F_OK) == 0;
}

}  // namespace ddprun::checkpoints
