// The standby interpreters of a host, each for the worker of its number in the next attempt.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "os/process/reaper.hpp"
#include "workers/standby_python.hpp"

namespace ddprun::workers {

class Standbys {
 public:
  using OnNews = std::function<void(std::size_t worker, const StandbyPython::News&)>;

  // `helpers`: processes of ours that are no workers', to which these are added while they wait.
  Standbys(boost::asio::io_context& context, os::Reaper& reaper, std::vector<int>& helpers)
      : context_(context), reaper_(reaper), helpers_(helpers) {}
  ~Standbys() { end(); }
  Standbys(const Standbys&) = delete;
  Standbys& operator=(const Standbys&) = delete;

  void when_told(OnNews on_news) { on_news_ = std::move(on_news); }
  // `folder`: in a folder of this user's alone; what Python imports at its start is written there, once.
  void begin(const std::string& folder);
  // The start of a worker whose Python notes what it imports; as it is where that could not be written.
  os::SpawnRequest with_imports_noted(os::SpawnRequest request) const;
  void start(std::size_t worker, const os::SpawnRequest& request);  // one for this worker; throws Error
  // Throws Error where the list cannot be written.
  void import(std::size_t worker, const std::vector<std::string>& modules,
              const std::vector<std::string>& left_out);
  // Takes the one for this worker, as the process that it becomes; else returns why there is none.
  std::variant<os::Child, std::string> take(std::size_t worker, const os::SpawnRequest& request,
                                            TimePoint deadline);
  // Notes the reason why the worker has none, until one is ready.
  void note_why_none(std::size_t worker, const std::string& why) { why_none_[worker] = why; }
  void drop(std::size_t worker);       // drops one that is not wanted any more
  void drop_from(std::size_t worker);  // nor those for the workers behind it
  int pid(std::size_t worker) const;   // 0: there is none
  bool is_ready(std::size_t worker) const;
  void look_for_ends();  // after SIGCHLD
  void end();            // all of them; waits until they have ended, a second at most

 private:
  void note(std::size_t worker, const StandbyPython::News& news);

  boost::asio::io_context& context_;
  os::Reaper& reaper_;
  std::vector<int>& helpers_;
  OnNews on_news_;
  std::string folder_;  // empty: not yet written
  std::map<std::size_t, std::unique_ptr<StandbyPython>> waiting_;
  std::map<std::size_t, std::string> why_none_;
  std::vector<std::unique_ptr<StandbyPython>> ending_;
};

}  // namespace ddprun::workers
