#include "net/socket_owner.hpp"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <variant>
#include <vector>

#include "base/text.hpp"

namespace ddprun::net {

namespace {

namespace asio = boost::asio;
using Endpoint = asio::ip::tcp::endpoint;

constexpr std::uint32_t k_no_cookie = ~std::uint32_t{0};

// ---- addresses

Endpoint plain_endpoint(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    return {asio::ip::address_v4(ntohl(four.sin_addr.s_addr)), ntohs(four.sin_port)};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  asio::ip::address_v6::bytes_type bytes;
  std::copy_n(six.sin6_addr.s6_addr, bytes.size(), bytes.begin());
  const asio::ip::address_v6 address(bytes, six.sin6_scope_id);
  if (!address.is_v4_mapped()) return {address, ntohs(six.sin6_port)};
  return {asio::ip::make_address_v4(asio::ip::v4_mapped, address), ntohs(six.sin6_port)};
}

// Address as the kernel keeps it: 32-bit words in network order.
using Words = std::array<std::uint32_t, 4>;

Words words_of(const asio::ip::address& address) {
  Words words{};
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(words.data(), bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
  return words;
}

// ---- NETLINK_SOCK_DIAG

struct DiagRequest {
  nlmsghdr header{};
  inet_diag_req_v2 content{};
};

DiagRequest make_request(const Endpoint& local, const Endpoint& remote) {
  DiagRequest request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.content.sdiag_family = local.address().is_v4() ? AF_INET : AF_INET6;
  request.content.sdiag_protocol = IPPROTO_TCP;
  request.content.idiag_states = ~std::uint32_t{0};
  inet_diag_sockid& id = request.content.id;
  id.idiag_sport = htons(local.port());
  id.idiag_dport = htons(remote.port());
  std::ranges::copy(words_of(local.address()), id.idiag_src);
  std::ranges::copy(words_of(remote.address()), id.idiag_dst);
  if (local.address().is_v6()) id.idiag_if = static_cast<std::uint32_t>(local.address().to_v6().scope_id());
  std::ranges::fill(id.idiag_cookie, k_no_cookie);
  return request;
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// Returns a row, or an errno: ENOENT for no such socket, and for a kernel that cannot look for one.
std::variant<SocketRow, int> ask_kernel(const Endpoint& local, const Endpoint& remote) {
  const Descriptor netlink{::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
  if (netlink.number < 0) return errno;
  const DiagRequest request = make_request(local, remote);
  if (::send(netlink.number, &request, sizeof request, 0) < 0) return errno;
  // The kernel has answered when send() returns.
  alignas(nlmsghdr) std::array<char, 4096> buffer;
  const ssize_t size = ::recv(netlink.number, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < static_cast<ssize_t>(NLMSG_HDRLEN)) return size < 0 ? errno : EPROTO;
  const auto& header = *reinterpret_cast<const nlmsghdr*>(buffer.data());
  const std::size_t content = static_cast<std::size_t>(size) - NLMSG_HDRLEN;
  if (header.nlmsg_type == NLMSG_ERROR && content >= sizeof(nlmsgerr)) {
    return -reinterpret_cast<const nlmsgerr*>(buffer.data() + NLMSG_HDRLEN)->error;
  }
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || content < sizeof(inet_diag_msg)) return EPROTO;
  const auto& found = *reinterpret_cast<const inet_diag_msg*>(buffer.data() + NLMSG_HDRLEN);
  const bool open =
      found.idiag_inode != 0 && (found.idiag_state == TCP_ESTABLISHED || found.idiag_state == TCP_CLOSE_WAIT);
  return SocketRow{found.idiag_uid, open};
}

// ---- /proc/net/tcp

std::string table_address(const Endpoint& endpoint, bool mapped) {
  const asio::ip::address& address = endpoint.address();
  Words words = words_of(address);
  std::string text;
  const bool four = address.is_v4() && !mapped;
  if (mapped) words = words_of(asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4()));
  for (std::size_t i = 0; i < (four ? 1U : words.size()); ++i) text += fmt::format("{:08X}", words[i]);
  return text + fmt::format(":{:04X}", endpoint.port());
}

template <class Number>
std::optional<Number> number_of(std::string_view text, int base) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::string read_table(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<SocketRow> find_in_tables(const Endpoint& local, const Endpoint& remote) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (const auto row = find_in_socket_table(read_table(path), local, remote)) return row;
  }
  return std::nullopt;
}

// Reports whether the kernel has found it. A kernel that does not know of a connection's other end either
// cannot be asked.
bool tells(const std::variant<SocketRow, int>& answer) { return std::holds_alternative<SocketRow>(answer); }

rendezvous::Holder judge(const SocketRow& row, uid_t user) {
  if (!row.open) return rendezvous::Holder::elsewhere;
  return row.user == user || row.user == 0 ? rendezvous::Holder::own : rendezvous::Holder::foreign;
}

// Reports whether a connection of our own is found while this host has the server's end too: if not, "no such
// socket" means nothing.
bool can_ask_kernel() {
  static const bool k_can = [] {
    const Descriptor listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener.number, plain, size) != 0 || ::listen(listener.number, 1) != 0) return false;
    ::getsockname(listener.number, plain, &size);
    const Descriptor client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::connect(client.number, plain, size) != 0) return false;
    const auto ends = ends_of(client.number);  // seen from the client: the other way round
    return ends && tells(ask_kernel(ends->server, ends->client));
  }();
  return k_can;
}

}  // namespace

std::optional<TcpEnds> ends_of(int descriptor) {
  sockaddr_storage peer{};
  sockaddr_storage own{};
  socklen_t peer_size = sizeof peer;
  socklen_t own_size = sizeof own;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return std::nullopt;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return std::nullopt;
  return TcpEnds{plain_endpoint(peer), plain_endpoint(own)};
}

rendezvous::StoreConnection as_text(const TcpEnds& ends) {
  return {ends.client.address().to_string(), ends.client.port(), ends.server.address().to_string(),
          ends.server.port()};
}

std::optional<TcpEnds> from_text(const rendezvous::StoreConnection& connection) {
  boost::system::error_code error;
  const auto end = [&error](const std::string& address, int port) -> Endpoint {
    boost::system::error_code failure;
    const auto number = asio::ip::make_address(address, failure);
    if (failure) error = failure;
    return {number, static_cast<std::uint16_t>(port)};
  };
  const TcpEnds ends{end(connection.client, connection.client_port),
                     end(connection.server, connection.server_port)};
  if (error || ends.client.address().is_v4() != ends.server.address().is_v4()) return std::nullopt;
  return ends;
}

// Finds a row like "  0: 0100007F:A1B2 0100007F:5000 01 00000000:00000000 00:00000000 00000000  1000  0
// 123456 ..."
std::optional<SocketRow> find_in_socket_table(std::string_view text, const Endpoint& local,
                                              const Endpoint& remote) {
  constexpr std::size_t k_state = 3;
  constexpr std::size_t k_user = 7;
  constexpr std::size_t k_inode = 9;
  const bool six_columns = text.find("remote_address") != std::string_view::npos;  // the head of tcp6
  const bool mapped = six_columns && local.address().is_v4();
  const std::string wanted = table_address(local, mapped) + " " + table_address(remote, mapped);
  const auto place = text.find(wanted);
  if (place == std::string_view::npos) return std::nullopt;
  const auto begin = text.rfind('\n', place) + 1;
  const std::vector<std::string> fields = split_words(text.substr(begin, text.find('\n', place) - begin));
  if (fields.size() <= k_inode) return std::nullopt;
  const auto state = number_of<int>(fields[k_state], 16);
  const auto user = number_of<uid_t>(fields[k_user], 10);
  const auto inode = number_of<std::uint64_t>(fields[k_inode], 10);
  if (!state || !user || !inode) return std::nullopt;
  return SocketRow{*user, *inode != 0 && (*state == TCP_ESTABLISHED || *state == TCP_CLOSE_WAIT)};
}

rendezvous::Holder find_holder(const TcpEnds& ends, uid_t user) {
  const auto answer = ask_kernel(ends.client, ends.server);
  if (const auto* row = std::get_if<SocketRow>(&answer)) return judge(*row, user);
  if (std::get<int>(answer) == ENOENT && can_ask_kernel()) return rendezvous::Holder::elsewhere;
  if (const auto row = find_in_tables(ends.client, ends.server)) return judge(*row, user);
  const bool readable = !read_table("/proc/net/tcp").empty();
  return readable ? rendezvous::Holder::elsewhere : rendezvous::Holder::unknown;
}

}  // namespace ddprun::net
