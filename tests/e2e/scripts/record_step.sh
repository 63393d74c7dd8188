#!/bin/sh
# record_step.sh DIRECTORY COMMAND...: notes what Slurm says about this task, then becomes COMMAND.
directory=$1
shift
cat >"$directory/step.$SLURM_PROCID" <<RECORD
{"host": "$(hostname)", "procid": $SLURM_PROCID, "localid": $SLURM_LOCALID, "nodeid": $SLURM_NODEID,
 "ntasks": $SLURM_STEP_NUM_TASKS, "nodes": $SLURM_STEP_NUM_NODES, "gtids": "$SLURM_GTIDS",
 "reserved_ports": "${SLURM_STEP_RESV_PORTS:-}"}
RECORD
exec "$@"
