#include "store/request.hpp"

#include "catch.hpp"
#include "store_wire.hpp"

using namespace ddprun;
using namespace ddprun::store;
using namespace store_wire;

TEST_CASE("each release numbers its requests as its header says") {
  const auto names = [](StoreDialect dialect) {
    std::string all;
    for (int code = 0; code < 256; ++code) {
      const auto operation = store_operation(dialect, static_cast<std::uint8_t>(code));
      if (operation) all += std::to_string(code) + " " + std::string(describe(*operation)) + "\n";
    }
    return all;
  };
  CHECK(names(StoreDialect::torch_2_0) ==
        "0 SET\n1 COMPARE_SET\n2 GET\n3 ADD\n4 CHECK\n5 WAIT\n6 GETNUMKEYS\n7 WATCH_KEY\n8 DELETE_KEY\n");
  CHECK(names(StoreDialect::torch_2_1) ==
        "0 SET\n1 COMPARE_SET\n2 GET\n3 ADD\n4 CHECK\n5 WAIT\n6 GETNUMKEYS\n7 DELETE_KEY\n8 APPEND\n9 "
        "MULTI_GET\n"
        "10 MULTI_SET\n11 CANCEL_WAIT\n");
  CHECK(names(StoreDialect::torch_2_2) ==
        "0 VALIDATE\n1 SET\n2 COMPARE_SET\n3 GET\n4 ADD\n5 CHECK\n6 WAIT\n7 GETNUMKEYS\n8 DELETE_KEY\n9 "
        "APPEND\n"
        "10 MULTI_GET\n11 MULTI_SET\n12 CANCEL_WAIT\n13 PING\n14 QUEUE_PUSH\n15 QUEUE_POP\n16 QUEUE_LEN\n"
        "17 LIST_KEYS\n18 BARRIER\n");
}

TEST_CASE("a scanner stops at the end of its request and leaves what follows") {
  RequestScanner scanner;
  scanner.begin(StoreOperation::compare_set);
  const std::string body = text("key") + text("") + text("new");
  CHECK(scanner.scan(body + "more", {}) == RequestScanner::Result::complete);
  CHECK(scanner.length() == body.size());
}

TEST_CASE("a reader takes the fields of a checked body") {
  const std::string body = text("key") + number(std::int64_t{-5}) + "rest";
  FieldReader fields(body);
  CHECK(fields.text() == "key");
  CHECK(fields.integer() == -5);
  CHECK(fields.rest() == "rest");
}

TEST_CASE("an installed torch before 2.2 tells how its clients speak") {
  CHECK(old_dialect_of("1.13.1") == StoreDialect::torch_2_0);
  CHECK(old_dialect_of("2.0.1+cu118") == StoreDialect::torch_2_0);
  CHECK(old_dialect_of("2.1.0a0+gitb5021ba") == StoreDialect::torch_2_1);
  CHECK_FALSE(old_dialect_of("2.2.0"));
  CHECK_FALSE(old_dialect_of("2.13.0+cpu"));
  CHECK_FALSE(old_dialect_of("3.0"));
  for (const char* const none : {"", "2", "two.one", "2.x"}) CHECK_FALSE(old_dialect_of(none));
}
