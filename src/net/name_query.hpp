// Reads the answer of one name look-up.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/net/member_service.hpp"

namespace ddprun {

// Keeps itself alive while it works; `on_answer` is called once with addresses or a sentence, unless
// cancelled.
class NameQuery : public std::enable_shared_from_this<NameQuery> {
 public:
  using OnAnswer = std::function<void(std::vector<std::string> addresses, std::string error)>;

  NameQuery(boost::asio::io_context& context, NameLookup lookup, Milliseconds limit, OnAnswer on_answer);
  void start();
  void cancel();

 private:
  void read();
  void conclude();
  void answer(std::vector<std::string> addresses, std::string error);

  NameLookup lookup_;
  Milliseconds limit_;
  OnAnswer on_answer_;
  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer timer_;
  std::array<char, 1024> buffer_{};
  std::string received_;
};

}  // namespace ddprun
