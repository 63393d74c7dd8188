#include "options/hang_options.hpp"

namespace ddprun::options {

std::string_view name_of(OnHang action) {
  switch (action) {
    case OnHang::restart:
      return "restart";
    case OnHang::stop:
      return "stop";
    case OnHang::report:
      return "report";
  }
  return "stop";
}

}  // namespace ddprun::options
