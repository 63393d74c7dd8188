// The standby interpreters of a host, each for the worker of its number in the next attempt.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "os/process/child.hpp"
#include "os/process/reaper.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::workers {

// A Python that waits to become a worker of the next attempt (--standby).
// It has been started as a worker is, has imported what a worker has imported, and waits before the script's
// first line. Its inside: standby/sitecustomize.py.

// Task of sitecustomize.py in `folder` as Python starts: it notes what a worker imports, or stands by. The
// folder comes first in PYTHONPATH until then.
enum class Hook { notes, stands_by };
std::vector<std::string> environment_of_hook(const std::vector<std::string>& worker, Hook hook,
                                             const std::string& folder);

class StandbyPython {
 public:
  struct Ready {};
  struct Unfit {          // ends as unfit
    std::string package;  // package without which it would do; empty: none is named
    std::string reason;   // "opens /dev/nvidia0"
  };
  using News = std::variant<Ready, Unfit>;
  using OnNews = std::function<void(const News&)>;  // not from within a call of this class

  // Starts it as `worker` would be, with the hook in `folder`. Throws Error if that cannot be.
  StandbyPython(boost::asio::io_context& context, os::SpawnRequest worker, const std::string& folder,
                OnNews on_news);
  ~StandbyPython() { kill(); }
  StandbyPython(const StandbyPython&) = delete;
  StandbyPython& operator=(const StandbyPython&) = delete;

  int pid() const { return child_->pid(); }
  bool ready() const { return ready_; }
  // Imports `modules`: a file with a JSON list of names; those of the packages that are `left_out` are not
  // imported, nor any package that imports one of those. Ready again once that is done.
  void import(const std::string& modules, const std::vector<std::string>& left_out);
  // Becomes this worker, whose environment and streams may be others, unless it does not fit; the string says
  // why. In either case it is no standby interpreter any more.
  std::variant<os::Child, std::string> become(const os::SpawnRequest& worker, TimePoint deadline);
  void kill();  // no further word of it is read
  // Reports whether it has ended; its pid is free after that.
  bool reap() { return child_->reap().has_value(); }

 private:
  void read();
  void note_line(std::string_view line);
  void tell(const News& news);
  std::string why_other(const os::SpawnRequest& worker) const;

  os::SpawnRequest started_as_;
  OnNews on_news_;
  std::optional<os::Child> child_;
  boost::asio::posix::stream_descriptor socket_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // a handler may be called after the end
  std::array<char, 4096> buffer_{};
  std::string text_;
  bool ready_ = false;
};

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
