// A copy of what a pump reads, on its way into a file that the log writer writes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "os/fd.hpp"

namespace ddprun::streams {

// A file that takes less than is written fills a bounded buffer, and then is_behind(): the worker may wait
// for it as it would for its own write. For a file that takes nothing at all there is no wait: what comes
// then is lost to the file, by lines, and counted.
class FileCopy : public std::enable_shared_from_this<FileCopy> {
 public:
  static constexpr std::size_t k_limit = std::size_t{8} << 20;

  // Makes a copy. `writer`: end of the log writer's pipe, which is closed once all is passed on and this is
  // destroyed. `lost` is called with each number of bytes that are lost.
  FileCopy(boost::asio::io_context& context, os::Fd writer, std::function<void(std::uint64_t)> lost);

  void add(std::string_view text);
  bool is_behind(TimePoint now) const;

 private:
  void keep(std::string_view text);
  void pass_on();
  std::size_t write(std::string_view text);

  boost::asio::posix::stream_descriptor writer_;
  std::function<void(std::uint64_t)> lost_;
  std::string held_;
  TimePoint progress_{};  // when the file took something last
  bool waiting_ = false;
  bool skipping_ = false;  // to the end of a line
};

}  // namespace ddprun::streams
