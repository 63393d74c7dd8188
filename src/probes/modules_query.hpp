// Asks beside the event loop which modules the workers here have loaded.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/whole_answer.hpp"
#include "os/process/answering_child.hpp"

namespace ddprun::probes {

class ModulesQuery {
 public:
  // Called once, within two seconds: by worker; empty where one, or all of them, have not answered.
  using OnAnswer = std::function<void(std::vector<std::vector<std::string>> modules)>;

  // Started. Throws Error where there can be no child.
  ModulesQuery(boost::asio::io_context& context, std::vector<std::string> doors, OnAnswer on_answer);
  ~ModulesQuery() { answer_->cancel(); }  // it is not wanted any more
  ModulesQuery(const ModulesQuery&) = delete;
  ModulesQuery& operator=(const ModulesQuery&) = delete;
  int child() const { return child_.pid(); }

 private:
  os::AnsweringChild child_;
  std::shared_ptr<net::WholeAnswer> answer_;
};

}  // namespace ddprun::probes
