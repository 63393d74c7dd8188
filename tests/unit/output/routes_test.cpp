#include "output/output_options.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

StreamRoute route(const OutputOptions& options, int rank, Stream stream) {
  return route_stream(options, LocalRank{rank % 8}, GlobalRank{rank}, stream);
}

}  // namespace

TEST_CASE("without options everything is on the console") {
  CHECK(route({}, 3, Stream::error) == StreamRoute{false, true, false});
  CHECK_FALSE(wants_files({}));
}

TEST_CASE("a redirected stream is in its file only, a tee'd one on the console too") {
  OutputOptions options;
  options.redirects = parse_stream_choice("0:3,1:1", "");
  options.tee = parse_stream_choice("1:3", "");
  CHECK(route(options, 0, Stream::output) == StreamRoute{true, false, false});
  CHECK(route(options, 1, Stream::output) == StreamRoute{true, true, true});
  CHECK(route(options, 1, Stream::error) == StreamRoute{true, true, true});
  CHECK(route(options, 2, Stream::output) == StreamRoute{false, true, false});
}

TEST_CASE("a local rank that is filtered out still has its file") {
  OutputOptions options;
  options.tee = parse_stream_choice("3", "");
  options.local_ranks = {0};
  CHECK(route(options, 8, Stream::output) == StreamRoute{true, true, true});
  CHECK(route(options, 1, Stream::output) == StreamRoute{true, false, false});
  options.tee = {};
  CHECK(route(options, 1, Stream::output) == StreamRoute{false, false, false});
}

TEST_CASE("--logs writes everything and leaves the console to --ranks") {
  OutputOptions options;
  options.logs.value = "logs";
  CHECK(route(options, 3, Stream::output) == StreamRoute{true, true, false});
  options.ranks = parse_rank_ranges("0,8-15", "--ranks");
  CHECK(route(options, 0, Stream::output) == StreamRoute{true, true, false});
  CHECK(route(options, 3, Stream::output) == StreamRoute{true, false, false});
  CHECK(route(options, 9, Stream::error) == StreamRoute{true, true, false});
}

TEST_CASE("a folder that is /dev/null means no files, and nothing is hidden in them") {
  OutputOptions options;
  options.log_dir.value = "/dev/null";
  options.redirects = parse_stream_choice("3", "");
  CHECK_FALSE(wants_files(options));
  CHECK(route(options, 0, Stream::output) == StreamRoute{false, true, false});
}

TEST_CASE("the label says the host where there are several") {
  OutputOptions options;
  options.label = sourced(std::string(), "--label");
  const LabelFacts facts{GlobalRank{5}, LocalRank{1}, Attempt{0}, "n1", "default"};
  const auto text = [&](int hosts) { return label_of(options, {}, facts, hosts, false).at(Milliseconds{0}); };
  CHECK(text(1) == "[5] ");
  CHECK(text(2) == "[5 n1] ");
  options.label.reset();
  CHECK(text(2).empty());
  CHECK(label_of(options, {true, true, true}, facts, 2, false).at(Milliseconds{0}) == "[default1]:");
}

TEST_CASE("lines with one of the texts are copied whole and labelled") {
  LineFilter filter({"apple", "kiwi"}, "[0]:");
  CHECK(filter.add("an ap") == "");
  CHECK(filter.add("ple\npear\nkiwi\nlast ap") == "[0]:an apple\n[0]:kiwi\n");
  CHECK(filter.end() == "");
  filter.add("last apple");
  CHECK(filter.end() == "[0]:last apple\n");
}
