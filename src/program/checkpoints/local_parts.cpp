#include "checkpoints/local_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/clock.hpp"
#include "os/private_files.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::checkpoints {

namespace {

constexpr std::int64_t k_lone_age = 300;   // ms; a manifest follows at once, where one does
constexpr Milliseconds k_room_wait{3000};  // for an order that says what may go

// Does nothing where there is no room: the next look tries again.
void write_manifest(const std::string& folder, int rank, const Manifest& manifest) {
  try {
    copies::NewFile file(folder, checkpoint::manifest_name(rank));
    file.write(checkpoint::render(manifest));
    file.finish(false);
  } catch (const Error&) {
  }
}

bool is_hashed(const Manifest& manifest) {
  return std::ranges::none_of(manifest.files, [](const File& file) { return file.blake2b.empty(); });
}

}  // namespace

std::string LocalParts::step_path(Step step, bool replica) const {
  return folder_ + (replica ? "/replicas/" : "/") + checkpoint::step_folder(step);
}

void LocalParts::notice_once(const std::string& mark, const std::string& what, const std::string& hint) {
  if (noticed_.insert(mark).second) notice_(what, hint);
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
    notice_once(folder_,
                printable(folder_) + " is not this user's alone any more; its checkpoints are not used");
  else
    for (const bool replica : {false, true})
      for (const std::string& name : os::list_folder(folder_ + (replica ? "/replicas" : "")))
        if (const auto step = checkpoint::parse_step(name)) look_at_step(seen, *step, replica, ended);
  seen_ = std::move(seen);
  std::vector<checkpoint::Part> parts;
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
  std::vector<copies::StampedFile> files = copies::list_own_files(folder);
  if (!replica && write_lone_manifests(folder, files, ended)) files = copies::list_own_files(folder);
  std::set<std::string_view> whole;  // files of complete parts
  for (const copies::StampedFile& file : files) {
    const auto rank = checkpoint::parse_manifest_name(file.name);
    if (!rank) continue;
    const std::optional<Manifest>& read = read_manifest(seen, folder, file);
    if (!read || *rank >= read->world) continue;
    Manifest manifest = *read;
    const State state = check_part(seen, folder, manifest, files);
    if (state == State::damaged) discard(step, *rank, replica, manifest, seen);
    if (state < State::unchecked) continue;
    for (const File& each : read->files) whole.insert(each.name);
    if (!replica && is_hashed(manifest) && !is_hashed(*read)) write_manifest(folder, *rank, manifest);
    if (state == State::right) seen.parts.emplace(Place{step, *rank, replica}, std::move(manifest));
  }
  for (const copies::StampedFile& file : files) {
    if (!seen.inodes.insert(file.stamp.inode).second) continue;
    seen.sizes[step] += file.stamp.bytes;
    (whole.contains(file.name) ? seen.complete : seen.other) += file.stamp.bytes;
  }
}

bool LocalParts::write_lone_manifests(const std::string& folder,
                                      const std::vector<copies::StampedFile>& files, bool ended) const {
  bool wrote = false;
  for (const copies::StampedFile& file : files) {
    const auto rank = checkpoint::parse_lone_file(file.name);
    const bool settled = ended || os::unix_milliseconds() - file.stamp.changed / 1000000 > k_lone_age;
    if (!rank || *rank >= world_ || !settled || handed_over_.contains(folder + "/" + file.name)) continue;
    if (std::ranges::count(files, checkpoint::manifest_name(*rank), &copies::StampedFile::name) > 0) continue;
    write_manifest(folder, *rank, {world_, {{file.name, file.stamp.bytes}}});
    wrote = true;
  }
  return wrote;
}

const std::optional<Manifest>& LocalParts::read_manifest(Seen& seen, const std::string& folder,
                                                         const copies::StampedFile& file) {
  const std::string path = folder + "/" + file.name;
  const auto known = seen_.manifests.find(path);
  if (known != seen_.manifests.end() && known->second.stamp == file.stamp)
    return seen.manifests.emplace(path, std::move(known->second)).first->second.manifest;
  ReadManifest read{file.stamp, {}};
  try {
    const auto text = copies::read_own_file(path, checkpoint::k_longest_manifest);
    if (text) read.manifest = checkpoint::parse_manifest(*text);
  } catch (const Error& error) {
    notice_once(path, fmt::format("{} is not used: {}", printable(path), error.what()));
  }
  // Saved once more: what was known of its files is of others.
  for (const File& each : read.manifest ? read.manifest->files : std::vector<File>())
    if (each.blake2b.empty()) seen_.known.erase(folder + "/" + each.name);
  return seen.manifests.emplace(path, std::move(read)).first->second.manifest;
}

// Fills in the hashes that are known.
LocalParts::State LocalParts::check_part(Seen& seen, const std::string& folder, Manifest& manifest,
                                         const std::vector<copies::StampedFile>& files) {
  State worst = State::right;
  for (File& file : manifest.files) {
    const auto found = std::ranges::lower_bound(files, file.name, {}, &copies::StampedFile::name);
    if (found == files.end() || found->name != file.name || found->stamp.bytes != file.bytes)
      return State::missing;
    const std::string path = folder + "/" + file.name;
    Known& known = seen.known[path] = seen_.known[path];
    if (!file.blake2b.empty()) known.expected = file.blake2b;
    if (known.stamp != found->stamp) known.hash.clear();
    if (known.hash.empty() && queued_.insert(path).second) {
      queue_.push_back(path);
      to_hash_.notify_one();
    }
    if (known.expected.empty()) known.expected = known.hash;
    file.blake2b = known.expected;
    const bool unchecked = known.hash.empty() && !known.expected.empty();
    worst = std::min(worst, known.damaged() ? State::damaged : unchecked ? State::unchecked : State::right);
  }
  return worst;
}

void LocalParts::discard(Step step, int rank, bool replica, const Manifest& manifest, const Seen& seen) {
  const std::string folder = step_path(step, replica) + "/", name = checkpoint::manifest_name(rank);
  ::unlink((folder + name).c_str());
  for (const File& file : manifest.files)
    if (const auto known = seen.known.find(folder + file.name); known != seen.known.end())
      if (known->second.damaged()) ::unlink(known->first.c_str());
  notice_once(folder + name,
              fmt::format("the {} of step {} of rank {} does not match its hash and is not used",
                          replica ? "replica" : "checkpoint", step, rank));
}

std::vector<checkpoint::Part> LocalParts::parts() const {
  const Lock lock(mutex_);
  return parts_;
}

std::map<int, Manifest> LocalParts::parts_of(Step step) const {
  const Lock lock(mutex_);
  std::map<int, Manifest> parts;
  for (const auto& [place, manifest] : seen_.parts)
    if (std::get<Step>(place) == step) parts.emplace(std::get<int>(place), manifest);
  return parts;
}

LocalParts::List LocalParts::own_parts(std::uint64_t known, Milliseconds limit) {
  Lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return version_ != known; });
  List list{version_, {}, attempt_};
  for (const auto& [place, manifest] : seen_.parts)
    if (!std::get<bool>(place))
      list.offers.push_back({std::get<Step>(place), std::get<int>(place), manifest});
  return list;
}

std::vector<Offer> LocalParts::offers_of(Step step) {
  std::vector<Offer> offers;
  for (const auto& [rank, manifest] : parts_of(step)) offers.push_back({step, rank, manifest});
  return offers;
}

bool LocalParts::is_handed_over(const std::string& path) const {
  return handed_over_.contains(path) && ::access(path.c_str(), F_OK) == 0;
}

std::string LocalParts::find(Step step, const std::string& name) {
  const Lock lock(mutex_);
  for (const auto& [place, manifest] : seen_.parts)
    if (std::get<Step>(place) == step && std::ranges::count(manifest.files, name, &File::name) > 0)
      return step_path(step, std::get<bool>(place)) + "/" + name;
  const std::string own = step_path(step, false) + "/" + name;
  return is_handed_over(own) ? own : std::string();
}

// ---- hashes

void LocalParts::hash_files() {
  Lock lock(mutex_);
  while (true) {
    to_hash_.wait(lock, [this] { return !queue_.empty(); });
    const std::string path = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const copies::OpenedOwnFile file = copies::open_own_file(path);
    const auto hash =
        file.file ? copies::read_hashed(file, [](std::string_view) { return true; }) : std::nullopt;
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
  auto known = seen_.known.find(path);
  if (again && known != seen_.known.end()) {
    known->second.hash.clear();
    look_locked();
  }
  const bool found = changed_.wait_for(lock, limit, [&] {
    known = seen_.known.find(path);
    return known == seen_.known.end() || !known->second.hash.empty();
  });
  if (!found) return "";
  if (known == seen_.known.end() || known->second.damaged()) return std::nullopt;
  return known->second.hash;
}

// ---- what goes

void LocalParts::remove(const std::vector<Step>& steps, Lock& lock, bool wait) {
  std::vector<std::string> gone;
  std::uint64_t bytes = 0;
  for (const Step step : steps) {
    if (const auto size = seen_.sizes.find(step); size != seen_.sizes.end()) bytes += size->second;
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
  std::set<Step> newer;
  for (const bool replica : {false, true}) {
    for (const std::string& name : os::list_folder(folder_ + (replica ? "/replicas" : ""))) {
      const auto each = checkpoint::parse_step(name);
      if (each && (!step || *each > *step)) newer.insert(*each);
      if (!each || newer.contains(*each) || replica) continue;
      for (const copies::StampedFile& file : copies::list_own_files(folder_ + "/" + name))
        if (file.name.starts_with('.') && !checkpoint::is_file_name(file.name))
          ::unlink(fmt::format("{}/{}/{}", folder_, name, file.name).c_str());
    }
  }
  remove({newer.begin(), newer.end()}, lock, false);
}

void LocalParts::keep_complete(const std::vector<Step>& steps) {
  Lock lock(mutex_);
  complete_ = steps;
  remove(checkpoint::needless_steps(seen_.sizes, complete_), lock, false);
  changed_.notify_all();
}

// ---- room

// Counts what is written under a reservation once.
std::uint64_t LocalParts::used() const {
  std::uint64_t reserved = other_before_;
  for (const auto& [owner, bytes] : reserved_) reserved += bytes;
  return seen_.complete + removing_ + std::max(seen_.other, reserved);
}

std::string LocalParts::reserve(const void* owner, std::uint64_t bytes) {
  Lock lock(mutex_);
  reserved_.erase(owner);
  for (const TimePoint limit = os::now() + k_room_wait;;) {
    look_locked();
    if (reserved_.empty()) other_before_ = seen_.other;
    std::error_code ignored;
    const std::uint64_t all = used() + bytes, free = std::filesystem::space(folder_, ignored).available;
    if (all <= limit_ && bytes <= free) return reserved_.emplace(owner, bytes), "";
    const std::uint64_t missing = std::max(all - std::min(limit_, all), bytes - std::min(free, bytes));
    const auto doomed = checkpoint::steps_to_remove(seen_.sizes, complete_, missing);
    remove(doomed, lock, true);
    if (!doomed.empty()) continue;
    const bool may_change = bytes <= limit_ && (!seen_.sizes.empty() || removing_ > 0);
    if (may_change && changed_.wait_until(lock, limit) == std::cv_status::no_timeout) continue;
    const std::string why = fmt::format("{} do not fit: {} of {} are in use, the file system has {} free",
                                        facts::describe_bytes(bytes), facts::describe_bytes(all - bytes),
                                        facts::describe_bytes(limit_), facts::describe_bytes(free));
    tell_no_room(why);
    return why;
  }
}

void LocalParts::tell_no_room(const std::string& why) {
  notice_once("room", "a checkpoint is not kept in memory: " + why,
              "--checkpoint-memory and the file system of --checkpoint-folder need room for three steps of "
              "this node and of the node whose replicas it keeps");
}

void LocalParts::release(const void* owner) {
  const Lock lock(mutex_);
  reserved_.erase(owner);
  changed_.notify_all();
}

// ---- parts of others

std::vector<Offer> LocalParts::missing(const List& neighbour) const {
  const Lock lock(mutex_);
  // Parts that it has saved in an attempt before would be taken for those of this one.
  if (neighbour.attempt < attempt_) return {};
  return checkpoint::parts_to_copy(neighbour.offers, parts_, complete_);
}

void LocalParts::add_replica(int attempt, const Offer& part) {
  const Lock lock(mutex_);
  if (attempt != attempt_) return;
  const std::string folder = step_path(part.step, true);
  const auto files = copies::list_own_files(folder);
  for (const File& file : part.manifest.files) {
    const auto found = std::ranges::find(files, file.name, &copies::StampedFile::name);
    if (found == files.end()) return;  // another worker gets it later
    seen_.known[folder + "/" + file.name] = {found->stamp, file.blake2b, file.blake2b};
  }
  write_manifest(folder, part.rank, part.manifest);
  look_locked();
}

void LocalParts::hand_over(Step step, const std::string& name, const std::string& file) {
  const Lock lock(mutex_);
  const std::string folder = step_path(step, false), path = folder + "/" + name;
  if (file == path || is_handed_over(path)) return;
  copies::make_step_folder(folder);
  handed_over_.insert(path);
  ::unlink(path.c_str());
  if (::link(file.c_str(), path.c_str()) != 0)
    throw os::system_failure("cannot create " + printable(path), errno);
}

}  // namespace ddprun::checkpoints
