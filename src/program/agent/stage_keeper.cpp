#include "agent/stage_keeper.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/link_settings.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "event_loop/handlers.hpp"
#include "net/staging/sealed_door.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/reaper.hpp"
#include "os/process/serving_child.hpp"
#include "os/system_failure.hpp"
#include "plan/worker_command.hpp"
#include "staging/rewrite.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_live{1000}, k_in_log{30000};
constexpr int k_removal_limit = 60000;  // ms; what is left then, the next ddprun removes

}  // namespace

StageKeeper::StageKeeper(boost::asio::io_context& context, const Plans& plans,
                         const facts::Snapshot& snapshot, std::function<void()> settled)
    : plans_(plans),
      snapshot_(snapshot),
      on_settled_(std::move(settled)),
      socket_(context),
      settled_(plans.node->options.stage.paths.empty()) {
  if (!settled_ && plans.node->rendezvous.agents > 1) open_door();
}

void StageKeeper::open_door() {
  const net::Door door = net::open_door(door_ports(*plans_.node, "/stage"), os::make_random_id());
  listener_ = door.listener;
  door_ = door.text;
  if (door_.empty()) console::say_detail("no port is free for sending staged files to other hosts");
}

void StageKeeper::begin(const std::vector<staging::Server>& sources) {
  if (settled_ || process_ > 0) return;
  StageOrder order;
  order.host = plans_.node->host;
  order.paths = plan::staged_paths(plans_.node->options, snapshot_);
  order.places = plan::stage_places(plans_.node->options, snapshot_);
  order.make_place = !plans_.node->options.stage.to.empty();
  order.keep = plans_.node->options.stage.keep;
  order.progress = snapshot_.host.stderr_is_terminal ? k_live : k_in_log;
  order.sources = sources;
  order.launch_key = plans_.node->rendezvous.key;
  order.secret = door_.substr(door_.find('/') + 1);
  os::SocketPair pair = os::make_socket_pair();
  std::vector<int> kept{pair.theirs.get()};
  if (!door_.empty()) kept.push_back(listener_.descriptor);
  process_ = os::fork_outliving_helper("ddprun-stage", kept, [&](const std::vector<int>& own) {
    if (own.size() > 1) order.listener = own[1];
    run_stage_process(std::move(order), own[0]);
    return 0;
  });
  if (process_ < 0) return give_up("cannot start a process: " + os::describe_errno(errno));
  if (!door_.empty()) ::close(std::exchange(listener_.descriptor, -1));
  socket_.assign(boost::asio::local::stream_protocol(), pair.ours.release());
  read();
}

void StageKeeper::read() {
  socket_.async_read_some(boost::asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t count) {
                            if (error == boost::asio::error::operation_aborted) return;
                            if (error) return give_up("the process that copies it has ended");
                            received_.append(buffer_.data(), count);
                            take_frames();
                            if (!settled_) read();
                          });
}

void StageKeeper::take_frames() {
  while (!settled_) {
    const auto frame = event_loop::take_child_frame(received_);
    if (!frame) return;
    take(static_cast<StageNews>(frame->kind), frame->text);
  }
}

void StageKeeper::take(StageNews kind, const std::string& text) {
  if (kind == StageNews::results) return settle(decode_staged(text));
  if (kind == StageNews::detail) return console::say_detail(text);
  if (plans_.node->rendezvous.agent.value != 0) return;
  snapshot_.host.stderr_is_terminal ? console::show_status(text) : console::say(text);
}

void StageKeeper::settle(const std::vector<Staged>& staged) {
  console::show_status("");
  for (const Staged& each : staged) {
    tell(each);
    mappings_.push_back(each.mapping);
  }
  settled_ = true;
  on_settled_();
}

void StageKeeper::tell(const Staged& staged) const {
  const std::string path = printable(staged.mapping.sources.front());
  if (staged.failure.empty())
    return console::say_detail(fmt::format("{} is staged on {} in {}: {}", path, plans_.node->host,
                                           printable(staged.mapping.copy), staged.done));
  const std::string what = fmt::format("{} is not staged on {}: {}; workers use the original", path,
                                       plans_.node->host, staged.failure);
  staged.said_elsewhere
      ? console::say_detail(what)
      : console::say_notice(what,
                            !staged.no_place ? ""
                            : plans_.node->options.stage.to.empty()
                                ? "--stage-to names another folder for copies"
                                : "create that folder on each node, or name another one with --stage-to");
}

void StageKeeper::give_up(const std::string& why) {
  if (settled_) return;
  std::vector<Staged> staged;
  for (const std::string& path : plan::staged_paths(plans_.node->options, snapshot_))
    staged.push_back({{{path}, path}, why, false, false, {}});
  settle(staged);
}

void StageKeeper::end() {
  if (listener_.descriptor >= 0) ::close(std::exchange(listener_.descriptor, -1));
  if (process_ <= 0) return;
  settled_ = true;
  os::end_by_socket(socket_.release(), k_removal_limit);
  process_ = -1;
}

}  // namespace ddprun::agent
