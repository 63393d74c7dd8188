// A visitor for std::visit from one lambda per alternative.
#pragma once

namespace ddprun {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
// clang needs it spelled out before version 17.
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace ddprun
