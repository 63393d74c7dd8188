// How this agent tells or learns where the coordinator listens beside the addresses of the plan: the
// launcher's exchange and the meeting file.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/net/member_service.hpp"
#include "ddprun/os/exchange.hpp"
#include "ddprun/os/meeting_file.hpp"
#include "ddprun/plan/node_plan.hpp"

namespace ddprun {

class MeetingPoint {
 public:
  MeetingPoint(boost::asio::io_context& context, const NodePlan& plan, const Snapshot& snapshot);

  // The coordinator's part, once it listens. Throws Error where none of the ways the plan asks for works and
  // members know no address.
  void publish(const MeetingPlace& place);
  const MeetingFile* file() const { return file_ ? &*file_ : nullptr; }  // that it made for it

  // A member's part: `told` is called once, from the event loop.
  void fetch(std::function<void(const ToldPlace&)> told);
  ToldPlace look() const;  // at the meeting file

  // Once no worker of ours runs any more; may take a second.
  void finish();

 private:
  using OnAnswer = std::function<void(const ExchangeAnswer&)>;
  void start_exchange(std::optional<std::string> value, OnAnswer on_answer);
  void read();
  bool write_file(const MeetingPlace& place);

  boost::asio::io_context& context_;
  const NodePlan& plan_;
  const Snapshot& snapshot_;
  std::optional<MeetingFile> file_;
  std::optional<LauncherExchange> exchange_;
  boost::asio::posix::stream_descriptor answer_;
  std::array<char, 1024> buffer_{};
  std::string received_;
  OnAnswer on_answer_;
};

}  // namespace ddprun
