#include "checkpoint/manifest.hpp"

#include "base/error.hpp"
#include "catch.hpp"
#include "staging/manifest.hpp"

using namespace ddprun;
using namespace ddprun::checkpoint;

namespace {

const std::string k_hash(64, 'a');

std::string refusal_of(const std::string& json) {
  try {
    parse_manifest(json);
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a manifest is the same after it was written and read, with and without hashes") {
  const Manifest manifest{8,
                          {{".metadata", 12, k_hash}, {"__0_0.distcp", 1000, ""}, {"rank-3.pt", 0, k_hash}}};
  CHECK(parse_manifest(render(manifest)) == manifest);
  CHECK(render({2, {{"a", 1, ""}, {"b", 2, k_hash}}}) ==
        R"({"world":2,"files":{"a":1,"b":{"bytes":2,"blake2b":")" + k_hash + R"("}}})");
  CHECK(size_of(manifest) == 1012);
  CHECK(parse_manifest(R"({"world":2,"files":{}})") == Manifest{2, {}});  // a rank that has nothing to save
}

TEST_CASE("what is no manifest is refused with a reason") {
  for (const auto& [json, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "line 1 is not JSON"},
           {"[]", "the whole file must be an object"},
           {R"({"world":2})", "it needs world and files"},
           {R"({"world":0,"files":{"a":1}})", "world must be between 1 and 16777216"},
           {R"({"world":2,"files":{"a":-1}})", "files.a is no number of bytes"},
           {R"({"world":2,"files":{"a":1,"a":2}})", "a appears twice"},
           {R"({"world":2,"files":{"../a":1}})", "files.../a is no name of a file"},
           {R"({"world":2,"files":{"rank-0.manifest":1}})", "files.rank-0.manifest is no name of a file"},
           {R"({"world":2,"files":{"a":{"bytes":1}}})", "files.a needs bytes and blake2b"},
           {R"({"world":2,"files":{"a":{"bytes":1,"blake2b":"00"}}})", "files.a needs bytes and blake2b"},
           {R"({"world":2,"files":{"a":1},"step":3})", "step is not known"},
           {R"({"world":2,"files":{"a":1125899906842624,"b":1}})", "files are too many"}}) {
    CAPTURE(json);
    CHECK(refusal_of(json) == "cannot use the manifest of a checkpoint: " + why);
  }
}

TEST_CASE("names of files and folders are those of the layout and no others") {
  for (const char* name : {"rank-0", "rank-0.pt", "__0_0.distcp", ".metadata", "A_b-c.9"})
    CHECK(is_file_name(name));
  for (const std::string name :
       {"", ".", "..", ".x", ".metadata.tmp", "a/b", "a b", "rank-7.manifest", "\xc3\xa4"})
    CHECK_FALSE(is_file_name(name));
  CHECK(is_file_name(std::string(200, 'a')));
  CHECK_FALSE(is_file_name(std::string(201, 'a')));
  CHECK(step_folder(12) == "step-12");
  CHECK(parse_step("step-0") == 0);
  CHECK(parse_step("step-9223372036854775807") == 9223372036854775807);
  for (const char* name :
       {"step-", "step-01", "step--1", "step-9223372036854775808", "step-1x", "step", "replicas"})
    CHECK_FALSE(parse_step(name));
  CHECK(manifest_name(3) == "rank-3.manifest");
  CHECK(parse_manifest_name("rank-3.manifest") == 3);
  for (const char* name : {"rank-.manifest", "rank-03.manifest", "rank-3.pt", "rank-4294967296.manifest"})
    CHECK_FALSE(parse_manifest_name(name));
  CHECK(parse_lone_file("rank-3") == 3);
  CHECK(parse_lone_file("rank-3.tar.gz") == 3);
  for (const char* name : {"rank-3.manifest", "rank-x.pt", "rank-3x", "model.pt", ".rank-3"})
    CHECK_FALSE(parse_lone_file(name));
}

TEST_CASE("a list of parts is the same after it was sent, and a damaged one is refused") {
  const std::vector<Offer> offers{{7, 0, {2, {{"a", 1, ""}}}}, {7, 1, {2, {{"b", 2, k_hash}}}}};
  const std::string bytes = encode(offers);
  CHECK(decode_offers(bytes) == offers);
  CHECK(decode_offers("").empty());
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    if (size == encode({offers[0]}).size()) continue;
    CHECK_THROWS_AS(decode_offers(bytes.substr(0, size)), Error);
  }
  std::string huge;
  for (const std::uint64_t number : {std::uint64_t{1} << 63U, std::uint64_t{0}})
    staging::put_number(huge, number);
  staging::put_text(huge, render(offers[0].manifest));
  CHECK_THROWS_AS(decode_offers(huge), Error);
}

TEST_CASE("a worker is told the parts of a step with the lengths of their files") {
  CHECK(render_parts({{0, {2, {{"a", 1, k_hash}}}}, {1, {2, {{"b", 2, ""}}}}}) ==
        R"({"world":2,"parts":{"0":{"a":1},"1":{"b":2}}})");
}
