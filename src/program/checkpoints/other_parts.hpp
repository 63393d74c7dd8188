// Parts of checkpoints that other agents or the flush folder have.
// Replicas of the neighbour's are copied as they come, and of others what a worker reads.
//
// What is copied lies in `replicas`, and is a part of this agent's once all its files and its manifest are
// there.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "checkpoints/flush_folder.hpp"
#include "checkpoints/local_parts.hpp"
#include "net/staging/shard_exchange.hpp"

namespace ddprun::checkpoints {

class OtherParts {
 public:
  // `rate`: bytes a second of replicas; 0: no limit.
  OtherParts(LocalParts& parts, const FlushFolder& flush, std::string launch_key, std::uint64_t rate)
      : parts_(parts), flush_(flush), launch_key_(std::move(launch_key)), rate_(rate) {}

  void copy_from(const std::optional<staging::Server>& neighbour);
  [[noreturn]] void copy_replicas();  // in a thread
  void begin_attempt(const std::optional<checkpoint::Restore>& restore);
  // For workers; these throw Error.
  std::string files(Step step);  // checkpoint::render_parts of all ranks
  void fetch(Step step, const std::string& name);
  // Fetches all files of these ranks' parts that are not here; what cannot be had is left out.
  void fetch_parts(Step step, const std::vector<int>& ranks);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Source {
    Manifest manifest;
    std::vector<staging::Server> servers;  // none: the flush folder
  };
  using Sources = std::map<int, Source>;  // ranks
  bool copy_parts(const net::ShardClient& neighbour, std::vector<Offer> offers, int attempt);
  void pace(std::size_t bytes);
  void alone(const std::string& mark, const std::function<void()>& work);
  Sources find_sources(Step step);
  void ask_holders(const checkpoint::Restore& restore, Sources& sources) const;
  void bring(Step step, const std::string& name);
  std::string copy_one(Step step, const Source& source, const File& file, const std::string& folder) const;

  LocalParts& parts_;
  const FlushFolder& flush_;
  std::string launch_key_;
  std::uint64_t rate_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<staging::Server> neighbour_;
  std::uint64_t neighbour_number_ = 0;
  TimePoint next_{};  // when the rate permits another piece
  std::optional<checkpoint::Restore> restore_;
  std::map<Step, Sources> sources_;
  std::set<std::string> busy_;
};

}  // namespace ddprun::checkpoints
