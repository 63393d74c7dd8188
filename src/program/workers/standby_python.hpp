// A Python that waits to become a worker of the next attempt (--standby).
// It has been started as a worker is, has imported what a worker has imported, and waits before the script's
// first line. Its inside: standby/sitecustomize.py.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "os/process/child.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::workers {

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

}  // namespace ddprun::workers
