#include "store/service.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "catch.hpp"
#include "random_seed.hpp"
#include "store_wire.hpp"

using namespace ddprun;
using namespace ddprun::store;
using namespace store_wire;

namespace {

// A store and what its connections have been sent.
struct Fixture {
  explicit Fixture(const StoreLimits& limits = {}, std::optional<StoreDialect> old_dialect = std::nullopt)
      : service(limits, old_dialect) {}

  // What the client itself is answered; what others get goes to `delivered`.
  std::string send(StoreClient client, std::string_view bytes) {
    std::string reply;
    std::vector<StoreDelivery> deliveries;
    complaint = service.receive(client, bytes, reply, deliveries).value_or("");
    turns = 1;
    while (complaint.empty() && service.paused(client) && !service.starved(client)) {
      complaint = service.receive(client, {}, reply, deliveries).value_or("");
      ++turns;
    }
    for (const StoreDelivery& delivery : deliveries) {
      for (const StoreClient each : delivery.clients) delivered[each.value] += delivery.bytes;
    }
    return reply;
  }
  StoreClient connect_new() {
    const StoreClient client = service.connect();
    send(client, k_hello);
    return client;
  }

  StoreService service;
  std::string complaint;
  int turns = 0;  // that the last bytes took
  std::map<int, std::string> delivered;
};

struct Release {
  const char* file;
  StoreDialect dialect;
};
const Release k_releases[] = {{"torch_2_2", StoreDialect::torch_2_2},
                              {"torch_2_1", StoreDialect::torch_2_1},
                              {"torch_2_0", StoreDialect::torch_2_0}};

std::optional<StoreDialect> hint(const Release& release) {
  if (release.dialect == StoreDialect::torch_2_2) return std::nullopt;
  return release.dialect;
}

const std::string k_stop(1, '\0');
const std::string k_canceled(1, '\1');

}  // namespace

TEST_CASE("each release is answered byte for byte") {
  for (const Release& release : k_releases) {
    Fixture store({}, hint(release));
    const StoreClient client = store.service.connect();
    for (const StoreMessage& message : read_conversation(release.file)) {
      INFO(release.file << ": " << message.name);
      CHECK(store.send(client, message.request) == message.reply);
      CHECK(store.complaint.empty());
    }
    CHECK(store.service.session(client).dialect() == release.dialect);
    CHECK(store.service.session(client).held() == 0);
  }
}

TEST_CASE("a message cut at any place is answered as if it came whole") {
  for (const Release& release : k_releases) {
    const auto conversation = read_conversation(release.file);
    std::size_t longest = 0;
    for (const StoreMessage& message : conversation) longest = std::max(longest, message.request.size());
    for (std::size_t cut = 1; cut < longest; ++cut) {
      Fixture store({}, hint(release));
      const StoreClient client = store.service.connect();
      for (const StoreMessage& message : conversation) {
        INFO(release.file << ": " << message.name << " cut at " << cut);
        const std::string_view bytes = message.request;
        const std::string early = store.send(client, bytes.substr(0, cut));
        if (cut < bytes.size()) CHECK(early.empty());
        CHECK(early + store.send(client, bytes.substr(std::min(cut, bytes.size()))) == message.reply);
      }
    }
  }
}

TEST_CASE("messages byte by byte and all at once are answered alike") {
  for (const Release& release : k_releases) {
    std::string requests;
    std::string replies;
    for (const StoreMessage& message : read_conversation(release.file)) {
      requests += message.request;
      replies += message.reply;
    }
    Fixture slow({}, hint(release));
    Fixture fast({}, hint(release));
    const StoreClient slow_client = slow.service.connect();
    std::string slow_replies;
    for (const char byte : requests) slow_replies += slow.send(slow_client, {&byte, 1});
    CHECK(slow_replies == replies);
    CHECK(fast.send(fast.service.connect(), requests) == replies);
  }
}

TEST_CASE("any pieces of any requests give the same replies") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const auto key = [&] { return "/" + std::to_string(below(6)); };
  const auto any_request = [&] {
    const std::string value(below(40), 'v');
    const std::string digits = std::to_string(below(99));
    switch (below(12)) {
      case 0:
        return request(set, text(key()) + text(digits));
      case 1:
        return request(add, text("n" + key()) + number(std::int64_t{3}));
      case 2:
        return request(get, text(key()));
      case 3:
        return request(check, list({key(), key()}));
      case 4:
        return request(wait, list({key(), key()}));
      case 5:
        return request(cancel_wait);
      case 6:
        return request(append, text(key()) + text(value));
      case 7:
        return request(multi_set,
                       number(std::uint64_t{2}) + text(key()) + text(value) + text(key()) + text(digits));
      case 8:
        return request(multi_get, list({key(), key(), key()}));
      case 9:
        return request(push, text(key()) + text(value));
      case 10:
        return request(pop, text(key()));
      default:
        return request(delete_key, text(key()));
    }
  };
  for (int run = 0; run < 50; ++run) {
    std::string bytes = k_hello;
    for (int i = 0; i < 40; ++i) bytes += any_request();
    Fixture whole;
    Fixture pieces;
    const std::string expected = whole.send(whole.service.connect(), bytes);
    const StoreClient client = pieces.service.connect();
    std::string got;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t size = 1 + below(std::min<std::size_t>(rest.size(), 60));
      got += pieces.send(client, rest.substr(0, size));
      rest.remove_prefix(size);
    }
    CHECK(got == expected);
  }
}

TEST_CASE("list_keys names every key, and no queue") {
  Fixture store;
  const StoreClient client = store.connect_new();
  store.send(client, request(push, text("/q") + text("x")) + request(set, text("/k") + text("v")));
  CHECK(store.send(client, request(list_keys)) == list({"/k"}));
}

TEST_CASE("others are woken, and only once everything is there") {
  Fixture store;
  const StoreClient waiter = store.connect_new();
  const StoreClient other = store.connect_new();
  CHECK(store.send(waiter, request(wait, list({"/a", "/b"}))).empty());
  store.send(other, request(set, text("/a") + text("1")));
  CHECK(store.delivered.empty());
  store.send(other,
             request(multi_set, number(std::uint64_t{2}) + text("/b") + text("2") + text("/c") + text("3")));
  CHECK(store.delivered[waiter.value] == k_stop);
}

TEST_CASE("half a multi_set has changed nothing") {
  Fixture store;
  const StoreClient client = store.connect_new();
  const StoreClient other = store.connect_new();
  const std::string whole =
      request(multi_set, number(std::uint64_t{2}) + text("/a") + text("1") + text("/b") + text("2"));
  store.send(client, whole.substr(0, whole.size() - 1));
  CHECK(store.send(other, request(count_keys)) == number(std::int64_t{0}));
  store.send(client, whole.substr(whole.size() - 1));
  CHECK(store.send(other, request(count_keys)) == number(std::int64_t{2}));
}

TEST_CASE("a wait that timed out just as it ended is still told that it is cancelled") {
  Fixture store;
  const StoreClient waiter = store.connect_new();
  const StoreClient other = store.connect_new();
  store.send(waiter, request(wait, list({"/a"})));
  store.send(other, request(set, text("/a") + text("")));
  CHECK(store.delivered[waiter.value] == k_stop);
  CHECK(store.send(waiter, request(cancel_wait)) == k_canceled);
}

TEST_CASE("after a cancelled wait nothing arrives unasked") {
  Fixture store;
  const StoreClient waiter = store.connect_new();
  const StoreClient other = store.connect_new();
  store.send(waiter, request(wait, list({"/a"})));
  store.send(waiter, request(cancel_wait));
  store.send(waiter, request(barrier, text("/b") + number(std::int64_t{2})));
  store.send(waiter, request(cancel_wait));
  store.send(other, request(set, text("/a") + text("")));
  CHECK(store.send(other, request(barrier, text("/b") + number(std::int64_t{2}))) == k_stop);
  CHECK(store.delivered.empty());
}

TEST_CASE("a client that goes leaves no trace, and its number serves the next") {
  Fixture store;
  const StoreClient waiter = store.connect_new();
  const StoreClient other = store.connect_new();
  store.send(waiter, request(wait, list({"/a", "/b"})));
  CHECK(store.service.state().listed() == 2);
  SECTION("while it waits") {}
  SECTION("while it waits for nothing any more") { store.send(waiter, request(cancel_wait)); }
  SECTION("in the middle of a message") {
    const std::string value(10000, 'x');
    store.send(waiter, request(set, text("/k") + number(std::uint64_t{20000}) + value));
    CHECK(store.service.session(waiter).held() >= value.size());
  }
  store.service.disconnect(waiter);
  CHECK(store.service.state().listed() == 0);
  CHECK(store.service.session(waiter).held() == 0);
  const StoreClient next = store.service.connect();
  CHECK(next == waiter);
  CHECK(store.service.session(next).silent());
  store.send(other, request(set, text("/a") + text("")));
  CHECK(store.delivered.empty());
}

TEST_CASE("a request past a limit is refused as soon as its length is known") {
  StoreLimits limits;
  limits.key = 4;
  limits.value = 10;
  limits.items = 3;
  limits.request = 60;
  limits.reply = 50;
  Fixture store(limits);
  const StoreClient client = store.connect_new();
  const auto refusal = [&](const std::string& bytes) {
    store.send(client, bytes);
    return store.complaint;
  };
  const std::string key = text("abcd");
  CHECK(refusal(request(set, key + text(std::string(10, 'x')))).empty());
  CHECK(refusal(request(get, number(std::uint64_t{5}))) == "a key is too long");
  store.service.disconnect(client);
  CHECK(store.connect_new() == client);
  CHECK(refusal(request(set, key + number(std::uint64_t{11}))) == "a value is too long");
  store.service.disconnect(client);
  CHECK(store.connect_new() == client);
  CHECK(refusal(request(wait, number(std::uint64_t{4}))) == "too many keys in one request");
  store.service.disconnect(client);
  CHECK(store.connect_new() == client);
  const std::string pair = key + text(std::string(10, 'x'));
  CHECK(refusal(request(multi_set, number(std::uint64_t{3}) + pair + pair)) == "a request is too long");
  store.service.disconnect(client);
  CHECK(store.connect_new() == client);
  CHECK(refusal(request(multi_get, list({"abcd", "abcd", "abcd"}))) == "MULTI_GET asks for too many bytes");
  store.service.disconnect(client);
  CHECK(store.connect_new() == client);
  const std::string ask = request(get, key);
  CHECK(refusal(ask + ask + ask) == "more is asked for than is read");
  store.service.disconnect(client);
  CHECK(store.connect_new() == client);
  CHECK(refusal(request(append, key + text("y"))) == "APPEND makes the value too long");
}

TEST_CASE("lengths that overflow are refused") {
  Fixture store;
  for (const int code : {set, get, wait, multi_set}) {
    const StoreClient client = store.connect_new();
    store.send(client, request(code, number(UINT64_MAX) + number(UINT64_MAX)));
    CHECK_FALSE(store.complaint.empty());
  }
}

TEST_CASE("what is no request is refused") {
  const std::string hello = k_hello;
  const std::string stranger = GENERATE(std::string("GET / HTTP/1.1\r\n"), std::string("\x16\x03\x01\x02", 4),
                                        std::string("\0\0\0\0\0\x3C\x85\xF7\xCE", 9), std::string("\x0C", 1));
  Fixture store;
  store.send(store.service.connect(), stranger);
  CHECK_FALSE(store.complaint.empty());
  for (const std::string& after : {hello, request(19), request(255)}) {
    const StoreClient client = store.connect_new();
    store.send(client, after);
    CHECK(store.complaint == "unknown request");
  }
}

TEST_CASE("a value that is not a number ends the connection that adds to it") {
  Fixture store;
  const StoreClient client = store.connect_new();
  store.send(client,
             request(set, text("/k") + text("x")) + request(add, text("/k") + number(std::int64_t{1})));
  CHECK(store.complaint == "ADD to a value that is not a number, or past 64 bits");
  const StoreClient other = store.connect_new();
  store.send(other, request(barrier, text("/k") + number(std::int64_t{1})));
  CHECK(store.complaint == "BARRIER at a key whose value is not a number");
}

TEST_CASE("a large request costs the same in one piece and in many") {
  Fixture store;
  const StoreClient client = store.connect_new();
  const std::vector<std::string> keys(5000, "/k");  // begun anew with each byte it would be a minute
  const std::string bytes = request(check, list(keys));
  std::string reply;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    reply += store.send(client, std::string_view(bytes).substr(i, 1));
  CHECK(reply == k_canceled);  // not ready is 1 as well
  CHECK(store.service.session(client).held() == 0);
}

TEST_CASE("a client before torch 2.1 that gave up waiting gets no stray byte") {
  Fixture store({}, StoreDialect::torch_2_0);
  const StoreClient waiter = store.service.connect();
  const StoreClient other = store.service.connect();
  store.send(waiter, request(5, list({"/a"})));
  CHECK(store.send(waiter, request(3, text("/n") + number(std::int64_t{1}))) == number(std::int64_t{1}));
  store.send(other, request(0, text("/a") + text("")));
  CHECK(store.delivered.empty());
}

TEST_CASE("number 7 is WATCH_KEY where nothing else was sent, and DELETE_KEY of torch 2.1 elsewhere") {
  Fixture store;
  const StoreClient talker = store.service.connect();
  const StoreClient watcher = store.service.connect();
  CHECK(store.send(watcher, request(7, text("/k"))) == std::string(1, '\3'));
  store.send(talker, request(0, text("/k") + text("v")));
  CHECK(store.delivered[watcher.value] == "\1" + text("/k") + text("") + text("v"));
  CHECK(store.send(talker, request(7, text("/k"))) == number(std::int64_t{1}));
  CHECK(store.service.session(talker).dialect() == StoreDialect::torch_2_1);
}

TEST_CASE("number 8 is DELETE_KEY while a second connection is silent, as with torch 2.0") {
  Fixture store;
  const StoreClient client = store.service.connect();
  store.send(client, request(0, text("/k") + text("v")));
  store.service.connect();
  CHECK(store.send(client, request(8, text("/k"))) == number(std::int64_t{1}));
  CHECK(store.service.session(client).dialect() == StoreDialect::torch_2_0);
}

TEST_CASE("number 8 with bytes behind its key is APPEND and settles torch 2.1 for the whole store") {
  Fixture store;
  const StoreClient client = store.service.connect();
  const StoreClient silent = store.service.connect();
  CHECK(store.send(client, request(8, text("/k") + text("v"))).empty());
  CHECK(store.send(client, request(2, text("/k"))) == text("v"));
  CHECK(store.send(silent, request(7, text("/k"))) == number(std::int64_t{1}));
}

TEST_CASE("number 8 that ends with its key is APPEND when every connection speaks") {
  Fixture store;
  const StoreClient client = store.service.connect();
  CHECK(store.send(client, request(8, text("/k"))).empty());
  store.send(client, text("v"));
  CHECK(store.send(client, request(2, text("/k"))) == text("v"));
}

TEST_CASE("releases talk to each other") {
  Fixture store({}, StoreDialect::torch_2_0);
  const StoreClient old_client = store.service.connect();
  const StoreClient new_client = store.connect_new();
  store.send(old_client, request(0, text("/k") + text("v")));
  CHECK(store.send(new_client, request(get, text("/k"))) == text("v"));
  CHECK(store.send(old_client, request(8, text("/k"))) == number(std::int64_t{1}));
}

namespace {

constexpr std::size_t k_mebibyte = 1024 * 1024;

StoreLimits limits_of(std::size_t memory) {
  StoreLimits limits;
  limits.memory = memory;
  return limits;
}

std::string set_value(int number, std::size_t size) {
  return request(set, text("/" + std::to_string(number)) + text(std::string(size, 'x')));
}

}  // namespace

TEST_CASE("who stores without end is closed at half of the memory, and the others go on") {
  constexpr std::size_t k_piece = k_mebibyte / 4;
  Fixture store(limits_of(64 * k_piece));
  const StoreClient greedy = store.connect_new();
  const StoreClient worker = store.connect_new();
  int stored = 0;
  for (; store.complaint.empty() && stored < 100; ++stored) store.send(greedy, set_value(stored, k_piece));
  CHECK((stored > 20 && stored <= 33));
  CHECK(store.complaint.starts_with("it holds "));
  CHECK(store.service.memory().used() <= 33 * k_piece);
  store.service.disconnect(greedy);
  store.send(worker, set_value(1000, 8 * k_piece));
  CHECK(store.complaint.empty());
  CHECK(store.send(worker, request(add, text("/n") + number(std::int64_t{1}))) == number(std::int64_t{1}));
}

TEST_CASE("sixty half-sent requests leave the others room") {
  Fixture store(limits_of(16 * k_mebibyte));
  const std::string beginning = request(set, text("/k") + number(std::uint64_t{15 * k_mebibyte}));
  const std::string piece(16 * 1024, 'x');
  std::vector<StoreClient> senders(60);
  for (StoreClient& sender : senders) sender = store.connect_new();
  for (const StoreClient sender : senders) store.send(sender, beginning);
  std::size_t closed = 0;
  for (int round = 0; round < 900; ++round) {
    for (StoreClient& sender : senders) {
      if (sender.value < 0) continue;
      store.send(sender, piece);
      if (store.complaint.empty()) continue;
      store.service.disconnect(sender);
      sender.value = -1;
      ++closed;
    }
    REQUIRE(store.service.memory().used() < 16 * k_mebibyte);
  }
  CHECK(closed >= 59);
  const StoreClient worker = store.connect_new();
  store.send(worker, set_value(1, 16 * 1024));
  CHECK(store.complaint.empty());
}

TEST_CASE("one change is written down once for all who watch, and a client watches so many keys only") {
  Fixture store({}, StoreDialect::torch_2_0);
  const std::string watch_key = request(7, text("/k"));
  const StoreClient writer = store.service.connect();
  for (int i = 0; i < 1000; ++i) {
    const StoreClient watcher = store.service.connect();
    for (int times = 0; times < 4; ++times) CHECK(store.send(watcher, watch_key) == "\3");
  }
  CHECK(store.service.state().listed() == 1000);
  std::string reply;
  std::vector<StoreDelivery> deliveries;
  store.service.receive(writer, request(0, text("/k") + text(std::string(k_mebibyte, 'x'))), reply,
                        deliveries);
  REQUIRE(deliveries.size() == 1);
  CHECK(deliveries[0].clients.size() == 1000);

  const StoreClient curious = store.service.connect();
  for (int i = 0; i < 1024; ++i) store.send(curious, request(7, text("/" + std::to_string(i))));
  CHECK(store.complaint.empty());
  store.send(curious, request(7, text("/more")));
  CHECK(store.complaint == "it watches too many keys");
}

TEST_CASE("a thousand pipelined requests are answered in turns, in order and all of them") {
  Fixture store;
  const StoreClient busy = store.connect_new();
  const std::string long_name(120,
                              'k');  // a hundred of them are more than a turn's bytes in every few answers
  for (int i = 0; i < 100; ++i)
    store.send(busy, request(set, text("/" + long_name + std::to_string(i)) + text("x")));
  std::string lists;
  for (int i = 0; i < 1000; ++i) lists += request(list_keys);
  const std::string one = store.send(busy, request(list_keys));
  CHECK(store.turns == 1);
  const std::string all = store.send(busy, lists + request(count_keys));
  CHECK(store.turns > 40);
  CHECK(all.size() == 1000 * one.size() + 8);
  CHECK(all.ends_with(number(std::int64_t{100})));
}

TEST_CASE("an answer for which there is no memory waits until others have read theirs") {
  Fixture store(limits_of(64 * k_mebibyte));
  const StoreClient writer = store.connect_new();
  const StoreClient reader = store.connect_new();
  const StoreClient slow = store.connect_new();
  store.send(writer, set_value(1, 10 * k_mebibyte));
  const std::string ask = request(get, text("/1"));
  CHECK(store.send(slow, ask).size() == 8 + 10 * k_mebibyte);
  const StoreClient late = store.connect_new();
  REQUIRE(store.service.hold(slow, 24 * k_mebibyte));
  REQUIRE(!store.service.hold(slow, 4 * k_mebibyte));
  REQUIRE(store.service.hold(late, 14 * k_mebibyte));
  CHECK(store.send(reader, ask).empty());
  CHECK(store.service.starved(reader));
  CHECK(store.send(writer, request(count_keys)) == number(std::int64_t{1}));
  store.service.release(slow, 24 * k_mebibyte);
  CHECK(store.send(reader, {}).size() == 8 + 10 * k_mebibyte);
  CHECK(!store.service.starved(reader));
}

TEST_CASE("what is taken away is nobody's any more, whoever did it") {
  Fixture store(limits_of(16 * k_mebibyte));
  const StoreClient writer = store.connect_new();
  const StoreClient other = store.connect_new();
  for (int i = 0; i < 40; ++i) {  // of 2 MiB each, which is more than there is
    store.send(writer, request(push, text("/queue") + text(std::string(k_mebibyte, 'x'))));
    REQUIRE(store.complaint.empty());
    store.send(other, request(pop, text("/queue")));
    store.send(writer, set_value(1, k_mebibyte));
    REQUIRE(store.complaint.empty());
    store.send(other, request(delete_key, text("/1")));
    store.send(other, request(add, text("/counter") + number(std::int64_t{1})));
    store.send(writer, request(append, text("/long") + text(std::string(1000, 'x'))));
    store.send(writer, request(wait, list({"/never", "/neither"})));
    store.send(other, request(barrier, text("/barrier") + number(std::int64_t{1000})));
  }
  for (const char* const key : {"/counter", "/long", "/barrier"})
    store.send(other, request(delete_key, text(key)));
  store.service.disconnect(writer);
  store.service.disconnect(other);
  CHECK(store.service.memory().used() == 0);
  CHECK(store.service.state().listed() == 0);
}
