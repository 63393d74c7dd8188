// Time that the ranks of a job wait for each of them, from one look at all of their collectives.
//
// Known is when each rank entered each collective: gloo's entries have no time of completion, and the host of
// a GPU runs ahead of it. Of NCCL it may be known how long each collective took on each GPU.
//
// Waiting. Where the ranks go on only when a collective is complete, all of them go on at the moment when the
// last one entered it. Each has then worked since the moment when the awaited collective before was complete,
// and a rank that takes longer for it than the one in the middle costs the others the difference. Not how
// late it enters counts: a rank that waits for a slow one in its tensor group enters the next collective of
// its data group late, through no fault of its own, and has worked no longer than the others there.
//
// Overlap. Gradients are reduced while the backward pass runs on: a rank that is late by 30 ms is late by 30
// ms in all four of them and has cost 30 ms, not 120. So only collectives count that the ranks wait for, and
// of those in between none. Which these are shows in what a rank does after it was early: where it waits, its
// next entry comes a constant time after the last rank's, however early it was (slope 0 of the one over the
// other); where it does not, each millisecond that it is earlier makes its next entry come that much sooner
// (slope -1), often before the last rank has entered this one. It is told from the changes from one time to
// the next of the same rank, as a rank that is slow all the time shows the same figures in both cases; the
// weighted median of the slopes bears pauses and busy machines. It is judged for each place of a step, that
// is for equal collectives that are followed by equal ones equally soon: of three equal reductions of a step
// two overlap with the backward pass, and the last one is awaited. Without evidence nothing counts.
//
// Even ranks. Each of them is the last one now and then, and what the others wait for it then is no fault of
// it. So a time below the middle counts as well, with the other sign: of ranks whose times only vary the
// sums are zero, of one that is always slow they are not. Two that are late in turn have half of it each; two
// that are slow together have all of it each, as the middle is that of the others; of two ranks alone the one
// is as much slower as the other is quicker.
//
// Uneven steps. A checkpoint or an evaluation that rank 0 makes costs minutes, by design, and rarely. So the
// look is cut into sixteen parts of equally many collectives, and a rank's share is the mean of the middle
// half of theirs: what is in less than a quarter of them is not seen, what makes every third step three times
// as long remains. No single time has a limit: a rank of FSDP whose batch is late is late before one of many
// layers.
// A rank whose batches are over takes part without work of its own (Join): who worked less than a fifth of
// what it usually does there is not compared.
//
// Groups. Only ranks of one group are compared, in what they do between the same collectives. The stages of a
// pipeline differ by design: they are known by what they send to each other, and a group in which two ranks
// do is not judged, neither are sending and receiving. gloo's records have no messages (torch 2.13): there
// the ranks that a slow one sends to seem as slow as it is. In a broadcast, a scatter or a reduce not all
// ranks wait for the late one.
//
// GPUs. All GPUs end a collective at the same moment, so the one that was in it for the shortest time came
// last, and was late by what the one in the middle was in it for longer. That needs no clock. Which
// collectives hold the GPUs shows as above: where they do not, a GPU that was earlier in one is as much
// earlier in the next. The last GPU is left out of that, and so is who waits for it alone: reductions that
// queue behind a GPU that is far too late begin at one moment on all the others, and must not count again
// and again. Hence three ranks are needed, and such a GPU's share is too small rather than too large. A rank
// of several groups costs the most that it costs one of them, without what it has waited for in the others:
// the peers of a slow GPU in its tensor group come late to their data groups. Of a rank's two shares, by its
// host and by its GPU, the larger one counts.
//
// Clocks. What two ranks of different hosts differ by is known to the sum of their bounds only; less is 0.
#pragma once

#include <map>
#include <vector>

#include "slow/trace.hpp"

namespace ddprun::slow {

struct Waits {
  // Microseconds that the others waited for each rank, more than for a rank in the middle; less than 0: for
  // one that is quicker. Ranks of which nothing can be told are missing.
  std::map<int, double> of_rank;
  double span = 0;  // microseconds from the first awaited collective to the last one
};

Waits measure_waits(const std::vector<NodeTrace>& nodes);

}  // namespace ddprun::slow
