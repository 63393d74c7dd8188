#include "streams/output_pump.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>

#include "catch.hpp"
#include "os/process/signals.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::streams;
using namespace ddprun::testing;
using Lines = std::vector<std::string>;

namespace {

constexpr Milliseconds k_deadline{20'000};

// Reads the far end of the pump's output in the same loop.
class Collector {
 public:
  Collector(boost::asio::io_context& context, os::Fd reader) : reader_(context, reader.release()) { read(); }
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
  os::Pipe output = os::make_pipe();
  OutputPump pump{context, output.writer.get()};

  os::Child start_worker(std::vector<std::string> arguments, std::vector<output::StreamId>& streams) {
    os::Pipe pipe = os::make_pipe();
    os::SpawnRequest request = worker_request(std::move(arguments));
    request.standard_output = pipe.writer.get();
    os::Child worker = start(request);
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

  bool drain(std::optional<Milliseconds> limit) {
    std::optional<bool> complete;
    pump.when_drained(limit, [&](bool all) { complete = all; });
    run_until([&] { return complete.has_value(); });
    return *complete;
  }
};

void say(const os::Fd& writer, const std::string& text) {
  REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

std::size_t bytes_in(const os::Fd& reader) {
  int bytes = 0;
  REQUIRE(::ioctl(reader.get(), FIONREAD, &bytes) == 0);
  return static_cast<std::size_t>(bytes);
}

}  // namespace

TEST_CASE("the output of four flooding workers is intact, line by line") {
  constexpr int k_lines = 20'000;
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  std::vector<output::StreamId> streams;
  std::vector<os::Child> workers;
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
  CHECK(rig.pump.last_lines(streams[0]).size() == output::LineTail::k_lines);
  for (os::Child& worker : workers) CHECK(wait_for_end(worker).success());
}

TEST_CASE("a reader that stands still makes the workers wait and loses nothing") {
  Rig rig;
  std::vector<output::StreamId> streams;
  os::Child worker = rig.start_worker({"flood", "50000", "w"}, streams);  // about 4 MB
  CHECK_FALSE(rig.drain(Milliseconds(200)));
  CHECK_FALSE(worker.ending());
  CHECK((::fcntl(rig.output.writer.get(), F_GETFL) & O_NONBLOCK) == 0);
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  CHECK(rig.drain(k_deadline));
  CHECK(wait_for_end(worker).success());
  rig.run_until([&] { return collector.text().find("\nw 49999 ") != std::string::npos; });
}

TEST_CASE("an output that nobody reads costs its text, not the worker") {
  const os::SignalSource signals(os::handled_signals());  // SIGPIPE
  Rig rig;
  rig.output.reader.close();
  std::vector<output::StreamId> streams;
  os::Child worker = rig.start_worker({"flood", "50000", "w"}, streams);
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
  os::Pipe pipe = os::make_pipe();
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

TEST_CASE(
    "a descendant that keeps the pipe open delays the last lines only shortly, and is heard until the "
    "close") {
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  os::Pipe pipe = os::make_pipe();
  const output::StreamId stream = rig.pump.add(std::move(pipe.reader));
  say(pipe.writer, "the worker\n");
  bool known = false;
  rig.pump.finish(stream, Milliseconds(20), [&] { known = true; });
  rig.run_until([&] { return known; });
  CHECK(rig.pump.last_lines(stream) == Lines{"the worker"});
  say(pipe.writer, "its descendant\n");
  rig.run_until([&] { return collector.text() == "the worker\nits descendant\n"; });
  bool closed = false;
  rig.pump.close(stream, Milliseconds(20), [&] { closed = true; });
  rig.run_until([&] { return closed; });
  CHECK(rig.drain(k_deadline));
}

TEST_CASE("a descendant that writes for ever does not keep a stream from its end") {
  const os::SignalSource signals(os::handled_signals());  // SIGPIPE
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  std::vector<output::StreamId> streams;
  os::Child descendant = rig.start_worker({"flood", "1000000000", "d"}, streams);
  rig.run_until([&] { return collector.text().size() > 100'000; });
  bool known = false;
  rig.pump.finish(streams[0], Milliseconds(20), [&] { known = true; });
  rig.run_until([&] { return known; });
  CHECK(rig.pump.last_lines(streams[0]).size() == output::LineTail::k_lines);
  rig.pump.close(streams[0], Milliseconds(20));
  CHECK(rig.drain(k_deadline));
  descendant.send_signal(SIGKILL);
  wait_for_end(descendant);
}

TEST_CASE("all that a worker left in a large pipe comes, even where its descendant keeps the pipe open") {
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  os::Pipe pipe = os::make_pipe();
  REQUIRE(::fcntl(pipe.writer.get(), F_SETPIPE_SZ, 1 << 20) == 1 << 20);
  std::string text;
  while (text.size() < 1'000'000) text += "line " + std::to_string(text.size()) + "\n";
  say(pipe.writer, text);
  const output::StreamId stream = rig.pump.add(std::move(pipe.reader));
  rig.pump.close(stream, Milliseconds(0));
  CHECK(rig.drain(k_deadline));
  rig.run_until([&] { return collector.text().size() >= text.size(); });
  CHECK(collector.text() == text);
}

TEST_CASE("the last lines are known although nobody reads the output, and nothing is lost") {
  Rig rig;
  const std::string flood(300'000, 'x');
  rig.pump.insert(flood + "\n");  // more than is read while nobody takes it
  os::Pipe pipe = os::make_pipe();
  const output::StreamId stream = rig.pump.add(std::move(pipe.reader));
  say(pipe.writer, "Traceback\nValueError: 7\n");
  pipe.writer.close();
  bool known = false;
  rig.pump.finish(stream, k_deadline, [&] { known = true; });
  rig.run_until([&] { return known; });
  CHECK(rig.pump.last_lines(stream) == Lines{"Traceback", "ValueError: 7"});
  bool read = false;
  rig.pump.when_read([&] { read = true; });
  rig.run_until([&] { return read; });
  rig.pump.insert("ddprun: rank 0 failed\n");
  CHECK_FALSE(rig.drain(Milliseconds(10)));
  CHECK(describe_losses(rig.pump, rig.pump, "n1") ==
        Lines{"standard output on n1 is incomplete: its last " +
              std::to_string(flood.size() + 47 - bytes_in(rig.output.reader)) + " bytes were not read"});
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  CHECK(rig.drain(std::nullopt));
  const std::string expected = flood + "\nTraceback\nValueError: 7\nddprun: rank 0 failed\n";
  rig.run_until([&] { return collector.text().size() >= expected.size(); });
  CHECK(collector.text() == expected);
  CHECK(describe_losses(rig.pump, rig.pump, "n1").empty());
}

TEST_CASE(
    "without a limit a reader is waited for as long as it takes, and with one it can still be given up") {
  Rig rig;
  rig.pump.insert(std::string(300'000, 'x') + "\n");
  std::optional<bool> patient;
  rig.pump.when_drained(std::nullopt, [&](bool complete) { patient = complete; });
  CHECK_FALSE(rig.drain(Milliseconds(200)));  // replaces the one without
  CHECK_FALSE(patient);
  rig.pump.when_drained(std::nullopt, [&](bool complete) { patient = complete; });
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  rig.run_until([&] { return patient.has_value(); });
  CHECK(*patient);
}

TEST_CASE("a stream whose writer has ended its long line is read again at once") {
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  os::Pipe a = os::make_pipe();
  os::Pipe b = os::make_pipe();
  rig.pump.add(std::move(a.reader));
  rig.pump.add(std::move(b.reader));
  const auto write_in_pieces = [&](const os::Fd& writer, const std::string& text) {
    for (std::size_t at = 0; at < text.size(); at += 4096) {
      say(writer, text.substr(at, 4096));
      rig.context.restart();
      rig.context.poll();
    }
  };
  write_in_pieces(a.writer, std::string(100'000, 'a'));
  std::string lines;
  while (lines.size() < 160'000) lines += "line " + std::to_string(lines.size()) + "\n";
  write_in_pieces(b.writer, lines);  // more than is kept of a stream that waits
  SECTION("by its end") { say(a.writer, "\n"); }
  SECTION("by the end of the worker") { a.writer.close(); }
  SECTION("by words of ddprun") { rig.pump.insert("ddprun: said\n"); }
  rig.run_until([&] { return collector.text().ends_with(lines); });
}

TEST_CASE("streams of attempts that are over are forgotten") {
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  for (int attempt = 0; attempt < 100; ++attempt) {
    os::Pipe pipe = os::make_pipe();
    const output::StreamId stream = rig.pump.add(std::move(pipe.reader));
    say(pipe.writer, "line\n");
    pipe.writer.close();
    Lines told;
    rig.pump.finish(stream, k_deadline, [&] { told = rig.pump.last_lines(stream); });
    rig.pump.close(stream, k_deadline);
    rig.pump.forget(stream);
    rig.run_until([&] { return rig.pump.streams() == 0; });
    CHECK(told == Lines{"line"});
    CHECK(rig.pump.last_lines(stream).empty());
  }
}

TEST_CASE("a full disk is a loss, a reader that has gone is none") {
  const os::SignalSource signals(os::handled_signals());  // SIGPIPE
  boost::asio::io_context context;
  const os::Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  OutputPump output(context, full.get());
  output.insert("lost\n");
  os::Pipe pipe = os::make_pipe();
  pipe.reader.close();
  OutputPump error(context, pipe.writer.get());
  error.insert("not wanted\n");
  CHECK(error.error() == EPIPE);
  CHECK(describe_losses(output, error, "n1") ==
        Lines{"standard output on n1 is incomplete: no space left on device"});
}

TEST_CASE("a worker that closes its output may live on") {
  Rig rig;
  std::vector<output::StreamId> streams;
  os::Child worker = rig.start_worker({"close_output"}, streams);
  CHECK(rig.drain(k_deadline));
  CHECK(read_until(rig.output.reader.get(), "\n") == "last words\n");
  CHECK_FALSE(worker.ending());
  bool ended = false;
  rig.pump.finish(streams[0], Milliseconds(0), [&] { ended = true; });
  rig.run_until([&] { return ended; });
  worker.send_signal(SIGKILL);
  wait_for_end(worker);
}

namespace {

StreamTreatment folded_as(int rank, StreamTreatment::Fold fold) {
  StreamTreatment treatment;
  treatment.rank = GlobalRank{rank};
  treatment.fold = fold;
  return treatment;
}

}  // namespace

TEST_CASE("a stream that ends while its last lines are being folded ends after them") {
  for (const auto fold : {StreamTreatment::Fold::alike, StreamTreatment::Fold::copies}) {
    Rig rig;
    Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
    std::vector<os::Pipe> pipes;
    for (int rank = 0; rank < 4; ++rank) {
      pipes.push_back(os::make_pipe());
      rig.pump.add(std::move(pipes.back().reader), false, output::LineTail::k_lines, folded_as(rank, fold));
    }
    for (int rank = 0; rank < 3; ++rank) {
      say(pipes[static_cast<std::size_t>(rank)].writer, "same\n");
      pipes[static_cast<std::size_t>(rank)].writer.close();
    }
    // The fourth writes on while the others have ended and are still to come out.
    const std::string expected = fold == StreamTreatment::Fold::alike ? "[0-2] same\n" : "same\n";
    int turn = 0;
    rig.run_until([&] {
      say(pipes[3].writer, std::to_string(++turn) + "\r");
      return collector.text().find(expected) != std::string::npos;
    });
    pipes[3].writer.close();
    CHECK(rig.drain(k_deadline));
    rig.run_until([&] { return collector.text().find(std::to_string(turn) + "\r") != std::string::npos; });
  }
}

TEST_CASE("what is beyond a stream's rate is counted on the console and whole in its copy") {
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  os::Pipe pipe = os::make_pipe();
  std::string copy;
  StreamTreatment treatment;
  treatment.name = "rank 3 on n2";
  treatment.rate = 4;
  treatment.copy = [&](std::string_view text) { copy += text; };
  rig.pump.add(std::move(pipe.reader), false, output::LineTail::k_lines, std::move(treatment));
  say(pipe.writer, "shown\nleft\nout\n");
  pipe.writer.close();
  CHECK(rig.drain(k_deadline));
  const std::string expected = "shown\nddprun: 2 lines (9 bytes) of rank 3 on n2 omitted (--output-rate)\n";
  rig.run_until([&] { return collector.text().size() >= expected.size(); });
  CHECK(collector.text() == expected);
  CHECK(copy == "shown\nleft\nout\n");
}

TEST_CASE("three thousand streams that are silent cost no wake-up, with folding and rates too") {
  constexpr rlim_t k_streams = 3'000;
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (limit.rlim_max < k_streams + 100) {
    WARN("not tested: a process may not open " << k_streams << " files here");
    return;
  }
  os::raise_open_files_limit();
  Rig rig;
  os::Pipe pipe = os::make_pipe();
  for (rlim_t i = 0; i < k_streams; ++i) {
    StreamTreatment treatment = folded_as(static_cast<int>(i), StreamTreatment::Fold::copies);
    treatment.rate = 1000;
    rig.pump.add(os::duplicate(pipe.reader.get()), false, output::LineTail::k_lines, std::move(treatment));
  }
  rig.context.poll();
  rig.context.restart();
  CHECK(rig.context.run_for(Milliseconds(1500)) == 0);  // handlers
}

TEST_CASE("a stream whose copy is behind is not read, and is again once the copy has caught up") {
  Rig rig;
  Collector collector(rig.context, os::duplicate(rig.output.reader.get()));
  os::Pipe slow = os::make_pipe();
  os::Pipe quick = os::make_pipe();
  bool behind = true;
  int asked = 0;
  StreamTreatment treatment;
  treatment.is_behind = [&] { return ++asked > 0 && behind; };
  rig.pump.add(std::move(slow.reader), false, output::LineTail::k_lines, std::move(treatment));
  rig.pump.add(std::move(quick.reader));
  say(slow.writer, "slow\n");
  say(quick.writer, "quick\n");
  rig.run_until([&] { return collector.text() == "quick\n" && asked > 20; });
  behind = false;
  rig.run_until([&] { return collector.text() == "quick\nslow\n"; });
}
