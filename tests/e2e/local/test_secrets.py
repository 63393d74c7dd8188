"""--capture beside planted secrets: none may come through, and what a maintainer needs must."""

from __future__ import annotations

import json
import subprocess

TOKEN = "abcdefghijklmnopqrstuvwxyz0123456789ABCD"
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----"

# Variables whose names say it. All begin as those that --capture takes do.
NAMES = """PMI_SHARED_SECRET PBS_JOBCOOKIE OMPI_MCA_orte_precondition_transports SLURM_JWT SLURM_DB_PASSWD CRAY_DB_PASS
    FLUX_HTTP_AUTH DDPRUN_GH_PAT CRAY_PASSPHRASE MPI_BEARER SLURM_JOB_COMMENT SBATCH_COMMENT SLURM_ADMIN_COMMENT NCCL_API_KEY
    PET_TOKEN LSB_PASSWORD TORCH_HUB_CREDENTIALS PBS_O_MYSQL_PWD PMIX_SECURITY_CREDENTIAL DDPRUN_FRONT_END_KEY FLUX_ACCESS_KEY_ID
    SLURM_REST_AUTHORIZATION UCX_PSK MPICH_PASSCODE CRAY_SESSION_COOKIE I_MPI_LICENSE_KEY SLURM_SAS_SIGNATURE
    TORCH_SENTRY_DSN OMPI_apikey PBS_MY_CREDS SLURM_DBPASS FLUX_PW""".split()
# Values under names that say nothing; {} is the secret.
VALUES = ["Bearer {}", "authorization: Basic {}", "hf_{}", "AKIA{}", "ASIA{}", "ghp_{}", "gho_{}", "ghs_{}", "github_pat_{}", "sk-{}",
          "sk-proj-{}", "xoxb-{}", "glpat-{}", "npm_{}", "AIza{}", "pypi-AgEIcHlwaS5vcmc{}", "ya29.{}", "dop_v1_{}",
          "sk_live_{}", "SG.{}", "eyJhbGciOiJIUzI1NiJ9.{}.sig", '{{"api_key": "{}", "n": 1}}', '{{"aws": {{"secret": "{}"}}}}',
          "https://user:{}@host/path", "redis://:{}@host:6379/0", "https://{}@github.com/a/b.git", "https://s/o?sig={}&x=1",
          "https://s/o?X-Amz-Signature={}", "https://s/o#access_token={}", "ALL,HF_TOKEN={},A=1",
          "DefaultEndpointsProtocol=https;AccountKey={};", "machine h login u password {}", "password: {}", PEM,
          "export MY_SECRET='a {}'", "user=u password={} host=h", "curl -u me:{} https://h"]
# Arguments of the training, one secret each.
ARGUMENTS = [["--auth", "{}"], ["--pat", "{}"], ["-p", "{}"], ["--password", "{}"], ["--hf-token={}"], ["--hf_token", "{}"],
             ["--wandb-api-key", "{}"], ["--apikey", "{}"], ["--client-secret={}"], ["--header", "X-Api-Key: {}"],
             ["-H", "Authorization: Bearer {}"], ["--config", '{{"hf_token": "{}"}}'], ["wandb.api_key={}"],
             ["+trainer.token='{}'"], ["--env", "HF_TOKEN={}"], ["--db", "postgresql://u:{}@h/d"], ["--passphrase", "{}"],
             ["--data", "https://u.blob.core.windows.net/c?sv=1&sig={}"], ["--token", "{}"], ["--user", "me:{}"],
             ["--secret-access", "{}"], ["--token_file_content", "{}"], ["--header", "Authorization:{}"], ["--mysqlpass", "{}"]]
# Of a launcher above ddprun.
TITLES = [["-genv", "HF_TOKEN", "{}"], ["-x", "API_KEY={}"], ["--comment={}"], ["--comment", "{}"], ["--auth-token", "{}"]]

KEPT = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "29", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_PARTITION": "gpu",
        "SLURM_SUBMIT_DIR": "/home/u/keys/run", "SLURM_CPU_BIND": "quiet,mask_cpu:0x00000000000F", "SLURM_JOB_UID": "1000",
        "NCCL_SOCKET_IFNAME": "=eth0", "NCCL_NET_PLUGIN": "none", "OMP_PLACES": "cores", "PBS_NODEFILE": "/var/spool/pbs/aux/7.s",
        "SLURM_SRUN_COMM_HOST": "10.1.2.3", "SLURM_TRES_PER_TASK": "cpu:4,gres/gpu:1", "TORCH_LOGS": "+dynamo",
        "MASTER_ADDR": "n1", "OMPI_MCA_btl": "self,tcp", "PMI_PORT": "n1:33291", "FI_PROVIDER": "cxi",
        "CUDA_VISIBLE_DEVICES": "GPU-8a6b1f0e-6f0c-4f7e-9d0e-0123456789ab", "SLURM_CONF": "/etc/slurm/slurm.conf",
        "PBS_O_WORKDIR": "/home/user/a-project-with-a-rather-long-name_20260101", "PMIX_SERVER_URI2": "prterun-n1-42@0.0;tcp4://10.0.0.1:4455"}
KEPT_ARGUMENTS = ["--tokenizer", "gpt2", "--max-tokens=512", "--key-file=/home/u/k", "--lr=0.1", "--patience", "3",
                  "--author", "me", "data=s3://bucket/key/path", "--signal-to-noise=2", "--num-keys", "7"]


def test_of_planted_secrets_none_is_captured_and_what_planning_needs_is(binary, tmp_path):
    planted: dict[str, str] = {}

    def plant(what: str) -> str:
        secret = f"{len(planted):03}{TOKEN[len(planted) % 20:]}"
        planted[secret] = what
        return secret

    environment = KEPT | {name: plant(name) for name in NAMES}
    for number, value in enumerate(VALUES):
        environment[f"SLURM_x{number}"] = value.format(plant(value))
    arguments = [word.format(plant(" ".join(words))) if "{}" in word else word for words in ARGUMENTS for word in words]
    title = [word.format(plant(" ".join(words))) if "{}" in word else word for words in TITLES for word in words]
    program = [str(binary), "--capture", "snapshot.json", "--no-python", "true", *arguments, *KEPT_ARGUMENTS]
    # The launcher's title has what follows the words that its shell takes.
    launcher = ["bash", "-c", 'exec -a mpiexec bash run "$@"', "-"]
    (tmp_path / "run").write_text('while [ "$1" != -- ]; do shift; done; shift; "$@"; exit\n')
    done = subprocess.run([*launcher, *title, "--", *program], env=environment, cwd=tmp_path, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "snapshot.json").read_text()
    assert len(planted) >= 72
    leaked = [what for secret, what in planted.items() if secret in text]
    assert not leaked, "\n".join([f"{len(leaked)} of {len(planted)}:", *leaked])

    captured = json.loads(text)
    assert {name: captured["environment"].get(name) for name in KEPT} == KEPT
    said = captured["arguments"]
    assert said[said.index(KEPT_ARGUMENTS[0]):] == KEPT_ARGUMENTS
    assert any(ancestor["title"].startswith("mpiexec ") for ancestor in captured["host"]["ancestors"]), captured["host"]
    assert set(captured["removed_secrets"]) >= {"arguments", *NAMES}
