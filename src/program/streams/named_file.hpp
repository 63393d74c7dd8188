// A file that the user named (--events, --metrics, --report), written by a process of its own.
// So it does not hold up the event loop. A file that cannot be written costs one sentence and does not end
// the job.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "os/descriptors.hpp"
#include "os/files/file_writer.hpp"

namespace ddprun::streams {

// A copy of what a pump reads, on its way into a file that the log writer writes.

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

class NamedFile {
 public:
  struct Subject {
    std::string file;   // "the events to": what cannot be written
    std::string where;  // "/home/me/e.jsonl on n1"
    std::string noun;   // "event": one text; empty: lost texts are not counted
  };
  using Say = std::function<void(const std::string& what, const std::string& hint)>;

  NamedFile(boost::asio::io_context& context, std::string path, Subject subject, os::FileWriter::How how,
            Say say, os::FileWriter::Merge merge = {});

  void write(std::string_view text);
  // Calls when all is written, or after `limit`; what is not written then is given up. The last call counts.
  void when_written(Milliseconds limit, std::function<void()> handler);

 private:
  bool start();
  void keep(std::string frame);
  void send();
  void watch_room();
  void watch_news();
  void take_news();
  void note_progress();
  void say_once(const std::string& why, const char* rest);
  void finish();
  void say_lost();
  void end();

  boost::asio::io_context& context_;
  std::string path_;
  Subject subject_;
  os::FileWriter::How how_;
  Say say_;
  os::FileWriter::Merge merge_;
  std::unique_ptr<os::FileWriter> writer_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer silence_timer_, limit_timer_;
  std::deque<std::string> frames_;  // not sent yet; the first one perhaps in part
  std::size_t sent_ = 0;            // bytes of the first
  std::size_t kept_ = 0;            // bytes in `frames_`
  std::size_t unanswered_ = 0;      // texts that were not dropped and are not in the file
  std::size_t dropped_ = 0;
  std::string waits_for_;  // reason why the oldest is not in the file yet; empty: not known
  std::function<void()> written_;
  bool waiting_for_room_ = false;
  bool told_ = false;
  bool ended_ = false;  // no more text is written
};

}  // namespace ddprun::streams
