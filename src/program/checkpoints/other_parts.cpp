#include "checkpoints/other_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/read_file.hpp"

namespace ddprun::checkpoints {

namespace {

using checkpoint::File;
using checkpoint::Manifest;
using checkpoint::Offer;

constexpr Milliseconds k_pause{500};       // after a failure
constexpr Milliseconds k_room_wait{3000};  // for an order that says what may go
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

net::ShardClient OtherParts::client(const staging::Server& server) const {
  return {server, launch_key_, [] { return false; }};
}

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
    net::ShardClient neighbour = client(*neighbour_);
    neighbour.stop = [this, number] {
      const Lock now(mutex_);
      return number != neighbour_number_;
    };
    lock.unlock();
    bool again = false;
    try {
      net::ShardClient::List list = neighbour.get_own_parts(version);
      const int attempt = parts_.attempt();
      // Parts that it has saved in an attempt before would be taken for what it saves in this one.
      again = list.attempt < attempt;
      if (!again) version = list.version;
      if (again) list.offers.clear();
      auto offers = checkpoint::parts_to_copy(list.offers, parts_.parts(), parts_.complete());
      if (!offers.empty()) {
        version = 0;  // there may be older ones
        again = !copy_step(neighbour, std::move(offers), attempt);
      }
    } catch (const Error&) {
      again = true;
    }
    if (again) std::this_thread::sleep_for(k_pause);
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

// Copies parts of one step; false if one could not be.
bool OtherParts::copy_step(const net::ShardClient& neighbour, std::vector<Offer> offers, int attempt) {
  const Step step = offers.front().step;
  const std::string folder = parts_.step_path(step, true);
  os::make_step_folder(folder);
  std::vector<Task> tasks;
  std::vector<std::atomic<bool>> failed(offers.size());
  for (std::size_t i = 0; i < offers.size(); ++i) {
    failed[i] = !parts_.reserve(&offers[i], size_of(offers[i].manifest), k_room_wait).empty();
    for (File& file : offers[i].manifest.files)
      if (!failed[i]) tasks.push_back({i, &file});
  }
  std::vector<LocalParts::Stamps> stamps(offers.size());
  run_in_threads(tasks.size(), k_threads, [&](std::size_t number) {
    const auto& [offer, file] = tasks[number];
    if (failed[offer]) return;
    try {
      const auto got = neighbour.get_file(step, *file, folder, [this](std::size_t bytes) { pace(bytes); });
      file->blake2b = got.hash;
      const Lock lock(mutex_);
      stamps[offer].emplace(file->name, got.stamp);
    } catch (const Error&) {  // it is gone, or damaged, which the neighbour says
      failed[offer] = true;
    }
  });
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (!failed[i]) parts_.add_replica(attempt, offers[i], stamps[i]);
    parts_.release(&offers[i]);
  }
  return std::ranges::none_of(failed, [](const std::atomic<bool>& each) { return each.load(); });
}

// ---- what workers read

void OtherParts::begin_attempt(const std::optional<checkpoint::Restore>& restore) {
  const Lock lock(mutex_);
  restore_ = restore;
  sources_.clear();
  brought_.clear();
}

// Asks the holders of the step, all at once.
OtherParts::Sources OtherParts::ask_holders(const checkpoint::Restore& restore) const {
  Sources sources;
  std::mutex mutex;
  run_in_threads(restore.holders.size(), k_askers, [&](std::size_t number) {
    const staging::Server& server = restore.holders[number].server;
    for (int tries = 0; tries < k_tries; ++tries) {
      try {
        for (Offer& offer : client(server).get_parts_of(restore.step)) {
          const Lock lock(mutex);
          if (offer.step != restore.step || offer.manifest.world != restore.world) continue;
          Source& source = sources[offer.rank];
          source.manifest = std::move(offer.manifest);
          source.servers.push_back(server);
        }
        return;
      } catch (const Error&) {  // gone or busy
        std::this_thread::sleep_for(k_pause);
      }
    }
  });
  return sources;
}

// Returns where the parts of a step are that are not here; found out once.
OtherParts::Sources OtherParts::find_sources(Step step) {
  Lock lock(mutex_);
  const std::string mark = checkpoint::step_folder(step);
  changed_.wait(lock, [&] { return !busy_.contains(mark); });
  if (const auto known = sources_.find(step); known != sources_.end()) return known->second;
  busy_.insert(mark);
  const auto restore = restore_;
  lock.unlock();
  Sources sources;
  if (restore && restore->step == step) sources = ask_holders(*restore);
  const auto here = parts_.parts_of(step);
  const int world = restore && restore->step == step ? restore->world : 0;
  std::set<int> known;
  for (const auto& [rank, manifest] : here) known.insert(rank);
  for (const auto& [rank, source] : sources) known.insert(rank);
  if (world == 0 || std::cmp_less(known.size(), world))
    for (auto& [rank, manifest] : flush_.parts_of(step))
      if (world == 0 || manifest.world == world) sources.try_emplace(rank, Source{std::move(manifest), {}});
  lock.lock();
  busy_.erase(mark);
  changed_.notify_all();
  return sources_[step] = std::move(sources);
}

std::string OtherParts::files(Step step) {
  std::map<int, Manifest> all = parts_.parts_of(step);
  const bool whole = !all.empty() && std::cmp_equal(all.size(), all.begin()->second.world);
  for (auto& [rank, source] : whole ? Sources() : find_sources(step)) all.try_emplace(rank, source.manifest);
  if (all.empty() || std::cmp_less(all.size(), all.begin()->second.world))
    throw Error(fmt::format("step {} is not complete on the nodes that are here", step));
  return checkpoint::render_parts(all);
}

void OtherParts::fetch(Step step, const std::string& name) {
  Lock lock(mutex_);
  const std::string mark = fmt::format("{}/{}", step, name);
  changed_.wait(lock, [&] { return !busy_.contains(mark); });
  if (parts_.has_handed_over(step, name)) return;
  busy_.insert(mark);
  lock.unlock();
  std::exception_ptr failure;
  try {
    if (parts_.find(step, name).empty()) bring(step, name);
    const std::string here = parts_.find(step, name);
    parts_.hand_over(step, name, here.empty() ? parts_.step_path(step, true) + "/" + name : here);
  } catch (const Error&) {
    failure = std::current_exception();
  }
  lock.lock();
  busy_.erase(mark);
  changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
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

net::ShardClient::Got OtherParts::copy_one(Step step, const Source& source, const File& file,
                                           const std::string& folder) const {
  std::string why;
  for (int tries = 0; tries < k_tries; ++tries) {
    for (const staging::Server& server : source.servers) {
      try {
        return client(server).get_file(step, file, folder, [](std::size_t) {});
      } catch (const Error& error) {
        why = error.what();
      }
    }
    if (!source.servers.empty()) std::this_thread::sleep_for(k_pause);
  }
  const auto flushed = flush_.parts_of(step);
  for (const auto& [rank, manifest] : flushed)
    for (const File& each : manifest.files)
      if (each.name == file.name) return flush_.copy(step, each, folder);
  throw Error(why.empty() ? fmt::format("{} of step {} is nowhere", file.name, step) : why);
}

// Copies a file into the replicas, and makes a part of them that is whole now known.
void OtherParts::bring(Step step, const std::string& name) {
  const int attempt = parts_.attempt();
  for (const auto& [rank, source] : find_sources(step)) {
    const auto file = std::ranges::find(source.manifest.files, name, &File::name);
    if (file == source.manifest.files.end()) continue;
    const std::string folder = parts_.step_path(step, true);
    os::make_step_folder(folder);
    const std::string why = parts_.reserve(&*file, file->bytes, k_room_wait);
    if (!why.empty()) throw Error(why);
    try {
      const net::ShardClient::Got got = copy_one(step, source, *file, folder);
      parts_.release(&*file);
      Lock lock(mutex_);
      Source& kept = sources_[step][rank];
      auto& stamps = brought_[fmt::format("{}/{}", step, rank)];
      stamps[name] = got.stamp;
      for (File& each : kept.manifest.files)
        if (each.name == name) each.blake2b = got.hash;
      if (stamps.size() != kept.manifest.files.size()) return;
      const Offer whole{step, rank, kept.manifest};
      const LocalParts::Stamps all = stamps;
      lock.unlock();
      return parts_.add_replica(attempt, whole, all);
    } catch (const Error&) {
      parts_.release(&*file);
      throw;
    }
  }
  throw Error(fmt::format("no node that is here has {} of step {}", name, step));
}

}  // namespace ddprun::checkpoints
