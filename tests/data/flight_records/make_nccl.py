#!/usr/bin/env python3
"""Writes the flight records of four ranks on NCCL to FOLDER: make_nccl.py FOLDER. Not recorded: made without a GPU.

The entries are those of create_one_entry() in torch's test/distributed/flight_recorder/test_fr_analysis.py, with the types and the
fields that torch's recorder writes of NCCL (FlightRecorderDetail.hpp), timing on. Ranks 0, 2 and 3 wait in the fourth collective of
all, rank 1 has not entered it; in the data group of 0 and 2 the sizes differ, in that of 1 and 3 the types.
"""

import pickle
import sys

START = 1_796_000_000_000_000_000
MEMBERS = {"0": [0, 1, 2, 3], "1": [0, 2], "2": [1, 3]}
DESCRIPTIONS = {"0": "default_pg", "1": "mesh_dp", "2": "mesh_dp"}


class TorchPickler(pickle._Pickler):
    """Fills lists and dictionaries as torch's pickler does, which knows no shorter way for one item."""

    def _batch_appends(self, items, *_):
        self.write(pickle.MARK)
        for item in items:
            self.save(item)
        self.write(pickle.APPENDS)

    def _batch_setitems(self, items, *_):
        self.write(pickle.MARK)
        for name, value in items:
            self.save(name)
            self.save(value)
        self.write(pickle.SETITEMS)


def entry(record, operation, sizes, outputs, state, number, group, types="BFloat16", is_p2p=False):
    created, completed = START + record * 50_000_000, state == "completed"
    took = {"duration_ms": 1.5 + record} if completed else {}
    return {
        "record_id": record, "pg_id": int(group), "process_group": (group, DESCRIPTIONS[group]), "thread_name": "python",
        "thread_id": "140655087824960", "collective_seq_id": 0 if is_p2p else number, "p2p_seq_id": number if is_p2p else 0,
        "op_id": record + 1, "profiling_name": "nccl:" + operation, "time_created_ns": created, **took, "input_sizes": sizes,
        "input_dtypes": [types], "output_sizes": outputs, "output_dtypes": [types], "state": state,
        "time_discovered_started_ns": None if state == "scheduled" else created + 1_000_000,
        "time_discovered_completed_ns": created + 100_000_000 if completed else None, "retired": completed, "timeout_ms": 600_000,
        "is_p2p": is_p2p, "frames": [{"name": "main", "filename": "train.py", "line": 31}],
    }


def entries(rank):
    data, elements = ("1", 1024 if rank == 0 else 2048) if rank in (0, 2) else ("2", 1024)
    yield entry(0, "all_reduce_barrier", [[1]], [[1]], "completed", 1, "0", "Float")
    yield entry(1, "_all_gather_base", [[256]], [[1024]], "completed", 2, "0")
    yield entry(2, "send 0->1" if rank % 2 == 0 else "recv 1<-0", [[8]], [[8]], "completed", 1, "0", is_p2p=True)
    yield entry(3, "_reduce_scatter_base", [[1024]], [[256]], "completed", 3, "0")
    yield entry(4, "all_reduce", [[elements]], [[elements]], "completed", 1, data, "Float" if rank == 3 else "BFloat16")
    if rank != 1:
        yield entry(5, "all_reduce", [[4, 4]], [[4, 4]], "started", 4, "0")
        yield entry(6, "all_reduce", [[1]], [[1]], "scheduled", 5, "0", "Float")


def main():
    for rank in range(4):
        made = list(entries(rank))
        numbers = [each["collective_seq_id"] for each in made if each["process_group"][0] == "0" and not each["is_p2p"]]
        record = {
            "version": "2.10", "comm_lib_version": "2.27.5", "nccl_comm_state": {}, "entries": made,
            "pg_config": {name: {"name": name, "desc": DESCRIPTIONS[name], "ranks": str(ranks)}
                          for name, ranks in MEMBERS.items() if rank in ranks},
            "pg_status": {"0": {"last_enqueued_collective": numbers[-1], "last_started_collective": min(numbers[-1], 4),
                                "last_completed_collective": 3}},
        }
        with open(f"{sys.argv[1]}/nccl_trace_rank_{rank}", "wb") as file:
            TorchPickler(file, protocol=2).dump(record)


if __name__ == "__main__":
    main()
