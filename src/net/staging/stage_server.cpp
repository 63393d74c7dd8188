#include "net/staging/stage_server.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

namespace ddprun::net {

namespace {

constexpr int k_most_heard = 64;  // strangers too

struct Serving {
  SealedSocket::Proof proof;
  std::vector<StagedItem>& items;
  OpenStaged open;
  std::atomic<int> heard = 0, served = 0;
};

class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count), number_(++count) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --count_; }
  int number() const { return number_; }

 private:
  std::atomic<int>& count_;
  int number_;
};

// Waits until `enough` holds; false when the other one does not listen any more, or there is a failure, which
// it is told.
template <class Enough>
bool wait_for(const StagedItem& item, SealedSocket& socket, StagedItem::View& view, const Enough& enough) {
  while (true) {
    view = item.wait(k_stage_sign_of_life, enough);
    if (!view.failure.empty()) return socket.send(StagePiece::failed, view.failure), false;
    if (enough(view)) return true;
    if (!socket.send(StagePiece::keep_waiting)) return false;
  }
}

void serve_list(const StagedItem& item, SealedSocket& socket) {
  StagedItem::View view;
  if (!wait_for(item, socket, view, [](const StagedItem::View& each) { return each.list != nullptr; }))
    return;
  std::string_view rest = *view.list;
  while (!rest.empty()) {
    if (!socket.send(StagePiece::list, rest.substr(0, k_stage_part))) return;
    rest.remove_prefix(std::min(rest.size(), k_stage_part));
  }
  socket.send(StagePiece::end);
}

void serve_contents(const StagedItem& item, std::uint64_t offset, const OpenStaged& open,
                    SealedSocket& socket) {
  StagedItem::View view;
  ReadStaged read;
  while (wait_for(item, socket, view, [&](const StagedItem::View& each) {
    return each.available > offset || !each.digest.empty();
  })) {
    if (view.available <= offset) return void(socket.send(StagePiece::end, view.digest));
    if (!read) read = open(view);
    std::string text;
    staging::put_number(text, view.available);
    const std::string bytes = read(
        offset, static_cast<std::size_t>(std::min<std::uint64_t>(k_stage_part, view.available - offset)));
    offset += bytes.size();
    if (!socket.send(StagePiece::contents, text + bytes)) return;
  }
}

void converse(Serving& serving, SealedSocket& socket) {
  const auto asked = socket.receive();
  if (!asked) return;
  staging::Parts parts(asked->text);
  const std::uint64_t number = parts.number();
  if (number >= serving.items.size()) return;
  const StagedItem& item = serving.items[number];
  if (asked->kind == StagePiece::list_wanted) return serve_list(item, socket);
  if (asked->kind != StagePiece::contents_wanted) return;
  serve_contents(item, parts.number(), serving.open, socket);
}

void serve_one(Serving& serving, int connected) {
  const Counted heard(serving.heard);
  TimedSocket stream(connected);
  if (heard.number() > k_most_heard) return;
  try {
    SealedSocket socket;
    if (!socket.accept(std::move(stream), serving.proof).empty()) return;
    const Counted served(serving.served);
    if (served.number() > k_most_served) return void(socket.send(StagePiece::busy));
    converse(serving, socket);
  } catch (const std::exception&) {  // the copy cannot be read, or what it said makes no sense
  }
}

}  // namespace

void serve_staged(int listener, SealedSocket::Proof proof, std::vector<StagedItem>& items, OpenStaged open) {
  Serving serving{std::move(proof), items, std::move(open)};
  while (true) {
    pollfd waiting{listener, POLLIN, 0};
    if (::poll(&waiting, 1, -1) < 0) continue;
    const int connected = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connected >= 0) std::thread([&serving, connected] { serve_one(serving, connected); }).detach();
  }
}

}  // namespace ddprun::net
