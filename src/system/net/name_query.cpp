#include "net/name_query.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"

namespace ddprun::net {

namespace {

constexpr std::size_t k_max_answer = 4096;
constexpr std::string_view k_error = "error: ";

void tell(const std::string& answer, const OnAddresses& on_addresses) {
  if (answer.starts_with(k_error))
    return on_addresses({}, printable(trim(std::string_view(answer).substr(k_error.size()))));
  std::vector<std::string> addresses = split_words(answer);
  const bool none = addresses.empty();
  on_addresses(std::move(addresses), none ? "the name service gave no address" : "");
}

}  // namespace

std::shared_ptr<WholeAnswer> query_name(boost::asio::io_context& context, NameLookup lookup,
                                        Milliseconds limit, OnAddresses on_addresses) {
  const int descriptor = lookup.descriptor;
  auto query = std::make_shared<WholeAnswer>(
      context, descriptor, k_max_answer, limit,
      [lookup = std::move(lookup), limit, on_addresses = std::move(on_addresses)](const std::string& answer,
                                                                                  bool timed_out) {
        if (!timed_out) return tell(answer, on_addresses);
        on_addresses({}, fmt::format("no answer from the name service within {}", describe_duration(limit)));
      });
  query->start();
  return query;
}

}  // namespace ddprun::net
