"""What --help, ddprun(1) and ddprun-formats(5) promise, as a table: each option once, each variable, each exit code."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import pytest

from support.ports import free_port
from support.programs import REPOSITORY

MAN_PAGE = (REPOSITORY / "man" / "ddprun.1").read_text().replace("\\-", "-")
FORMATS = (REPOSITORY / "man" / "ddprun-formats.5").read_text().replace("\\-", "-")
TOPOLOGY = "pack:2 numa:1 core:8 pu:1"
CARDS = str(REPOSITORY / "tests" / "data" / "topologies" / "two-packages.xml")
SHOW = ("--no-python", "sh", "-c")
TRUE = ("--no-python", "true")
CHECKPOINTS = ("--checkpoint-memory", "1G")
MANUAL = ("--nnodes", "2", "--node-rank", "0", "--master-addr", "n1")

# An option as --help names it: arguments, and a piece of what comes out; "json:" looks into --dry-run=json, where
# a * stands for anything.
OPTIONS = {
    "--module": (["--module", "this"], "The Zen of Python"),
    "--no-python": ([*SHOW, "echo fine"], "fine"),
    "--run-path": (["--dry-run", "--run-path", "tool"], "-u tool"),
    # what it does: test_container.py
    "--container": (["--container", "env A=1", "--dry-run", "x.py"], "env A=1 python3 -u x.py"),
    # what they do: test_staging.py
    "--stage": (["--stage", "/etc/hostname"], "json:stage.0.path=/etc/hostname"),
    "--stage-to": (["--stage", "/etc/hostname", "--stage-to", "/local"], "json:stage.0.copy=/local/ddprun-stage-UID/hostname-HASH/hostname"),
    "--stage-keep": (["--stage", "/etc/hostname", "--stage-keep", "--dry-run"], "kept for the next job"),
    "--no-use-env": (["--no-use-env", "--dry-run", "x.py"], "x.py --local-rank=0"),
    # what they do: test_programs.py
    "--job": (["--job", "x.py"], "the job file x.py"),
    "--name": (["--name", "server", *SHOW, "sleep 0; echo $DDPRUN_PROGRAM", ":", *TRUE], "[server 0 "),
    "--nodes": (["--nodes", "0", *TRUE], "--nodes is about several programs"),
    "--with": (["--with", "server", *TRUE], "--with is about several programs"),
    "--after": (["--after", "server", *TRUE], "--after is about several programs"),
    "--ready": (["--ready", "80", *TRUE], "--ready is about several programs"),
    "--ready-timeout": (["--ready-timeout", "0", *TRUE], "of 0 waits for nothing"),
    "--independent": (["--independent", "--nproc-per-node", "2", "--no-python", "sh", "-c", "echo $DDPRUN_REPLICA of $DDPRUN_REPLICAS; sleep 1"], "] 1 of 2"),
    "--on-exit": (["--on-exit", "restrat", *TRUE], "--on-exit is not one of job, fail, restart, ignore"),
    "--env": (["--env", "A=fine", *SHOW, "echo $A"], "fine"),
    "--nproc-per-node": (["--nproc-per-node", "2", *SHOW, "echo of $WORLD_SIZE"], "of 2\nof 2"),
    "--nnodes": ([*MANUAL], "json:world_size.value=2"),
    # what they do: test_elastic.py, test_spares.py
    "--grow": (["--nnodes", "1:2", "--grow", "soon", *TRUE], "--grow is not one of now, at-restart, never"),
    # what they do: slurm/test_order.py
    "--order": ([*MANUAL, "--order", "network"], "json:rendezvous.order.value=network"),
    "--replace-after": (["--replace-after", "2", *TRUE], "--replace-after requires --nnodes MIN:MAX or --spares"),
    "--domain-size": (["--domain-size", "2", *TRUE], "--domain-size requires --order, and --nnodes MIN:MAX or --spares"),
    "--spares": ([*MANUAL, "--spares", "1"], "json:world_size.value=1"),
    "--node-rank": (["--dry-run=env", *MANUAL, "--node-rank", "1"], "export GROUP_RANK=1"),
    "--master-addr": ([*MANUAL], "json:rendezvous.addresses.value=['n1']"),
    "--master-port": ([*MANUAL, "--master-port", "7000"], "json:rendezvous.ports.value=[7000]"),
    "--local-addr": (["--local-addr", "127.0.0.2"], "json:workers.0.origins.MASTER_ADDR=--local-addr"),
    "--standalone": (["--standalone"], "json:allocation.style.origin=--standalone"),
    "--hosts": (["--hosts", "n1,n2"], "json:remote_launcher.hosts=['n1', 'n2']"),
    "--hostfile": (["--hostfile", "hosts"], "json:remote_launcher.hosts=['n1', 'n2']"),
    "--launcher": (["--hosts", "n1,n2", "--launcher", "ssh"], "json:remote_launcher.name.origin=--launcher"),
    # what they do: test_selflaunch_ssh.py, slurm/test_asked_tasks.py, pbs/test_asked_tasks.py
    "--launcher-args": (["--hosts", "n1,n2", "--launcher-args=-n", *TRUE], "ddprun sets -n of ssh itself"),
    "--scheduler": (["--scheduler", "none"], "json:allocation.scheduler.value=none"),
    "--role": (["--role", "trainer", *SHOW, "echo $ROLE_NAME"], "trainer"),
    "--virtual-local-rank": (["--nproc-per-node", "2", "--virtual-local-rank", *SHOW, "echo $LOCAL_RANK of 2"],
                             "0 of 2\n0 of 2"),
    "--rdzv-endpoint": (["--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "n1"],
                        "json:rendezvous.ports.value=[29400]"),
    "--rdzv-id": (["--rdzv-id", "mine", *SHOW, "echo $TORCHELASTIC_RUN_ID"], "mine"),
    "--rdzv-backend": (["--rdzv-backend", "etcd", *TRUE], "etcd"),
    "--rdzv-conf": ([*MANUAL, "--rdzv-conf", "join_timeout=7"], "json:rendezvous.join_timeout_seconds.value=7.0"),
    "--join-timeout": ([*MANUAL, "--join-timeout", "2m"], "json:rendezvous.join_timeout_seconds.value=120.0"),
    "--report": (["--report", "/dev/stdout", *TRUE], '"result": "succeeded"'),
    "--events": (["--events", "/dev/stdout", *TRUE], '"event":"end"'),
    "--metrics": (["--metrics", "/dev/stdout", *TRUE], "ddprun_workers"),
    # what it does: test_unlike_hosts.py
    "--host-timeout": ([*MANUAL, "--host-timeout", "7s"], "json:rendezvous.host_timeout_seconds.value=7.0"),
    "--rdzv": (["--rdzv", "smoke", *TRUE], "--rdzv"),
    "--rdzv-dir": ([*MANUAL, "--rdzv", "file", "--rdzv-dir", "/all/see"],
                   "json:rendezvous.rendezvous_file.value=/all/see/meet.*"),
    "--key-file": ([*MANUAL, "--key-file", "open-key", *TRUE], "cannot use the key file open-key: its mode is 0644, not 0600"),
    "--store": (["--store", "worker", *SHOW, "echo $TORCHELASTIC_USE_AGENT_STORE"], "False"),  # test_store_tree.py
    "--store-memory": (["--store-memory", "2G"], "json:rendezvous.store_memory_bytes.value=2147483648"),
    "--store-access": (["--store-access", "host", *SHOW, "echo $RANK"], "0"),
    "--site": (["--site", "none"], "json:site=None"),
    "--bind": (["--bind", "cpu:0", "--nproc-per-node", "2"], "json:workers.0.binding.cpus=0"),
    "--numa-binding": (["--numa-binding", "node", "--topology", TOPOLOGY, "--gpus", "2"], "json:workers.1.binding.cores=8"),
    "--membind": (["--membind", "bind", "--topology", TOPOLOGY, "--gpus", "2"],
                  "json:workers.0.binding.memory_policy=bind"),
    "--gpus-per-worker": (["--gpus-per-worker", "2", "--topology", TOPOLOGY, "--gpus", "4"], "json:world_size.value=2"),
    "--workers-per-gpu": (["--workers-per-gpu", "2", "--topology", TOPOLOGY, "--gpus", "4"], "json:world_size.value=8"),
    "--nic": (["--nic", "auto", "--topology", CARDS], "json:workers.0.env.NCCL_IB_HCA==mlx5_0"),
    "--omp-places": (["--omp-places", "--bind", "cpu:0", *SHOW, "echo $OMP_PLACES $OMP_PROC_BIND"], "{0} close"),
    "--show-binding": (["--show-binding", *TRUE], "rank 0 (local rank 0) on"),
    "--topology": (["--topology", TOPOLOGY], "json:binding.packages=2"),
    "--gpus": (["--topology", TOPOLOGY, "--gpus", "3"], "json:workers.2.device=2"),
    "--max-restarts": (["--max-restarts", "1", *SHOW, "exit $((1 - TORCHELASTIC_RESTART_COUNT))"], "restart 1 of 1"),
    # what they do: test_restart_policy.py
    "--restart-policy": (["--max-restarts", "1", "--restart-policy", "always"], "json:restarts.policy.value=always"),
    "--min-progress": (["--max-restarts", "1", "--min-progress", "7m"], "json:restarts.min_progress_seconds.value=420.0"),
    "--no-restart-on": (["--max-restarts", "1", "--no-restart-on", "3", *SHOW, "exit 3"], "not restarted: exit code 3"),
    "--restart-backoff": (["--max-restarts", "1", "--restart-backoff", "7s"], "json:restarts.backoff_seconds.value=7.0"),
    "--standby": (["--max-restarts", "1", "--standby"], "json:restarts.standby.value=True"),  # test_standby.py
    "--standby-memory": (["--standby-memory", "x", *TRUE], "is not a memory size"),  # test_standby.py
    # what they do: test_checkpoints.py
    "--checkpoint-memory": (["--checkpoint-memory", "2G"], "json:checkpoints.memory_bytes.value=2147483648"),
    "--checkpoint-folder": ([*CHECKPOINTS, "--checkpoint-folder", "/local"], "json:checkpoints.folder=/local"),
    "--checkpoint-rate": ([*CHECKPOINTS, "--checkpoint-rate", "2M"], "json:checkpoints.bytes_per_second=2097152"),
    "--checkpoint-flush": ([*CHECKPOINTS, "--checkpoint-flush", "/all"], "json:checkpoints.flush=/all"),
    "--checkpoint-flush-every": ([*CHECKPOINTS, "--checkpoint-flush", "/all", "--checkpoint-flush-every", "5m"],
                                 "json:checkpoints.flush_every_seconds=300.0"),
    "--checkpoint-keep": ([*CHECKPOINTS, "--checkpoint-keep", "--dry-run"], "kept for the requeued job"),
    "--shutdown-timeout": (["--shutdown-timeout", "7s"], "json:shutdown_timeout_seconds.value=7.0"),
    "--signals-to-handle": (["--signals-to-handle", "SIGUSR1", *SHOW, "echo $TORCHELASTIC_SIGNALS_TO_HANDLE"], "SIGUSR1"),
    "--hang-timeout": (["--hang-timeout", "10ms", *TRUE], "is below one second"),  # test_hangs.py
    "--on-hang": (["--on-hang", "restrat", *TRUE], "did you mean restart?"),  # test_hangs.py
    "--exit-barrier-timeout": (["--exit-barrier-timeout", "0", *TRUE], "is below one second"),  # test_hangs.py
    "--stacks-every": (["--stacks-every", "1m", *TRUE], "--stacks-every requires --logs"),  # test_hangs.py
    "--profile-every": (["--profile-every", "9s", *TRUE], "is below 10 seconds"),  # test_profile.py
    "--slow-notice": (["--slow-notice", "10", *TRUE], "is no share of a time"),  # test_slow_ranks.py
    "--on-slow": (["--slow-notice", "10%", "--spares", "1", "--on-slow", "replce", *TRUE], "did you mean replace?"),
    "--no-inspect": (["--no-inspect", "--print-config"], "no-inspect"),  # test_inspection.py
    "--signal-before-end": (["--signal-before-end", "NONE@1", *TRUE], "is not SIGNAL@TIME"),  # slurm/test_time_limits.py
    "--requeue": (["--requeue=x", *TRUE], "is not a number of times"),  # slurm/test_time_limits.py
    "--check-command": (["--check-command", "'", *TRUE], "--check-command"),  # test_check.py
    "--check-timeout": (["--check-timeout", "0", *TRUE], "is below one second"),  # test_check.py
    "--on-failure": (["--on-failure", "'", *TRUE], "--on-failure"),  # test_check.py
    "--requeue-on": (["--requeue-on", "0", *TRUE], "is not a list of exit codes"),  # slurm/test_time_limits.py
    "--no-requeue-on": (["--no-requeue-on", "x", *TRUE], "is not a list of exit codes"),  # slurm/test_time_limits.py
    "--min-attempt-time": (["--min-attempt-time", "x", *TRUE], "is not a time"),  # slurm/test_time_limits.py
    "--dry-run": (["--dry-run", *TRUE], "nothing is started"),
    "--check": (["--check", *TRUE], "checked 1 node in "),
    "--strict": (["--strict", *TRUE], "--strict requires --check"),  # test_check.py
    "--exclude-file": (["--exclude-file", "x", *TRUE], "--exclude-file requires --check"),  # test_check.py
    "--gpu-release-timeout": (["--gpu-release-timeout", "x", *TRUE], "is not a time"),  # unit/check/gpu_release_test.cpp
    "--capture": (["--capture", "-", *TRUE], '"environment"'),
    "--snapshot": (["--snapshot", "captured", *TRUE], "nothing is started"),
    "--verbose": (["--verbose", *TRUE], "attempt 0"),
    "--quiet": (["--quiet", *SHOW, "echo fine"], "fine"),
    "--print-config": (["--print-config", "--max-restarts", "2"], "max-restarts         2"),
    "--help": (["--help"], "Usage: ddprun"),
    "--help-all": (["--help-all"], "The program:"),
    "--version": (["--version"], "ddprun "),
    "--print-completion": (["--print-completion", "bash"], "complete"),
    "--monitor-interval": (["--monitor-interval", "1", "--verbose", *TRUE], "--monitor-interval has no effect"),
    "--use-env": (["--use-env", "--verbose", *TRUE], "--use-env has no effect"),
    "--start-method": (["--start-method", "fork", "--verbose", *TRUE], "--start-method has no effect"),
    "--event-log-handler": (["--event-log-handler", "console", *TRUE], '"event":"end"'),
    "--status": ([*SHOW, "/proc/$PPID/exe --status"], "1 worker on 1 node: sh -c"),  # test_status.py
    "--stacks": ([*SHOW, "/proc/$PPID/exe --stacks"], "1 worker on 1 node: sh -c"),  # test_hangs.py
    "--profile": (["--profile", "1ms"], "is not between 1s and 5m"),  # test_profile.py
    "--restart": (["--restart", "0"], "has the job id or process id 0"),  # test_restart_request.py
    "--drain": (["--drain", "n3", "0"], "has the job id or process id 0"),  # test_restart_request.py
    "--watch": (["--status", "--watch=10ms"], "is below 100ms"),
    "--timeline": (["--timeline", "x.py"], "x.py contains no ddprun events"),
    "--output": (["--timeline", "x.py", "--output", "-"], "x.py contains no ddprun events"),
    "--redirects": (["-r", "3", "--log-dir", "logs"], "json:workers.0.output.stdout.console=False"),
    "--tee": (["-t", "3", "--log-dir", "logs", *SHOW, "echo fine"], "[default0]:fine"),
    "--log-dir": (["--log-dir", "logs", "--rdzv-id", "j"],
                  "json:workers.0.output.stderr.console=True"),
    "--local-ranks-filter": (["--local-ranks-filter", "1", "--nproc-per-node", "2", *SHOW, "echo $RANK of 2"], "1 of 2"),
    "--duplicate-stdout-filters": (["-t", "1", "--log-dir", "logs", "--duplicate-stdout-filters", "a", *SHOW,
                                    "echo aha; sleep 0"], "[default0]:aha"),  # the file: test_log_files.py
    "--duplicate-stderr-filters": (["--duplicate-stderr-filters", "a", "--dry-run", *TRUE], "what would happen"),
    "--log-line-prefix-template": (["-t", "1", "--log-dir", "logs", "--log-line-prefix-template", "<$rank>", *SHOW,
                                    "echo fine"], "<0>fine"),
    "--logs": (["--logs", "logs", "--rdzv-id", "j"],
               "json:workers.0.output.stdout.file=logs/j/attempt-0/rank-00000.out"),
    "--label": (["--label", *SHOW, "echo fine"], "[0] fine"),
    "--ranks": (["--ranks", "1", "--nproc-per-node", "2", *SHOW, "echo $RANK of 2"], "1 of 2"),
    "--fold": (["--fold", "--nproc-per-node", "3", *SHOW, "echo same"], "same"),  # test_log_files.py
    "--gather": (["--gather", "--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1"],
                 "json:workers.0.output.stdout.gathered=True"),  # test_gather.py
    "--output-rate": (["--output-rate", "1k", *SHOW, "seq 1000"], " kB) of rank 0 on"),
    "--log-compress": (["--log-compress", "zstd", *TRUE], "none are written"),  # test_log_files.py
    "--log-rotate": (["--log-rotate", "1M", *TRUE], "none are written"),
    "--timestamps": (["--timestamps", *TRUE], "none are written"),
    "--logs-specs": (["--logs-specs", "a", *TRUE], "is not supported yet"),
}

# A variable that the workers get: what it is in a job of two workers, for rank 1.
WORKER_VARIABLES = {
    "RANK": "1", "LOCAL_RANK": "1", "GROUP_RANK": "0", "ROLE_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
    "GROUP_WORLD_SIZE": "1", "ROLE_WORLD_SIZE": "2", "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": r"\d+", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RUN_ID": ".+", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_ERROR_FILE": "/.+",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "OMP_NUM_THREADS": r"\d+",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "PYTHONUNBUFFERED": "1", "DDPRUN_LAUNCH_ID": ".+",
    "DDPRUN_AGENT_ID": ".+", "DDPRUN_PROGRESS_FILE": "/.+",
    "DDPRUN_WORKER_VARIABLES": ".+",
}
# Those that come with an option, a site, a scheduler or several nodes, and have tests of their own.
ELSEWHERE = {"DDPRUN_PROGRAM", "DDPRUN_PROGRAMS", "DDPRUN_PROGRAMS_FILE", "DDPRUN_HOSTS_", "DDPRUN_ADDR_", "DDPRUN_READY_FILE", "DDPRUN_READY_PORT", "DDPRUN_REPLICA", "DDPRUN_REPLICAS",
             "DDPRUN_CHECKPOINTS", "DDPRUN_CHECKPOINT_SOCKET", "DDPRUN_CHECKPOINT_STEP",
             "DDPRUN_STAGED", "DDPRUN_STORE", "OMP_PLACES", "OMP_PROC_BIND", "NCCL_IB_HCA", "FI_CXI_DEVICE_NAME", "GLOO_SOCKET_IFNAME",
             "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS",
             "SLURM_TASKS_PER_NODE", "TORCHELASTIC_TIMER_FILE", "DDPRUN_INSPECT", "PYTHONPATH", "NCCL_RAS_ADDR",
             "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_TRACE_BUFFER_SIZE",
             "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}

# A variable that is read: its value, and a piece of --dry-run.
READ = {
    "PET_ROLE": ("trainer", "ROLE_NAME                       trainer"),
    "MASTER_PORT": ("7000", "MASTER_PORT                     7000"),
    "MASTER_ADDR": ("localhost", "MASTER_ADDR                     localhost"),
    "OMP_NUM_THREADS": ("1", "OMP_NUM_THREADS of the environment"),
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ("7", "7 s, then SIGKILL"),
    "CUDA_VISIBLE_DEVICES": ("0,1,2", "default: CUDA_VISIBLE_DEVICES"),
    "HIP_VISIBLE_DEVICES": ("0,1,2", "default: HIP_VISIBLE_DEVICES"),
    "ROCR_VISIBLE_DEVICES": ("0,1,2", "default: ROCR_VISIBLE_DEVICES"),
    "ZE_AFFINITY_MASK": ("0,1,2", "default: ZE_AFFINITY_MASK"),
}

EXIT_CODES = {
    0: [*TRUE],
    7: [*SHOW, "exit 7"],
    137: [*SHOW, "kill -KILL $$"],
    2: ["--nnodes", "x", *TRUE],
    124: ["--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", "PORT", "--join-timeout", "1s", *TRUE],
    125: ["--capture", "/nowhere/at/all", *TRUE],
    126: ["--no-python", "./plain"],
    127: ["--no-python", "nowhere"],
}

MISNAMED = [["--site", "./nowhere.json"], ["--topology", "nowhere.xml", "--dry-run"], ["--snapshot", "nowhere"],
            ["--hostfile", "nowhere"], ["--nproc-per-node", "gpu"], ["--snapshot", "x.py"], ["--topology", "x.py"],
            ["--bind", "none", "--omp-places"], ["--bind", "none", "--membind", "bind"],
            ["--bind", "none", "--numa-binding", "node"]]


@pytest.fixture
def furnished(machine):
    (machine.directory / "hosts").write_text("n1\nn2\n")
    for name in ("x.py", "tool", "plain"):
        (machine.directory / name).write_text("text")
    machine.run("--capture", "captured", *TRUE)
    (machine.directory / "open-key").write_text("k" * 64)
    (machine.directory / "open-key").chmod(0o644)
    return machine


def look_up(plan: dict, path: str) -> str:
    value = plan
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return str(value)


def test_the_table_has_every_option_of_the_help(machine):
    told = machine.run("--help-all").stdout
    named = set(re.findall(r"--[a-z][a-z-]+", told.split("The program:")[1]))
    assert named - {"--local-rank"} == set(OPTIONS), named ^ set(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS)
def test_option(furnished, option):
    arguments, expected = OPTIONS[option]
    if not expected.startswith("json:"):
        result = furnished.run(*arguments)
        assert expected in result.stdout + result.stderr, str(result)
        return
    result = furnished.run("--dry-run=json", *arguments, *TRUE)
    path, value = expected.removeprefix("json:").replace("[", "[[]").split("=", 1)
    assert result.code == 0 and fnmatchcase(look_up(json.loads(result.stdout), path), value), str(result)


def test_the_manual_describes_every_option():
    assert not [option for option in OPTIONS if f"\\fB{option}\\fR" not in MAN_PAGE]


def test_every_variable_of_the_workers(machine):
    result = machine.run("--nproc-per-node", "2", *SHOW, "[ $RANK = 0 ] || env")
    env = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    wrong = {name: env.get(name) for name, value in WORKER_VARIABLES.items() if not re.fullmatch(value, env.get(name, ""))}
    assert not wrong, wrong
    section = MAN_PAGE.split(".SH ENVIRONMENT OF THE WORKERS")[1].split("\n.SH ")[0]
    titles = re.findall(r"\.TP\n([A-Z].*)", section)
    named = {name for title in titles for name in re.findall(r"[A-Z][A-Z_]{3,}", title)}
    assert named == set(WORKER_VARIABLES) | ELSEWHERE, named ^ (set(WORKER_VARIABLES) | ELSEWHERE)


@pytest.mark.parametrize("name", READ)
def test_a_variable_that_is_read(machine, name):
    value, expected = READ[name]
    result = machine.run("--dry-run", *TRUE, env={name: value})
    assert result.code == 0 and expected in result.stdout, str(result)
    assert name in MAN_PAGE or name.startswith("PET_")


@pytest.mark.parametrize("code", EXIT_CODES)
def test_exit_code(furnished, code):
    port = str(free_port())
    result = furnished.run(*(port if word == "PORT" else word for word in EXIT_CODES[code]))
    assert result.code == code, str(result)


@pytest.mark.parametrize("arguments", MISNAMED, ids=" ".join)
def test_what_the_user_named_wrongly_is_a_usage_error(furnished, arguments):
    result = furnished.run(*arguments, *TRUE, env={"CUDA_VISIBLE_DEVICES": ""})
    assert result.code == 2 and result.stderr.startswith("ddprun: "), str(result)


def test_a_capture_never_overwrites_what_is_no_capture(furnished):
    result = furnished.run("--capture", "x.py", *TRUE)
    assert result.code == 2 and (furnished.directory / "x.py").read_text() == "text", str(result)
    assert furnished.run("--capture", "captured", *TRUE).code == 0


def test_variables_of_one_of_several_workers_are_said_to_wait(machine):
    result = machine.run("--nproc-per-node", "2", "--dry-run=env")
    assert result.code == 0 and "export WORLD_SIZE=2" in result.stdout, str(result)
    assert "these are the variables of rank 0 alone, one of 2 workers" in result.stderr, str(result)
    assert machine.run("--nproc-per-node", "1", "--dry-run=env").stderr == ""


def test_refused_options_have_a_line_each(machine):
    result = machine.run("--logs-specs", "x", "--rdzv-backend", "etcd", *TRUE)
    assert result.code == 2, str(result)
    lines = result.stderr.splitlines()
    assert lines[0] == "ddprun: --rdzv-backend, --logs-specs are not supported yet", str(result)
    assert len(lines) == 3 and all(line.startswith("hint: --") and len(line) < 120 for line in lines[1:]), str(result)


def test_every_key_of_the_plan_that_the_manual_names_is_there(machine):
    section = FORMATS.split(".SH THE PLAN AS JSON")[1].split("\n.SH ")[0]
    keys = re.findall(r"^\.T[PQ]\n\.B ([a-z_.\[\]]+)( \*)?$", section, re.MULTILINE)
    assert len(keys) > 60
    plans = {name: json.loads(machine.run("--dry-run=json", *options, *TRUE).stdout)
             for name, options in (("here", ["--nproc-per-node", "2", "--max-restarts", "1", "--check-command", "x", "--on-failure", "x", *CHECKPOINTS]),
                                   ("there", ["--hosts", "n1,n2"]))}
    told = re.search(r"the object has\n(.*?)\n\.TP", section, re.DOTALL)[1]
    carried = set(re.findall(r"[a-z_]{4,}", told)) - {"notices and"}
    for key, sourced in keys:
        top = re.split(r"[.\[]", key)[0]
        for name in ("there",) * (top in carried) + ("here",) * (top not in ("remote_launcher", "workers_per_node")):
            for value in values_of(plans[name], key.split(".")):
                assert not sourced or value is None or set(value) == {"value", "origin"}, (name, key, value)


def test_every_key_of_the_report_is_in_the_manual_and_no_other(machine):
    parts = FORMATS.split(".SH THE REPORT AS JSON")[1].split("\n.SH ")[0].split("A failure has")
    whole, failure = ({key for tags in re.findall(r"^\.TP\n\.B (.*)$", part, re.MULTILINE)
                       for key in re.sub(r"\\f[BR]", "", tags).split(", ")} for part in parts)
    machine.run("--max-restarts", "1", "--report", "end.json", *SHOW, "exit 3")
    report = json.loads((machine.directory / "end.json").read_text())
    assert set(report) == whole and set(report["failure"]) == failure
    told = parts[0].split("restarts followed:")[1].split(".TP")[0]
    assert set(report["restarted_after"][0]) == set(re.findall(r"\\fB(\w+)\\fR", told))


def values_of(value, parts: list[str]) -> list:
    """What the key is in each element of the lists on its way; KeyError where it is missing."""
    if isinstance(value, dict) and set(value) == {"value", "origin"}:
        value = value["value"]
    if value is None:
        return []
    found = value[parts[0].removesuffix("[]")]
    if len(parts) == 1:
        return [found]
    if not parts[0].endswith("[]"):
        return values_of(found, parts[1:])
    elements = found["value"] if isinstance(found, dict) else found
    return [each for element in elements or [] for each in values_of(element, parts[1:])]
