#include "net/name_lookup.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <array>
#include <cstdlib>
#include <utility>

#include "allocation/hostlist.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "base/text.hpp"
#include "os/process/child_call.hpp"

namespace ddprun::net {

namespace {

constexpr std::string_view k_error = "error: ";

std::string resolve(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found);
  if (result == EAI_NONAME || result == EAI_NODATA)
    return fmt::format("{}the name does not resolve on this host\n", k_error);
  if (result == EAI_AGAIN) return fmt::format("{}the name service does not answer\n", k_error);
  if (result != 0) return fmt::format("{}{}\n", k_error, ::gai_strerror(result));
  std::string lines;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int shown = ::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                                    NI_NUMERICHOST);
    if (shown == 0) lines += std::string(text.data()) + "\n";
  }
  ::freeaddrinfo(found);
  return lines;
}

// Returns the address that Slurm uses for a node that the name service does not know: pods of Kubernetes,
// machines of a cloud.
std::string ask_slurm_for_address(const std::string& name) {
  constexpr Milliseconds k_slurm_limit{3000};
  if (::getenv("SLURM_JOB_ID") == nullptr || !allocation::is_host_name(name)) return {};
  const auto shown = allocation::read_pairs(
      os::ask_program({"scontrol", "--oneliner", "show", "node", name}, k_slurm_limit));
  const auto address = shown.find("NodeAddr");
  return address == shown.end() || address->second == name ? std::string() : address->second;
}

std::string look_up(const std::string& name) {
  std::string found = resolve(name);
  if (!found.starts_with(k_error)) return found;
  const std::string address = ask_slurm_for_address(name);
  const std::string by_slurm = address.empty() ? std::string(k_error) : resolve(address);
  return by_slurm.starts_with(k_error) ? found : by_slurm;
}

}  // namespace

std::vector<std::string> look_up_name(const std::string& name, Milliseconds limit) {
  const os::ChildAnswer answer = os::call_in_child([&name] { return look_up(name); }, limit);
  if (!answer.bytes || answer.bytes->starts_with(k_error)) return {};
  return split_words(*answer.bytes);
}

std::optional<bool> has_name(const std::string& address, Milliseconds limit) {
  const os::ChildAnswer answer = os::call_in_child(
      [&address] {
        addrinfo wanted{};
        wanted.ai_flags = AI_NUMERICHOST;
        addrinfo* found = nullptr;
        std::array<char, NI_MAXHOST> text{};
        if (::getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0) return std::string("no");
        const int named = ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr,
                                        0, NI_NAMEREQD);
        return std::string(named == 0 ? "yes" : "no");
      },
      limit);
  if (!answer.bytes) return std::nullopt;
  return *answer.bytes == "yes";
}

NameLookupChild::NameLookupChild(const std::string& name)
    : child_([&name] { return look_up(name); }, "look up the host name " + name) {}

namespace {

constexpr std::size_t k_max_answer = 4096;

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
