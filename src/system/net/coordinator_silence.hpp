// Counts for how long a member's coordinator has said nothing.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/duration.hpp"
#include "rendezvous/membership/member_session.hpp"

namespace ddprun::net {

class CoordinatorSilence {
 public:
  // Every MemberSession::k_silence in which nothing comes, with how long that is; nothing once something
  // comes after that.
  using Tell = std::function<void(std::optional<Milliseconds> silence)>;

  CoordinatorSilence(boost::asio::io_context& context, const rendezvous::MemberSession& session, Tell tell)
      : timer_(context), session_(session), tell_(std::move(tell)) {}

  void end();     // something has come
  void cancel();  // for good

 private:
  void wait();

  boost::asio::steady_timer timer_;
  const rendezvous::MemberSession& session_;
  Tell tell_;
  bool told_ = false;
  std::shared_ptr<int> here_ = std::make_shared<int>();
};

}  // namespace ddprun::net
