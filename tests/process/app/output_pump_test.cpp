#include "ddprun/app/output_pump.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>

#include "catch.hpp"
#include "ddprun/os/signals.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::testing;
using Lines = std::vector<std::string>;

namespace {

constexpr Milliseconds k_deadline{20'000};

// Reads the far end of the pump's output in the same loop.
class Collector {
 public:
  Collector(boost::asio::io_context& context, Fd reader) : reader_(context, reader.release()) { read(); }
  const std::string& text() const { return text_; }

 private:
  void read() {
    reader_.async_read_some(boost::asio::buffer(chunk_), [this](const auto& error, std::size_t length) {
      text_.append(chunk_.data(), length);
      if (!error) read();
    });
  }

  boost::asio::posix::stream_descriptor reader_;
  std::array<char, 65536> chunk_;
  std::string text_;
};

struct Rig {
  boost::asio::io_context context;
  Pipe output = make_pipe();
  OutputPump pump{context, output.writer.get()};

  Child start_worker(std::vector<std::string> arguments, std::vector<StreamId>& streams) {
    Pipe pipe = make_pipe();
    SpawnRequest request = worker_request(std::move(arguments));
    request.standard_output = pipe.writer.get();
    Child worker = start(request);
    streams.push_back(pump.add(std::move(pipe.reader)));
    return worker;
  }

  // Runs until `done`; fails the test at the deadline.
  template <class Done>
  void run_until(const Done& done) {
    const auto deadline = std::chrono::steady_clock::now() + k_deadline;
    while (!done()) {
      context.restart();
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      context.run_one_for(Milliseconds(100));
    }
  }

  bool drain(Milliseconds limit) {
    std::optional<bool> complete;
    pump.when_drained(limit, [&](bool all) { complete = all; });
    run_until([&] { return complete.has_value(); });
    return *complete;
  }
};

}  // namespace

TEST_CASE("the output of four flooding workers is intact, line by line") {
  constexpr int k_lines = 20'000;
  Rig rig;
  Collector collector(rig.context, duplicate(rig.output.reader.get()));
  std::vector<StreamId> streams;
  std::vector<Child> workers;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(rig.start_worker({"flood", std::to_string(k_lines), "w" + std::to_string(i)}, streams));
  }
  CHECK(rig.drain(k_deadline));
  std::size_t expected_bytes = 0;
  std::map<std::string, long> next;
  for (long line = 0; line < k_lines; ++line) {
    expected_bytes += 4 * (4 + std::to_string(line).size() + static_cast<std::size_t>(line * 7 % 150) + 1);
  }
  rig.run_until([&] { return collector.text().size() >= expected_bytes; });
  CHECK(collector.text().size() == expected_bytes);
  std::istringstream text(collector.text());
  std::string name;
  long number = 0;
  for (std::string line; std::getline(text, line);) {
    std::istringstream(line) >> name >> number;
    REQUIRE(number == next[name]++);
    REQUIRE(line == name + " " + std::to_string(number) + " " +
                        std::string(static_cast<std::size_t>(number * 7 % 150), 'x'));
  }
  CHECK(next.size() == 4);
  CHECK(rig.pump.last_lines(streams[0]).size() == LineTail::k_lines);
  for (Child& worker : workers) CHECK(wait_for_end(worker).success());
}

TEST_CASE("a reader that stands still makes the workers wait and loses nothing") {
  Rig rig;
  std::vector<StreamId> streams;
  Child worker = rig.start_worker({"flood", "50000", "w"}, streams);  // about 4 MB
  CHECK_FALSE(rig.drain(Milliseconds(200)));
  CHECK_FALSE(worker.ending());
  CHECK((::fcntl(rig.output.writer.get(), F_GETFL) & O_NONBLOCK) == 0);
  Collector collector(rig.context, duplicate(rig.output.reader.get()));
  CHECK(rig.drain(k_deadline));
  CHECK(wait_for_end(worker).success());
  rig.run_until([&] { return collector.text().find("\nw 49999 ") != std::string::npos; });
}

TEST_CASE("an output that nobody reads costs its text, not the worker") {
  const SignalSource signals(handled_signals());  // SIGPIPE
  Rig rig;
  rig.output.reader.close();
  std::vector<StreamId> streams;
  Child worker = rig.start_worker({"flood", "50000", "w"}, streams);
  std::vector<int> told;
  rig.pump.when_failing([&](int error) { told.push_back(error); });
  CHECK(rig.drain(k_deadline));
  CHECK(rig.pump.error() == EPIPE);
  CHECK(told == std::vector<int>{EPIPE});
  CHECK(wait_for_end(worker).success());
}

TEST_CASE("a file is written although it cannot be waited for") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Rig rig;
  OutputPump pump(rig.context, ::fileno(file.get()));
  Pipe pipe = make_pipe();
  pump.add(std::move(pipe.reader));
  REQUIRE(::write(pipe.writer.get(), "a line\nand half", 15) == 15);
  pipe.writer.close();
  bool complete = false;
  pump.when_drained(k_deadline, [&](bool all) { complete = all; });
  rig.run_until([&] { return complete; });
  pump.insert("ddprun: said\n");
  char text[64] = {};
  CHECK(::pread(::fileno(file.get()), text, sizeof text, 0) > 0);
  CHECK(std::string(text) == "a line\nand half\nddprun: said\n");
}

TEST_CASE("a descendant that keeps the pipe open delays the end of the output only shortly") {
  Rig rig;
  std::vector<StreamId> streams;
  Child worker = rig.start_worker({"leave_grandchild"}, streams);
  CHECK(wait_for_end(worker).success());
  Collector collector(rig.context, duplicate(rig.output.reader.get()));
  rig.run_until([&] { return collector.text().find('\n') != std::string::npos; });
  bool ended = false;
  rig.pump.finish(streams[0], Milliseconds(20), [&] { ended = true; });
  rig.run_until([&] { return ended; });
  CHECK(rig.drain(k_deadline));
  const int grandchild = number_after(collector.text(), "grandchild ");
  CHECK(rig.pump.last_lines(streams[0]) == Lines{"grandchild " + std::to_string(grandchild)});
  ::kill(grandchild, SIGKILL);
}

TEST_CASE("a worker that closes its output may live on") {
  Rig rig;
  std::vector<StreamId> streams;
  Child worker = rig.start_worker({"close_output"}, streams);
  CHECK(rig.drain(k_deadline));
  CHECK(read_until(rig.output.reader.get(), "\n") == "last words\n");
  CHECK_FALSE(worker.ending());
  bool ended = false;
  rig.pump.finish(streams[0], Milliseconds(0), [&] { ended = true; });
  rig.run_until([&] { return ended; });
  worker.send_signal(SIGKILL);
  wait_for_end(worker);
}
