#include "site/expand_value.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::site;

namespace {

const facts::Environment k_environment{{"SCRATCH", "/scratch/u"}, {"HOME", "/home/u"}, {"EMPTY", ""}};

std::string expanded(const std::string& text) {
  const ExpandedValue value = expand_value(text, k_environment);
  return value.missing.empty() ? value.text : "missing " + value.missing;
}

}  // namespace

TEST_CASE("variables in a value are replaced") {
  CHECK(expanded("$SCRATCH/cache") == "/scratch/u/cache");
  CHECK(expanded("${SCRATCH}_2") == "/scratch/u_2");
  CHECK(expanded("$EMPTY$SCRATCH") == "/scratch/u");
  CHECK(expanded("$SCRATCH_2/x") == "missing SCRATCH_2");
  CHECK(expanded("$A:$B") == "missing A");
}

TEST_CASE("a variable may have a text for where it is unset or empty") {
  CHECK(expanded("${JOB:-none}/x") == "none/x");
  CHECK(expanded("${EMPTY:-a b}") == "a b");
  CHECK(expanded("${SCRATCH:-none}") == "/scratch/u");
  CHECK(expanded("${JOB:-}x") == "x");
  CHECK(expanded("${JOB:x} ${JOB:-x") == "${JOB:x} ${JOB:-x");
}

TEST_CASE("a tilde is the home directory where a shell would take it for that") {
  CHECK(expanded("~") == "/home/u");
  CHECK(expanded("~/cache:~/more") == "/home/u/cache:/home/u/more");
  CHECK(expanded("a~b ~user x/~") == "a~b ~user x/~");
}

TEST_CASE("any other dollar sign stays") {
  CHECK(expanded("$$SCRATCH") == "$SCRATCH");
  CHECK(expanded("5$ $1 ${ ${} ${SCRATCH") == "5$ $1 ${ ${} ${SCRATCH");
}
