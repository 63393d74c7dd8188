#!/bin/bash
#flux: --nodes=2
#flux: --exclusive
#flux: --time-limit=30m
# Flux (`flux batch flux.sh`): one ddprun per node, a worker a GPU.
#
# What this needed before:
#   export MASTER_ADDR=$(flux hostlist --expand --limit=1 instance)
#   export MASTER_PORT=29500
#   flux run --nodes=2 --ntasks=2 --exclusive bash -c 'torchrun --nnodes=$FLUX_JOB_NNODES --nproc-per-node=4 \
#     --node-rank=$FLUX_TASK_RANK --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT train_ddp.py'
flux run --nodes=2 --ntasks=2 --exclusive ddprun train_ddp.py --steps 40
