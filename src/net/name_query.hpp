// Reads the answer of one name look-up.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/member_service.hpp"
#include "net/whole_answer.hpp"

namespace ddprun::net {

using OnAddresses = std::function<void(std::vector<std::string> addresses, std::string error)>;

// Started; `on_addresses` is called once with addresses or a sentence, unless cancelled. The look-up ends
// with the answer.
std::shared_ptr<WholeAnswer> query_name(boost::asio::io_context& context, NameLookup lookup,
                                        Milliseconds limit, OnAddresses on_addresses);

}  // namespace ddprun::net
