#include <set>

#include "catch.hpp"
#include "linearizable.hpp"
#include "random_seed.hpp"
#include "store_tree.hpp"

using namespace store_tree;
using namespace store_wire;
namespace history = store_history;

namespace {

const std::string k_stop(1, '\0');
const std::string k_canceled(1, '\1');

// Sends requests of random clients, one each at a time, and writes down what they are answered.
class RandomClients {
 public:
  RandomClients(Tree& tree, std::mt19937& random, std::size_t clients, std::size_t nodes)
      : tree_(tree), random_(random) {
    for (std::size_t i = 0; i < clients; ++i) state_.emplace_back().number = tree.connect(random() % nodes);
  }

  void run(int requests, int loss_at) {
    for (int sent = 0; sent < requests;) {
      ++now_;
      if (random_() % 3 == 0) sent += begin(random_() % state_.size());
      if (sent >= loss_at) lose_one(), loss_at = requests;
      if (!tree_.step(random_) && sent >= requests) break;
      read_answers();
    }
    while (tree_.step(random_)) ++now_, read_answers();
    for (const Client& client : state_) {
      if (client.busy && !client.waits) operations_.push_back(client.pending.front());
    }
  }
  const std::vector<history::Operation>& operations() const { return operations_; }
  // How many still wait where every key is there.
  std::size_t stuck(std::size_t helper) {
    for (const std::string name : {"a", "b", "c"}) {
      for (int i = 0; i < 2; ++i) tree_.send(helper, request(set, text(name) + text("1")));
      tree_.send(helper, request(delete_key, text(name)));
      tree_.send(helper, request(set, text(name) + text("1")));
    }
    tree_.settle(random_);
    std::size_t stuck = 0;
    for (const Client& client : state_) {
      const bool alive = !tree_.lost(tree_.node_of(client.number));
      stuck += alive && client.busy && tree_.answers(client.number).empty() ? 1 : 0;
    }
    return stuck;
  }

 private:
  struct Client {
    std::size_t number = 0;
    int turn = 0;
    bool busy = false;
    bool waits = false;
    bool cancels = false;
    std::vector<std::string> keys;
    std::vector<history::Operation> pending;
  };
  std::size_t below(std::size_t end) { return random_() % end; }
  std::string key() { return std::string(1, static_cast<char>('a' + below(3))); }

  void lose_one() {
    const std::size_t node = 1 + below(3);
    tree_.lose(node);
  }

  int begin(std::size_t which) {
    Client& client = state_[which];
    if (tree_.lost(tree_.node_of(client.number))) return 1;
    if (client.waits && !client.cancels && below(12) == 0) {
      client.cancels = true;
      tree_.send(client.number, request(cancel_wait));
      return 0;
    }
    if (client.busy) return 0;
    ++client.turn;
    client.keys = {key()};
    history::Operation operation;
    operation.client = static_cast<int>(which);
    operation.turn = client.turn;
    operation.key = client.keys[0];
    operation.began = now_;
    choose(client, operation);
    return 1;
  }

  void choose(Client& client, history::Operation operation) {
    const std::string& name = operation.key;
    const std::string digit(1, static_cast<char>('1' + below(9)));
    const auto ask = [&](history::Kind kind, const std::string& bytes) {
      operation.kind = kind;
      client.busy = true;
      client.pending = {operation};
      tree_.send(client.number, bytes);
    };
    const auto tell = [&](history::Kind kind, const std::string& bytes) {
      operation.kind = kind;
      operation.value = digit;
      operations_.push_back(operation);
      tree_.send(client.number, bytes);
    };
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
        return tell(history::Kind::set, request(set, text(name) + text(digit)));
      case 3:
        if (below(3) == 0) return tell(history::Kind::append, request(append, text(name) + text(digit)));
        return tell(history::Kind::push, request(push, text(name) + text(digit)));
      case 4:
      case 5:
      case 6:
        return ask(history::Kind::get, request(get, text(name)));
      case 7:
        operation.value = "1";
        return ask(history::Kind::add, request(add, text(name) + number(std::int64_t{1})));
      case 8:
        return ask(history::Kind::remove, request(delete_key, text(name)));
      case 9:
        operation.value = below(2) == 0 ? "" : "1";
        operation.desired = digit;
        return ask(history::Kind::compare_set,
                   request(compare_set, text(name) + text(operation.value) + text(digit)));
      case 10:
        return ask(history::Kind::check, request(check, list({name})));
      case 11:
        return ask(history::Kind::pop, request(pop, text(name)));
      case 12:
        return below(2) == 0 ? ask(history::Kind::count, request(count_keys))
                             : ask(history::Kind::length, request(queue_length, text(name)));
      default:
        return wait_for(client, operation);
    }
  }

  void wait_for(Client& client, history::Operation operation) {
    if (below(4) == 0) client.keys.push_back(key());
    operation.kind = history::Kind::wait;
    client.pending.clear();
    for (const std::string& each : client.keys) {
      operation.key = each;
      client.pending.push_back(operation);
    }
    client.busy = client.waits = true;
    tree_.send(client.number, request(wait, list(client.keys)));
  }

  void read_answers() {
    for (Client& client : state_) {
      std::string& bytes = tree_.answers(client.number);
      if (client.busy && !bytes.empty()) read_answer(client, bytes);
    }
  }
  void read_answer(Client& client, std::string& bytes) {
    if (client.waits) return read_end_of_wait(client, bytes);
    history::Operation& operation = client.pending.front();
    std::int64_t value = 0;
    if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    switch (operation.kind) {
      case history::Kind::get:
      case history::Kind::compare_set:
        operation.answer = bytes.substr(sizeof value);
        break;
      case history::Kind::check:
        operation.answer = bytes == k_stop ? "ready" : "not ready";
        break;
      case history::Kind::pop:
        operation.answer = value == 0 ? "empty" : bytes.substr(2 * sizeof value);
        break;
      default:
        operation.answer = std::to_string(value);
        break;
    }
    finish(client, bytes);
  }
  // A wait may end and be cancelled in the same moment.
  void read_end_of_wait(Client& client, std::string& bytes) {
    if (bytes == k_stop && client.cancels) return;  // the other answer comes
    if (bytes == k_canceled) client.pending.clear();
    finish(client, bytes);
  }
  void finish(Client& client, std::string& bytes) {
    for (history::Operation& operation : client.pending) {
      operation.ended = now_;
      operations_.push_back(operation);
    }
    client.busy = client.waits = client.cancels = false;
    bytes.clear();
  }

  Tree& tree_;
  std::mt19937& random_;
  std::vector<Client> state_;
  std::vector<history::Operation> operations_;
  int now_ = 0;
};

void play(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> parents;
  for (std::size_t i = 0; i < 3; ++i) parents.push_back(random() % (i + 1));
  const std::size_t held = random() % 4 == 0 ? 2 : 1 << 20;
  Tree tree(parents, held, std::nullopt, {.shared = std::size_t{random() % 2 == 0 ? 0U : 2U}});
  RandomClients clients(tree, random, 4, 4);
  const int requests = 24;
  clients.run(requests, random() % 4 == 0 ? static_cast<int>(random() % requests) : requests);
  INFO("history " << seed << '\n' << history::describe(clients.operations()));
  CHECK(clients.stuck(tree.connect(0)) == 0);
  CHECK(history::Search(clients.operations()).explained());
  CHECK(tree.complaint().empty());
}

}  // namespace

TEST_CASE("what clients of a tree see is explained by one store") {
  RANDOM_SEED(seed);
  for (int i = 0; i < ddprun::test::rounds(150); ++i) play(seed + static_cast<unsigned>(i));
}

namespace {

constexpr std::size_t k_root = 0, k_relay = 1;

// A relay with clients, of which everything that is sent arrives.
struct Host {
  explicit Host(std::size_t clients = 0, const std::vector<std::size_t>& parents = {0},
                std::size_t held = 1 << 20)
      : tree(parents, held) {
    for (std::size_t i = 0; i < clients; ++i) tree.connect(parents.size());
    tree.settle(random);
  }
  std::string send(std::size_t client, const std::string& bytes) {
    tree.send(client, bytes);
    tree.settle(random);
    return std::exchange(tree.answers(client), {});
  }
  std::size_t came_down(std::size_t node = k_relay) {
    const std::size_t before = std::exchange(counted, tree.bytes_down(node));
    return counted - before;
  }

  std::mt19937 random{1};
  Tree tree;
  std::size_t counted = 0;
};

}  // namespace

TEST_CASE("a value that all clients of a host wait for and get comes to the host once") {
  Host host(8);
  const std::size_t far = host.tree.connect(k_root);
  for (std::size_t i = 0; i < 8; ++i) CHECK(host.send(i, request(wait, list({"k"}))).empty());
  host.send(far, request(set, text("k") + text(std::string(10000, 'x'))));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(std::exchange(host.tree.answers(i), {}) == k_stop);
    CHECK(host.send(i, request(wait, list({"k"}))) == k_stop);
    CHECK(host.send(i, request(get, text("k"))) == text(std::string(10000, 'x')));
    CHECK(host.send(i, request(multi_get, list({"k", "k"}))).size() == 2 * 10008);
    CHECK(host.send(i, request(check, list({"k"}))) == k_stop);
  }
  CHECK(host.came_down() < 10100);
}

TEST_CASE("a value comes once to each relay of a chain") {
  Host host(2, {0, 1, 2});
  const std::size_t far = host.tree.connect(k_root);
  for (std::size_t i = 0; i < 2; ++i) host.send(i, request(wait, list({"k"})));
  host.send(far, request(set, text("k") + text(std::string(10000, 'x'))));
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(host.send(i, request(get, text("k"))).size() == k_stop.size() + 10008);
  for (std::size_t node = 1; node <= 3; ++node) CHECK(host.tree.bytes_down(node) < 10100);
}

TEST_CASE("relays that are sent a value are sent the same copy of it, until it changes") {
  Host host(0, {0, 0, 1, 1});
  const std::size_t far = host.tree.connect(k_root);
  std::vector<std::size_t> clients;
  for (std::size_t node = 1; node <= 4; ++node) clients.push_back(host.tree.connect(node));
  const auto copies_of = [&](const std::string& value) {
    std::set<const std::string*> copies;
    for (const auto& part : host.tree.parts()) {
      if (part->find(value) != std::string::npos && part->find("k") != std::string::npos)
        copies.insert(part.get());
    }
    return copies.size();
  };
  const std::string first(10000, 'x'), second(10000, 'y');
  for (const std::size_t client : {clients[0], clients[2]}) host.send(client, request(wait, list({"k"})));
  host.send(far, request(set, text("k") + text(first)));
  for (const std::size_t client : {clients[1], clients[3]})
    CHECK(host.send(client, request(wait, list({"k"}))) == k_stop);
  CHECK(copies_of(first) == 2);  // of the store, and of the relay that others are below
  host.send(far, request(delete_key, text("k")));
  host.send(far, request(set, text("k") + text(second)));
  for (const std::size_t client : clients) {
    host.send(client, request(wait, list({"k"})));
    host.tree.answers(client).clear();
    CHECK(host.send(client, request(get, text("k"))) == text(second));
  }
}

TEST_CASE("what a client of the store changes, a relay's client sees at once") {
  Host host(1);
  const std::size_t far = host.tree.connect(k_root);
  host.send(far, request(set, text("k") + text("1")));
  CHECK(host.send(0, request(wait, list({"k"}))) == k_stop);
  CHECK(host.send(0, request(get, text("k"))) == text("1"));
  host.send(far, request(set, text("k") + text("2")));
  CHECK(host.send(0, request(get, text("k"))) == text("2"));
  CHECK(host.send(far, request(delete_key, text("k"))) == number(std::int64_t{1}));
  CHECK(host.send(0, request(check, list({"k"}))) == k_canceled);
  CHECK(host.send(0, request(wait, list({"k"}))).empty());
  CHECK(host.send(0, request(cancel_wait)) == k_canceled);
}

TEST_CASE("one push wakes one of a host's clients that wait for a queue") {
  Host host(3, {0, 0});
  const std::size_t elsewhere = host.tree.connect(1);
  const std::size_t far = host.tree.connect(k_root);
  const std::vector<std::size_t> waiting{0, 1, 2, elsewhere};
  for (const std::size_t client : waiting) CHECK(host.send(client, request(wait, list({"q"}))).empty());
  for (std::size_t pushes = 1; pushes <= waiting.size(); ++pushes) {
    host.send(far, request(push, text("q") + text("item")));
    std::size_t woken = 0;
    for (const std::size_t client : waiting) woken += host.tree.answers(client) == k_stop ? 1 : 0;
    CHECK(woken == pushes);
  }
  for (const std::size_t client : waiting) {
    host.tree.answers(client).clear();
    CHECK(host.send(client, request(pop, text("q"))).ends_with(text("item")));
  }
}

TEST_CASE("a relay that may hold little still answers right") {
  Host host(1, {0}, 100);
  const std::size_t far = host.tree.connect(k_root);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string name = "k" + std::to_string(i), value = std::string(60, 'x') + name;
      if (round == 0) host.send(far, request(set, text(name) + text(value)));
      CHECK(host.send(0, request(wait, list({name}))) == k_stop);
      CHECK(host.send(0, request(get, text(name))) == text(value));
    }
  }
}

TEST_CASE("a lost relay holds nobody up, and its clients are forgotten") {
  Host host(2, {0, 0});
  const std::size_t gone = host.tree.connect(1);
  const std::size_t far = host.tree.connect(k_root);
  host.send(far, request(set, text("k") + text("1")));
  for (const std::size_t client : {std::size_t{0}, gone})
    CHECK(host.send(client, request(wait, list({"k"}))) == k_stop);
  host.send(gone, request(wait, list({"never"})));
  host.send(gone, request(count_keys));
  CHECK(host.tree.store().clients_elsewhere() == 1);
  host.tree.send(far, request(set, text("k") + text("2")));
  host.tree.send(far, request(count_keys));
  host.tree.lose(1);
  host.tree.settle(host.random);
  CHECK(host.tree.answers(far) == number(std::int64_t{1}));
  CHECK(host.send(0, request(get, text("k"))) == text("2"));
  CHECK(host.tree.store().clients_elsewhere() == 1);  // client 0
  CHECK(host.tree.store().state().listed() == 0);
}

TEST_CASE("clients that go leave nothing behind in a relay and in the store") {
  Host host(4);
  const std::size_t far = host.tree.connect(k_root);
  for (std::size_t i = 0; i < 4; ++i) {
    host.send(i, request(add, text("n") + number(std::int64_t{1})));
    host.send(i, request(wait, list({"a", "b"})));
  }
  host.send(far, request(push, text("b") + text("item")));  // they wait for it singly now
  for (std::size_t i = 0; i < 4; ++i) host.tree.disconnect(i);
  host.tree.settle(host.random);
  CHECK(host.tree.store().clients_elsewhere() == 0);
  CHECK(host.tree.store().state().listed() == 0);
  CHECK(static_cast<StoreRelay&>(host.tree.endpoint(k_relay)).channels() == 0);
}

TEST_CASE("what is no message of the tree is refused") {
  StoreService store;
  const StoreLink child = store.add_child();
  std::string bytes;
  write_message(bytes, {.kind = TreeMessageKind::have, .key = "k", .text = "v"});
  CHECK_FALSE(store.receive_from(child, bytes));  // only a parent says so
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    StoreService fresh;
    StoreRelay relay({}, std::nullopt, 1000);
    std::string noise;
    write_message(noise, {.kind = static_cast<TreeMessageKind>(random() % 11),
                          .channel = 1,
                          .operation = static_cast<StoreOperation>(random() % 24),
                          .key = "k",
                          .text = "0123456789"});
    for (int changes = 0; changes < 3; ++changes)
      noise[random() % noise.size()] = static_cast<char>(random() % 12);
    fresh.receive_from(fresh.add_child(), noise);
    relay.receive_from(k_parent_link, noise);
    relay.receive_from(relay.add_child(), noise);
  }
}

TEST_CASE("through a relay each release is answered byte for byte") {
  for (const auto& [file, dialect] : {std::pair{"torch_2_2", std::optional<StoreDialect>()},
                                      std::pair{"torch_2_1", std::optional(StoreDialect::torch_2_1)},
                                      std::pair{"torch_2_0", std::optional(StoreDialect::torch_2_0)}}) {
    std::mt19937 random(1);
    Tree tree({0, 1}, 1 << 20, dialect);
    const std::size_t client = tree.connect_silent(2);
    for (const StoreMessage& message : read_conversation(file)) {
      INFO(file << ": " << message.name);
      tree.send(client, message.request);
      tree.settle(random);
      CHECK(std::exchange(tree.answers(client), {}) == message.reply);
    }
  }
}
