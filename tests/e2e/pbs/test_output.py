"""What workers write on other hosts, as it comes out of a job."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from support import programs, written_lines
from support.hosts import wait_until
from support.pbs_cluster import TWO_HOSTS

LAUNCHERS = ["pbsdsh", "pbs_tmrsh", "ssh"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("length, size", [(200, 1_000_000), (1000, 4_000_000), (65536, 4_000_000)])
def test_no_byte_is_lost_and_no_line_torn_when_the_job_ends_with_ddprun(cluster, ssh_daemons, directory, launcher,
                                                                         length, size):
    worker = f"python3 {programs.readable(Path(written_lines.__file__))} {length} {size}"
    script = f"cd {directory}; exec ddprun --launcher {launcher} --no-python {worker} > lines"
    result = cluster.submit(directory, script, *TWO_HOSTS).wait()
    found = written_lines.look_at((directory / "lines").read_bytes(), 2, length, size)
    assert result.code == 0 and found.is_whole, f"{found}\n{result}"


def test_what_is_printed_while_saving_after_qdel_arrives(cluster, directory):
    (directory / "worker.sh").write_text(textwrap.dedent(f"""
        trap 'for i in 1 2 3 4 5 6 7; do echo "rank $RANK saves part $i"; sleep 0.1; done; exit 0' TERM
        touch {directory}/ready.$RANK
        while :; do sleep 0.1; done
        """))
    script = f"exec ddprun --launcher pbsdsh --no-python sh {directory}/worker.sh > {directory}/lines"
    job = cluster.submit(directory, script, *TWO_HOSTS)
    job.wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    cluster.control.check(["qdel", job.number])
    result = job.wait()
    said = [line for line in (directory / "lines").read_text().splitlines() if "pbsdsh" not in line]
    assert sorted(said) == [f"rank {rank} saves part {part}" for rank in (0, 1) for part in range(1, 8)], str(result)
