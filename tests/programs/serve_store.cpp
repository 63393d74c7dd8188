// serve_store [PORT [2.0|2.1]]: hosts a store, prints its port, and ends when standard input does.
#include <fmt/core.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <functional>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "net/store_server.hpp"

int main(int argc, char** argv) {
  namespace asio = boost::asio;
  ddprun::net::StoreServerOptions options;
  if (argc > 1) options.port = static_cast<int>(ddprun::parse_integer(argv[1]).value_or(0));
  if (argc > 2) {
    const bool newest = std::string_view(argv[2]) == "2.1";
    options.old_dialect =
        newest ? ddprun::store::StoreDialect::torch_2_1 : ddprun::store::StoreDialect::torch_2_0;
  }
  options.report = [](const std::string& text, bool) { fmt::print(stderr, "{}\n", text); };
  try {
    asio::io_context context;
    ddprun::net::StoreServer server(context, options);
    fmt::print("{}\n", server.port());
    std::fflush(stdout);
    asio::posix::stream_descriptor input(context, 0);
    std::array<char, 64> ignored;
    input.async_read_some(asio::buffer(ignored), [&](const auto&, std::size_t) { server.close(); });
    context.run();
  } catch (const ddprun::Error& error) {
    fmt::print(stderr, "serve_store: {}\nhint: {}\n", error.what(), error.hint());
    return error.exit_code();
  }
  return 0;
}
