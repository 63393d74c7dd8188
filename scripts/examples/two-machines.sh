#!/bin/sh
# Two machines without a scheduler: run this on each, with the address of the first.
#
#   first machine:   two-machines.sh 0 10.0.0.1
#   second machine:  two-machines.sh 1 10.0.0.1
#
# In any order: each waits for the other. Both need the same key, so that no other user can join. The first run
# creates it, ~/.ddprun/key, on the first machine; copy it to the second:
#   scp -p ~/.ddprun/key second-machine:.ddprun/
#
# What this needed before: the same line with torchrun, and on machines with several networks also the right
# interface in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.
set -eu
node_rank=$1
first_machine=$2
exec ddprun --nnodes 2 --node-rank "$node_rank" --master-addr "$first_machine" train_ddp.py
