#include "base/json_fields.hpp"

#include "base/json_text.hpp"
#include "catch.hpp"

using namespace ddprun;

namespace {

using Fields = JsonFields<nlohmann::json>;

enum class Colour { red, green };

struct Span {
  int first = 0;
  int last = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

struct Wheel {
  std::string name;
  friend bool operator==(const Wheel&, const Wheel&) = default;
};

struct Cart {
  int load = 0;
  GlobalRank rank;
  bool full = false;
  Colour colour = Colour::red;
  Milliseconds age{0};
  std::string note;
  std::optional<int> price;
  std::optional<Milliseconds> pause;
  std::optional<Wheel> spare;
  std::vector<Wheel> wheels;
  std::vector<std::string> words;
  std::vector<int> doors;
  std::vector<int> ports;
  std::vector<Span> spans;
  std::vector<std::vector<std::string>> rows{{"a"}, {"b", "c"}};
  friend bool operator==(const Cart&, const Cart&) = default;
};

void describe_wheel(Fields& fields, Wheel& wheel) { fields.value("name", wheel.name); }

void describe_cart(Fields& fields, Cart& cart) {
  fields.value("load", cart.load, 1, 9);
  fields.value("rank", cart.rank);
  fields.value("full", cart.full);
  fields.value("colour", cart.colour, Colour::green);
  fields.seconds("age", cart.age);
  fields.optional("note", cart.note, std::size_t{4});
  fields.optional("price", cart.price);
  fields.optional("pause", cart.pause, 1);
  fields.optional("spare", cart.spare, describe_wheel);
  fields.value("wheels", cart.wheels, 2, describe_wheel);
  fields.value("words", cart.words, 2);
  fields.value("doors", cart.doors, 2);
  fields.value("ports", cart.ports, 2, 1, 65535, "has an invalid port");
  fields.rows("spans", cart.spans, 2, [](Span& span) { return std::vector{&span.first, &span.last}; });
  fields.text_rows("rows", cart.rows, 2, 2);
}

Cart some_cart() {
  Cart cart;
  cart.load = 3;
  cart.rank = {7};
  cart.full = true;
  cart.colour = Colour::green;
  cart.age = Milliseconds{1500};
  cart.note = "abc";
  cart.price = 0;
  cart.pause = Milliseconds{250};
  cart.spare = Wheel{"s"};
  cart.wheels = {{"w"}};
  cart.words = {"x"};
  cart.doors = {0, 2};
  cart.ports = {80};
  cart.spans = {{1, 2}, {4, 4}};
  return cart;
}

std::string write(Cart cart) {
  nlohmann::json json;
  Fields fields(json, 8);
  describe_cart(fields, cart);
  return write_json_text(json);
}

std::string problem_of(const std::string& text) {
  const nlohmann::json json = read_json_text(text);
  std::string problem;
  Fields fields(json, problem, 8);
  Cart cart;
  describe_cart(fields, cart);
  return problem;
}

// Of a cart in which one piece of the text is another.
std::string problem_with(const std::string& what, const std::string& by) {
  std::string text = write(some_cart());
  const auto place = text.find(what);
  REQUIRE(place != std::string::npos);
  return problem_of(text.replace(place, what.size(), by));
}

}  // namespace

TEST_CASE("a record that is described is written and read by the same lines") {
  const std::string text = write(some_cart());
  CHECK(text ==
        R"({"age":1.5,"colour":1,"doors":[0,2],"full":true,"load":3,"note":"abc","pause":250,"ports":[80],)"
        R"("price":0,"rank":7,"rows":[["a"],["b","c"]],"spans":[[1,2],[4,4]],"spare":{"name":"s"},)"
        R"("wheels":[{"name":"w"}],"words":["x"]})");
  const nlohmann::json json = read_json_text(text);
  std::string problem;
  Fields fields(json, problem, 8);
  Cart cart;
  describe_cart(fields, cart);
  CHECK(problem.empty());
  CHECK(cart == some_cart());
}

TEST_CASE("what is not there is left out, and what is too long is cut") {
  Cart cart = some_cart();
  cart.note = cart.words[0] = "0123456789";
  cart.doors.assign(5, 1);
  cart.wheels.assign(5, {"w"});
  cart.price.reset();
  cart.pause.reset();
  cart.spare.reset();
  const std::string text = write(cart);
  CHECK(text ==
        R"({"age":1.5,"colour":1,"doors":[1,1],"full":true,"load":3,"note":"0123","ports":[80],"rank":7,)"
        R"("rows":[["a"],["b","c"]],"spans":[[1,2],[4,4]],"wheels":[{"name":"w"},{"name":"w"}],)"
        R"("words":["01234567"]})");
  CHECK(problem_of(text).empty());
}

TEST_CASE("of what is read the first problem is named") {
  CHECK(problem_of("[]") == "not an object");
  CHECK(problem_of("{}") == "\"load\" is missing");
  for (const char* load : {"0", "10", "-1", "4294967297", "18446744073709551615"})
    CHECK(problem_with("\"load\":3", std::string("\"load\":") + load) == "\"load\" is out of range");
  CHECK(problem_with("\"load\":3", "\"load\":3.5") == "\"load\" is not a whole number");
  CHECK(problem_with("\"rank\":7", "\"rank\":-1") == "\"rank\" is out of range");
  CHECK(problem_with("true", "1") == "\"full\" is neither true nor false");
  CHECK(problem_with("\"colour\":1", "\"colour\":2") == "\"colour\" is out of range");
  CHECK(problem_with("1.5", "\"1.5\"") == "\"age\" is not a number");
  CHECK(problem_with("1.5", "-1.5") == "\"age\" is out of range");
  CHECK(problem_with("\"abc\"", "7") == "\"note\" is not a string");
  CHECK(problem_with("abc", "0123456789ab").empty());  // may have been as few bytes that are not UTF-8
  CHECK(problem_with("abc", "0123456789abc") == "\"note\" is too long");
  CHECK(problem_with("250", "0") == "\"pause\" is out of range");
  CHECK(problem_with("{\"name\":\"s\"}", "3") == "not an object");
  CHECK(problem_with("[0,2]", "{}") == "\"doors\" is not a list");
  CHECK(problem_with("[0,2]", "[0,2,3]") == "\"doors\" is too long");
  CHECK(problem_with("[0,2]", "[\"0\"]") == "\"doors\" is out of range");
  CHECK(problem_with("[80]", "[0]") == "\"ports\" has an invalid port");
  CHECK(problem_with("[80]", "[\"x\"]") == "\"ports\" has an invalid port");
  CHECK(problem_with("[1,2]", "[1,2,3]") == "\"spans\" has a row of wrong width");
  CHECK(problem_with("[1,2]", "[1,-2]") == "\"spans\" is out of range");
  CHECK(problem_with("[\"a\"]", "[]") == "\"rows\" has a row of wrong width");
  CHECK(problem_with("[[\"a\"],", "[") == "\"rows\" is too short");
  CHECK(problem_with("true,\"load\":3", "1,\"load\":0") == "\"load\" is out of range");
}
