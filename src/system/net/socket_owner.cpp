#include "net/socket_owner.hpp"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <utility>
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

DiagRequest begin_request(int family, int flags) {
  DiagRequest request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  request.content.sdiag_family = static_cast<std::uint8_t>(family);
  request.content.sdiag_protocol = IPPROTO_TCP;
  return request;
}

DiagRequest make_request(const Endpoint& local, const Endpoint& remote) {
  DiagRequest request = begin_request(local.address().is_v4() ? AF_INET : AF_INET6, 0);
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

namespace {

// Beginning of tcp_info of linux/tcp.h (Linux 4.19), which cannot be included beside netinet/tcp.h, whose
// tcp_info ends earlier. The kernel only adds to its end.
struct KernelTcpInfo {
  std::array<std::uint8_t, 8> state_and_options;
  std::uint32_t rto, ato, snd_mss, rcv_mss, unacked, sacked, lost, retrans, fackets;
  std::uint32_t last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
  std::uint32_t pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
  std::uint32_t rcv_rtt, rcv_space, total_retrans;
  std::uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
  std::uint32_t segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out;
  std::uint64_t delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
  std::uint32_t delivered, delivered_ce;
  std::uint64_t bytes_sent, bytes_retrans;
};
static_assert(offsetof(KernelTcpInfo, bytes_acked) == 120 && offsetof(KernelTcpInfo, busy_time) == 168);

std::set<std::uint32_t> sockets_of(const std::vector<int>& pids) {
  std::set<std::uint32_t> found;
  for (const int pid : pids) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
      const std::string target =
          std::filesystem::read_symlink(entry.path(), error).string();  // "socket:[123]"
      if (error || !target.starts_with("socket:[")) continue;
      if (const auto inode =
              number_of<std::uint32_t>(std::string_view(target).substr(8, target.size() - 9), 10))
        found.insert(*inode);
    }
  }
  return found;
}

template <class Value>
std::optional<Value> read_as(std::span<const char> bytes) {
  Value value;
  if (bytes.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::span<const char> without(std::span<const char> bytes, std::size_t count) {
  return bytes.subspan(std::min(bytes.size(), count));
}

std::string address_of(const inet_diag_msg& found) {
  sockaddr_storage storage{};
  storage.ss_family = found.idiag_family;
  if (found.idiag_family == AF_INET) {
    auto& four = reinterpret_cast<sockaddr_in&>(storage);
    std::memcpy(&four.sin_addr, found.id.idiag_dst, sizeof four.sin_addr);
  } else {
    auto& six = reinterpret_cast<sockaddr_in6&>(storage);
    std::memcpy(&six.sin6_addr, found.id.idiag_dst, sizeof six.sin6_addr);
  }
  return plain_endpoint(storage).address().to_string();
}

// Reads what follows `found` in the kernel's answer. Returns nullopt without the counts.
std::optional<slow::Connection> read_connection(const inet_diag_msg& found, std::span<const char> parts) {
  const auto whole = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
  while (const auto part = read_as<rtattr>(parts)) {
    const auto info = read_as<KernelTcpInfo>(without(parts, RTA_LENGTH(0)));
    if (part->rta_type == INET_DIAG_INFO && part->rta_len >= RTA_LENGTH(sizeof(KernelTcpInfo)) && info) {
      return slow::Connection{address_of(found),
                              found.idiag_inode,
                              whole(info->bytes_acked),
                              whole(info->bytes_retrans),
                              whole(info->busy_time - std::min(info->busy_time, info->rwnd_limited)),
                              static_cast<int>(info->rtt),
                              static_cast<int>(info->snd_mss)};
    }
    if (part->rta_len < sizeof *part) break;
    parts = without(parts, RTA_ALIGN(part->rta_len));
  }
  return std::nullopt;
}

// Adds what one answer of the kernel has. Reports whether more may follow.
bool add_connections(std::span<const char> answer, const std::set<std::uint32_t>& wanted,
                     std::vector<slow::Connection>& all) {
  while (const auto header = read_as<nlmsghdr>(answer)) {
    if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY || header->nlmsg_len < NLMSG_HDRLEN)
      return false;  // the end
    const auto content =
        without(answer.first(std::min<std::size_t>(answer.size(), header->nlmsg_len)), NLMSG_HDRLEN);
    const auto found = read_as<inet_diag_msg>(content);
    const bool is_wanted = found && wanted.contains(found->idiag_inode) &&
                           !std::ranges::equal(found->id.idiag_src, found->id.idiag_dst);
    if (is_wanted && all.size() < slow::k_most_connections) {
      if (auto connection = read_connection(*found, without(content, NLMSG_ALIGN(sizeof *found))))
        all.push_back(std::move(*connection));
    }
    answer = without(answer, NLMSG_ALIGN(header->nlmsg_len));
  }
  return true;
}

}  // namespace

std::vector<slow::Connection> list_connections(const std::vector<int>& pids) {
  const std::set<std::uint32_t> wanted = sockets_of(pids);
  std::vector<slow::Connection> all;
  for (const int family : {AF_INET, AF_INET6}) {
    const Descriptor netlink{::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
    DiagRequest request = begin_request(family, NLM_F_DUMP);
    request.content.idiag_ext = 1 << (INET_DIAG_INFO - 1);
    request.content.idiag_states = 1U << TCP_ESTABLISHED;
    if (wanted.empty() || ::send(netlink.number, &request, sizeof request, 0) < 0) continue;
    alignas(nlmsghdr) std::array<char, 32 << 10> buffer;
    for (;;) {
      const ssize_t size = ::recv(netlink.number, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size <= 0 || !add_connections({buffer.data(), static_cast<std::size_t>(size)}, wanted, all)) break;
    }
  }
  return all;
}

}  // namespace ddprun::net
