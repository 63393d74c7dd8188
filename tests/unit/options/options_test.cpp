#include "options/options.hpp"

#include <csignal>

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::options;

namespace {

std::string nodes_error(const std::string& text) {
  return usage_error_of([&] { parse_node_range(text, "--nnodes"); });
}
std::string workers_error(const std::string& text) {
  return usage_error_of([&] { parse_workers_per_node(text, "PET_NPROC_PER_NODE"); });
}
std::string endpoint_error(const std::string& text) {
  return usage_error_of([&] { parse_endpoint(text, "--rdzv-endpoint"); });
}
std::string conf_error(const std::string& text) {
  return usage_error_of([&] { parse_rendezvous_conf(text, "--rdzv-conf"); });
}
std::string signals_error(const std::string& text) {
  return usage_error_of([&] { parse_signals(text, "--signals-to-handle"); });
}

}  // namespace

TEST_CASE("a number of nodes is one number or a range") {
  CHECK(parse_node_range("1", "").most == 1);
  CHECK(parse_node_range("2:20", "").least == 2);
  CHECK(parse_node_range("2:20", "").most == 20);
  CHECK(parse_node_range("3:3", "").least == 3);
}

TEST_CASE("a number of nodes that is none says so") {
  for (const char* text : {"", "0", "-1", "2:20:30", "2:", ":2", "two", "1.5", " 2", "99999999999"}) {
    CAPTURE(text);
    CHECK(nodes_error(text) == "--nnodes is not a number of nodes: '" + std::string(text) +
                                   "' | give a number above 0, or MIN:MAX");
  }
  CHECK(nodes_error("4:2") == "--nnodes has MIN above MAX: '4:2' | write 2:4");
}

TEST_CASE("workers are a number or one of four words") {
  const WorkersPerNode number = parse_workers_per_node("4", "--nproc-per-node");
  CHECK(number.kind == WorkersKind::number);
  CHECK(number.number == 4);
  CHECK(number.origin == "--nproc-per-node");
  CHECK(parse_workers_per_node("auto", "").kind == WorkersKind::auto_count);
  CHECK(parse_workers_per_node("gpu", "").kind == WorkersKind::gpu);
  CHECK(parse_workers_per_node("cpu", "").kind == WorkersKind::cpu);
  CHECK(parse_workers_per_node("xpu", "").kind == WorkersKind::xpu);
}

TEST_CASE("workers that are neither name the variable they came from") {
  for (const char* text : {"", "unknown", "0", "-2", "GPU", "4 ", "4097"}) {
    CAPTURE(text);
    CHECK(workers_error(text) == "PET_NPROC_PER_NODE is not a number of workers: '" + std::string(text) +
                                     "' | give a number from 1 to 4096, or auto, gpu, cpu or xpu");
  }
}

TEST_CASE("an endpoint is a host with or without a port") {
  struct Case {
    const char* text;
    const char* host;
    std::optional<int> port;
  };
  for (const Case& each :
       {Case{"node1", "node1", {}}, Case{"node1:29400", "node1", 29400},
        Case{" n-1_a.example:0 ", "n-1_a.example", 0}, Case{"10.0.0.1:65535", "10.0.0.1", 65535},
        Case{"[::1]:29500", "::1", 29500}, Case{"[fe80::1%eth0]", "fe80::1%eth0", {}}, Case{"::1", "::1", {}},
        Case{"2001:db8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1", {}},
        Case{"[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1}}) {
    CAPTURE(each.text);
    const Endpoint endpoint = parse_endpoint(each.text, "");
    CHECK(endpoint.host == each.host);
    CHECK(endpoint.port == each.port);
  }
}

TEST_CASE("an endpoint that is none shows the forms there are") {
  for (const char* text :
       {"", ":29500", "http://n1:29500", "n1/2", "[::1", "[::1]x", "[n1]:29500", "::1:29500", "a b", "1:2:3",
        "[]", ":::", "1::2::3", "-n1", "[::1%]:2", "[1:2:3:4:5:6:7:8:9]", "::1.2.3"}) {
    CAPTURE(text);
    CHECK(endpoint_error(text) == "--rdzv-endpoint is not an address: '" + std::string(text) +
                                      "' | give HOST, HOST:PORT or, for IPv6 with a port, [ADDRESS]:PORT");
  }
  for (const char* text : {"n1:", "n1:port", "n1:65536", "n1:-1", "[::1]:123456"}) {
    CAPTURE(text);
    CHECK(endpoint_error(text) == "--rdzv-endpoint has an invalid port: '" + std::string(text) +
                                      "' | a port is a number from 0 to 65535");
  }
}

TEST_CASE("a host takes no port") {
  CHECK(parse_host("[0:0:0:0:0:0:0:1]", "--master-addr") == "0:0:0:0:0:0:0:1");
  CHECK(usage_error_of([] { parse_host("n1:29500", "--master-addr"); }) ==
        "--master-addr accepts no port: 'n1:29500' | give the address alone, n1");
}

TEST_CASE("a rendezvous configuration may be quoted as a whole or in part") {
  using Conf = std::map<std::string, std::string>;
  CHECK(parse_rendezvous_conf("", "").empty());
  CHECK(parse_rendezvous_conf("''", "").empty());
  CHECK(parse_rendezvous_conf("a=1, b = 2", "") == Conf{{"a", "1"}, {"b", "2"}});
  CHECK(parse_rendezvous_conf("'join_timeout=5,last_call_timeout=1'", "") ==
        Conf{{"join_timeout", "5"}, {"last_call_timeout", "1"}});
  CHECK(parse_rendezvous_conf("'a=1','b=2'", "") == Conf{{"a", "1"}, {"b", "2"}});
  CHECK(parse_rendezvous_conf("a=\"1,2\",b='x=y'", "") == Conf{{"a", "1,2"}, {"b", "x=y"}});
  CHECK(parse_rendezvous_conf("a=1,a=2", "") == Conf{{"a", "2"}});
}

TEST_CASE("a rendezvous configuration names what is wrong with it") {
  const std::string hint = " | write it as KEY=VALUE,KEY=VALUE";
  CHECK(conf_error("a=,b=1") == "--rdzv-conf gives no value to 'a'" + hint);
  CHECK(conf_error("a=''") == "--rdzv-conf gives no value to 'a'" + hint);
  CHECK(conf_error("a") == "--rdzv-conf gives no value to 'a'" + hint);
  CHECK(conf_error("=1") == "--rdzv-conf has a part without a key: '=1'" + hint);
  CHECK(conf_error("a=1,") == "--rdzv-conf has a part without a key: 'a=1,'" + hint);
  CHECK(conf_error("a='1") == "--rdzv-conf has a quote that is not closed: 'a='1'" + hint);
  CHECK(conf_error("a=" + std::string(5000, 'x')) == "--rdzv-conf is longer than 4096 characters" + hint);
}

TEST_CASE("signals come by name with or without SIG, or by number") {
  CHECK(parse_signals("SIGTERM,INT, usr1 ,1", "") == std::vector<int>{SIGTERM, SIGINT, SIGUSR1, SIGHUP});
  CHECK(parse_signals("TERM,15,SIGTERM", "") == std::vector<int>{SIGTERM});
  CHECK(parse_signals("SIGRTMIN+1,RTMAX,RTMAX-2,RTMIN", "") ==
        std::vector<int>{SIGRTMIN + 1, SIGRTMAX, SIGRTMAX - 2, SIGRTMIN});
}

TEST_CASE("an unknown signal suggests the right one") {
  CHECK(signals_error("SIGTERN") ==
        "--signals-to-handle names an unknown signal: 'SIGTERN' | did you mean SIGTERM?");
  CHECK(signals_error("usr3") ==
        "--signals-to-handle names an unknown signal: 'usr3' | did you mean SIGUSR1?");
  const std::string hint = " | name signals as in SIGTERM,SIGUSR1 or by number; kill -l lists them";
  CHECK(signals_error("hello, world") == "--signals-to-handle names an unknown signal: 'hello'" + hint);
  CHECK(signals_error("RTMIN+99") == "--signals-to-handle names an unknown signal: 'RTMIN+99'" + hint);
  CHECK(signals_error("0") == "--signals-to-handle names an unknown signal: '0'" + hint);
  CHECK(signals_error("33") == "--signals-to-handle names an unknown signal: '33'" + hint);
  CHECK(signals_error("65") == "--signals-to-handle names an unknown signal: '65'" + hint);
}

TEST_CASE("a signal that cannot mean stop is refused") {
  for (const char* name : {"SIGKILL", "SIGSTOP", "SIGCHLD"}) {
    CHECK(signals_error(name) == "--signals-to-handle names " + std::string(name) +
                                     ", which cannot be a request to stop | leave it out; "
                                     "SIGTERM,SIGINT,SIGHUP,SIGQUIT is the default");
  }
}

TEST_CASE("every signal has a name to print") {
  CHECK(signal_name(SIGSEGV) == "SIGSEGV");
  CHECK(signal_name(SIGIO) == "SIGIO");
  CHECK(signal_name(SIGRTMIN) == "SIGRTMIN");
  CHECK(signal_name(SIGRTMIN + 1) == "SIGRTMIN+1");
  CHECK(signal_name(99) == "signal 99");
}
