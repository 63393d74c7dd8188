#include "checkpoints/other_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.hpp"
#include "os/clock.hpp"

namespace ddprun::checkpoints {

namespace {

constexpr Milliseconds k_pause{500};  // after a failure
constexpr std::size_t k_threads = 4, k_askers = 16;
constexpr int k_tries = 3;

// Has some threads call `work` with each number below `count`.
void run_in_threads(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < std::min(count, threads); ++i)
    running.emplace_back([&] {
      for (std::size_t number = next++; number < count; number = next++) work(number);
    });
  for (std::thread& thread : running) thread.join();
}

}  // namespace

// ---- replicas

void OtherParts::copy_from(const std::optional<staging::Server>& neighbour) {
  const Lock lock(mutex_);
  if (neighbour == neighbour_) return;
  neighbour_ = neighbour;
  ++neighbour_number_;
  changed_.notify_all();
}

void OtherParts::copy_replicas() {
  std::uint64_t number = 0, version = 0;
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return neighbour_.has_value(); });
    if (std::exchange(number, neighbour_number_) != neighbour_number_) version = 0;
    const net::ShardClient neighbour{*neighbour_, launch_key_, [this, number] {
                                       const Lock now(mutex_);
                                       return number != neighbour_number_;
                                     }};
    lock.unlock();
    bool copied = false;
    try {
      const int attempt = parts_.attempt();
      const auto list = neighbour.get_own_parts(version);
      std::vector<Offer> offers = parts_.missing(list);
      // There may be older ones, or it begins this attempt later.
      version = offers.empty() && list.attempt >= attempt ? list.version : 0;
      copied = list.attempt >= attempt && copy_parts(neighbour, std::move(offers), attempt);
    } catch (const Error&) {  // it is gone, or another one is told
    }
    if (!copied) std::this_thread::sleep_for(k_pause);
    lock.lock();
  }
}

void OtherParts::pace(std::size_t bytes) {
  if (rate_ == 0) return;
  Lock lock(mutex_);
  const std::chrono::duration<double> time(static_cast<double>(bytes) / static_cast<double>(rate_));
  next_ = std::max(next_, os::now()) + std::chrono::duration_cast<TimePoint::duration>(time);
  const TimePoint until = next_;
  lock.unlock();
  std::this_thread::sleep_until(until);
}

// False if one could not be copied: there is no room, it is gone, or damaged, which the neighbour says.
bool OtherParts::copy_parts(const net::ShardClient& neighbour, std::vector<Offer> offers, int attempt) {
  std::atomic<bool> all = true;
  run_in_threads(offers.size(), k_threads, [&](std::size_t number) {
    Offer& offer = offers[number];
    const std::string folder = parts_.step_path(offer.step, true);
    try {
      if (!parts_.reserve(&offer, size_of(offer.manifest)).empty()) throw Error("no room");
      copies::make_step_folder(folder);
      for (File& file : offer.manifest.files)
        file.blake2b =
            neighbour.get_file(offer.step, file, folder, [this](std::size_t bytes) { pace(bytes); });
      parts_.add_replica(attempt, offer);
    } catch (const Error&) {
      all = false;
    }
    parts_.release(&offer);
  });
  return all;
}

// ---- what workers read

void OtherParts::begin_attempt(const std::optional<checkpoint::Restore>& restore) {
  const Lock lock(mutex_);
  restore_ = restore;
  sources_.clear();
}

// Works while no other thread does what has that mark.
void OtherParts::alone(const std::string& mark, const std::function<void()>& work) {
  const auto leave = [&] {
    const Lock lock(mutex_);
    busy_.erase(mark);
    changed_.notify_all();
  };
  {
    Lock lock(mutex_);
    changed_.wait(lock, [&] { return busy_.insert(mark).second; });
  }
  try {
    work();
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

// Asks the holders of the step, many at once.
void OtherParts::ask_holders(const checkpoint::Restore& restore, Sources& sources) const {
  std::mutex mutex;
  run_in_threads(restore.holders.size(), k_askers, [&](std::size_t number) {
    const net::ShardClient holder{restore.holders[number].server, launch_key_, [] { return false; }};
    for (int tries = 0; tries < k_tries; ++tries) {
      try {
        for (Offer& offer : holder.get_parts_of(restore.step)) {
          const Lock lock(mutex);
          if (offer.step != restore.step || offer.manifest.world != restore.world) continue;
          sources[offer.rank].manifest = std::move(offer.manifest);
          sources[offer.rank].servers.push_back(holder.server);
        }
        return;
      } catch (const Error&) {  // gone or busy
        std::this_thread::sleep_for(k_pause);
      }
    }
  });
}

// Returns where the parts of a step are that are not here; found out once.
OtherParts::Sources OtherParts::find_sources(Step step) {
  Sources sources;
  alone(checkpoint::step_folder(step), [&] {
    Lock lock(mutex_);
    if (const auto known = sources_.find(step); known != sources_.end()) return void(sources = known->second);
    const auto restore = restore_ && restore_->step == step ? restore_ : std::nullopt;
    lock.unlock();
    if (restore) ask_holders(*restore, sources);
    if (!restore || restore->from_flush)
      for (auto& [rank, manifest] : flush_.parts_of(step))
        if (!restore || manifest.world == restore->world)
          sources.try_emplace(rank, Source{std::move(manifest), {}});
    lock.lock();
    sources_[step] = sources;
  });
  return sources;
}

std::string OtherParts::files(Step step) {
  std::map<int, Manifest> all = parts_.parts_of(step);
  const auto whole = [&] { return !all.empty() && std::cmp_equal(all.size(), all.begin()->second.world); };
  if (!whole())
    for (const auto& [rank, source] : find_sources(step)) all.try_emplace(rank, source.manifest);
  if (!whole()) throw Error(fmt::format("step {} is not complete on the nodes that are here", step));
  return checkpoint::render_parts(all);
}

void OtherParts::fetch(Step step, const std::string& name) {
  alone(fmt::format("{}/{}", step, name), [&] {
    if (parts_.find(step, name).empty()) bring(step, name);
    const std::string here = parts_.find(step, name);
    parts_.hand_over(step, name, here.empty() ? parts_.step_path(step, true) + "/" + name : here);
  });
}

void OtherParts::fetch_parts(Step step, const std::vector<int>& ranks) {
  std::set<int> missing(ranks.begin(), ranks.end());
  for (const checkpoint::Part& part : parts_.parts())
    if (part.step == step && !part.replica) missing.erase(part.rank);
  if (missing.empty()) return;
  std::map<int, Manifest> found = parts_.parts_of(step);
  for (const auto& [rank, source] : find_sources(step)) found.try_emplace(rank, source.manifest);
  std::vector<std::string> names;
  for (const auto& [rank, manifest] : found) {
    if (!missing.contains(rank)) continue;
    for (const File& file : manifest.files) names.push_back(file.name);
  }
  run_in_threads(names.size(), k_threads, [&](std::size_t number) {
    try {
      fetch(step, names[number]);
    } catch (const Error&) {  // the worker that reads it is told why
    }
  });
}

std::string OtherParts::copy_one(Step step, const Source& source, const File& file,
                                 const std::string& folder) const {
  std::string why;
  for (int tries = 0; tries < k_tries && !source.servers.empty(); ++tries) {
    if (tries > 0) std::this_thread::sleep_for(k_pause);
    for (const staging::Server& server : source.servers) {
      try {
        const net::ShardClient client{server, launch_key_, [] { return false; }};
        return client.get_file(step, file, folder, [](std::size_t) {});
      } catch (const Error& error) {
        why = error.what();
      }
    }
  }
  for (const auto& [rank, manifest] : flush_.parts_of(step))
    for (const File& each : manifest.files)
      if (each.name == file.name) return flush_.copy(step, each, folder);
  throw Error(why);
}

// Copies a file into the replicas; the last one of a part makes it known.
void OtherParts::bring(Step step, const std::string& name) {
  const int attempt = parts_.attempt();
  for (const auto& [rank, source] : find_sources(step)) {
    const auto file = std::ranges::find(source.manifest.files, name, &File::name);
    if (file == source.manifest.files.end()) continue;
    const std::string folder = parts_.step_path(step, true);
    if (const std::string why = parts_.reserve(&*file, file->bytes); !why.empty()) throw Error(why);
    copies::make_step_folder(folder);
    Offer part{step, rank, {}};
    try {
      const std::string hash = copy_one(step, source, *file, folder);
      const Lock lock(mutex_);
      part.manifest = sources_[step].try_emplace(rank, source).first->second.manifest;
      std::ranges::find(part.manifest.files, name, &File::name)->blake2b = hash;
      sources_[step][rank].manifest = part.manifest;
    } catch (const Error&) {
      parts_.release(&*file);
      throw;
    }
    parts_.release(&*file);
    return parts_.add_replica(attempt, part);
  }
  throw Error(fmt::format("no node that is here has {} of step {}", name, step));
}

}  // namespace ddprun::checkpoints
