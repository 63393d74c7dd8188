#include "facts/secrets.hpp"

#include "catch.hpp"
#include "facts/snapshot.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("only variables of planning and of the site are captured") {
  for (const char* name : {"SLURM_JOB_ID",
                           "PBS_NODEFILE",
                           "PMI_RANK",
                           "OMPI_MCA_btl",
                           "PALS_RANKID",
                           "MPI_LOCALRANKID",
                           "HYDI_CONTROL_FD",
                           "I_MPI_PIN",
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "CUDA_VISIBLE_DEVICES",
                           "ROCR_VISIBLE_DEVICES",
                           "ZE_AFFINITY_MASK",
                           "NCCL_DEBUG",
                           "OMP_NUM_THREADS",
                           "TORCH_DISTRIBUTED_DEBUG",
                           "TORCHELASTIC_RUN_ID",
                           "PYTHON_EXEC",
                           "PATH",
                           "HOME",
                           "FI_PROVIDER",
                           "CRAY_ROOTFS",
                           "PET_NNODES",
                           "MASTER_ADDR",
                           "LSB_JOBID",
                           "FLUX_URI",
                           "XDG_CONFIG_HOME"}) {
    CAPTURE(name);
    CHECK(is_captured_variable(name));
  }
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "http_proxy", "WANDB_API_KEY",
                           "SSH_AUTH_SOCK", "RANKS", "DATABASE_URL", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_captured_variable(name));
  }
}

TEST_CASE("names that carry secrets are known") {
  for (const char* name : {"PMI_SHARED_SECRET",
                           "PBS_JOBCOOKIE",
                           "OMPI_MCA_orte_precondition_transports",
                           "SLURM_JWT",
                           "NCCL_KEY",
                           "ompi_token",
                           "FLUX_PASSWORD",
                           "CRAY_CREDENTIALS",
                           "SLURM_DB_PASSWD",
                           "CRAY_DB_PASS",
                           "PASS",
                           "FLUX_HTTP_AUTH",
                           "DDPRUN_GH_PAT",
                           "CRAY_PASSPHRASE",
                           "MPI_BEARER",
                           "SLURM_JOB_COMMENT",
                           "DB_PWD",
                           "SLURM_DBPASS",
                           "CRAY_MYSQLPWD",
                           "FLUX_PW"}) {
    CAPTURE(name);
    CHECK(is_secret_variable(name));
  }
  for (const char* name : {"SLURM_JOB_ID", "PWD", "OLDPWD", "PATH", "NCCL_ALGO", "OMP_PLACES", "FI_PROVIDER",
                           "SLURM_JOB_PARTITION", "PBS_O_PATH", "CUDA_VISIBLE_DEVICES", "NCCL_BYPASS"}) {
    CAPTURE(name);
    CHECK_FALSE(is_secret_variable(name));
  }
}

TEST_CASE("values given to secret names are removed from text") {
  CHECK(mask_text("--token=abc") == "--token=<secret-removed>");
  CHECK(mask_text("--wandb_api_key=abc") == "--wandb_api_key=<secret-removed>");
  CHECK(mask_text("ALL,HF_TOKEN=abc,A=1") == "ALL,HF_TOKEN=<secret-removed>,A=1");
  CHECK(mask_text("export MY_SECRET_1='a b'; run") == "export MY_SECRET_1=<secret-removed>; run");
  CHECK(mask_text("password=\"open") == "password=<secret-removed>");
  CHECK(mask_text("a=b=c key=") == "a=b=c key=<secret-removed>");
  CHECK(mask_text("redis://me:pw@host:6379/0") == "redis://me:<secret-removed>@host:6379/0");
  CHECK(mask_text("https://h/a@b http://u:p@h") == "https://h/a@b http://u:<secret-removed>@h");
  CHECK(mask_text("https://abcdefghijklmnopqrstuvwxyz@h/r") == "https://<secret-removed>@h/r");
  CHECK(mask_text("ssh://git@host/r") == "ssh://git@host/r");
  CHECK(mask_text("curl -u me:abc https://h") == "curl -u me:<secret-removed> https://h");
  CHECK(mask_text("machine h login me password abc machine i") ==
        "machine h login me password <secret-removed> machine i");
}

TEST_CASE("secrets in fields, headers and queries are removed from text") {
  CHECK(mask_text(R"({"api_key": "abc", "n": 1})") == R"({"api_key": <secret-removed>, "n": 1})");
  CHECK(mask_text(R"({"password":"a b"})") == R"({"password":<secret-removed>})");
  CHECK(mask_text(R"({\"client_secret\": \"abc\"})").find("abc") == std::string::npos);
  CHECK(mask_text("Authorization: token abc def") == "Authorization: <secret-removed>");
  CHECK(mask_text("X-Api-Key: abc") == "X-Api-Key: <secret-removed>");
  CHECK(mask_text("Authorization:abc def") == "Authorization:<secret-removed>");
  CHECK(mask_text("x-api-key:abc") == "x-api-key:<secret-removed>");
  CHECK(mask_text("https://s/c/o?sv=1&sig=a%2Bb&e=2") == "https://s/c/o?sv=1&sig=<secret-removed>&e=2");
  CHECK(mask_text("https://s/o?X-Amz-Signature=ab12") == "https://s/o?X-Amz-Signature=<secret-removed>");
  CHECK(mask_text("Bearer abc.def next") == "Bearer <secret-removed> next");
}

TEST_CASE("what looks like a secret is removed wherever it stands") {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
  for (const std::string& token :
       {"hf_" + letters, "ghp_" + letters, "gho_" + letters, "ghs_" + letters, "github_pat_" + letters,
        "sk-" + letters, "xoxb-" + letters, "glpat-" + letters, "npm_" + letters, "AIza" + letters,
        std::string("AKIAIOSFODNN7EXAMPLE"), std::string("ASIAIOSFODNN7EXAMPLE"),
        "eyJhbGciOiJIUzI1NiJ9." + letters + ".x-_9", std::string("eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.")}) {
    CAPTURE(token);
    CHECK(mask_text("run " + token + ", then") == "run <secret-removed>, then");
    CHECK(mask_text("https://" + token + "@host/x") == "https://<secret-removed>@host/x");
    CHECK(mask_text(token) == "<secret-removed>");
  }
  CHECK(mask_text("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n") ==
        "-----BEGIN RSA PRIVATE KEY-----<secret-removed>-----END RSA PRIVATE KEY-----\n");
  CHECK(mask_text("-----BEGIN PRIVATE KEY-----\nMIIE") == "-----BEGIN PRIVATE KEY-----<secret-removed>");
}

TEST_CASE("what only resembles a secret stays") {
  for (const char* text : {"sk-learn",
                           "hf_hub",
                           "a bearer of news",
                           "eyJ",
                           "slurmstepd: [29.0]",
                           "n1:29500",
                           "key:1:2",
                           "tokenizer: gpt2",
                           "--design=x",
                           "AKIA",
                           "half_ghp_abc",
                           "http://[::1]:80/",
                           "-----BEGIN CERTIFICATE-----",
                           "--tokenizer=gpt2",
                           "--max-tokens=512",
                           "--key-file=/home/u/k",
                           "--lr=0.1",
                           "--secret-file=/home/u/s",
                           "--token-dropout=0.1",
                           "--eos-token-id=2",
                           "--kernel-bypass=1",
                           "http://host:80/",
                           "git@host:a/b",
                           "=",
                           "x=",
                           ""}) {
    CAPTURE(text);
    CHECK(mask_text(text) == text);
  }
}

TEST_CASE("the word after an option for a secret is removed") {
  CHECK(mask_words({"train.py", "--password", "x", "--lr", "1"}) ==
        std::vector<std::string>{"train.py", "--password", "<secret-removed>", "--lr", "1"});
  CHECK(mask_words({"--token=a", "b"}) == std::vector<std::string>{"--token=<secret-removed>", "b"});
  for (const char* option : {"--auth", "--pat", "--db-pass", "--passphrase", "--bearer", "--secret-access",
                             "--token_file_content", "--mysqlpass", "--db_pw", "--password-text"}) {
    CAPTURE(option);
    CHECK(mask_words({option, "x"}) == std::vector<std::string>{option, "<secret-removed>"});
  }
  CHECK(mask_words({"-p", "x"}, "-p") == std::vector<std::string>{"-p", "<secret-removed>"});
  CHECK(mask_words({"-p", "gpu"}) == std::vector<std::string>{"-p", "gpu"});
  CHECK(mask_words({"-genv", "HF_TOKEN", "x", "-genv", "OMP_PLACES", "cores"}) ==
        std::vector<std::string>{"-genv", "HF_TOKEN", "<secret-removed>", "-genv", "OMP_PLACES", "cores"});
  CHECK(mask_words({"--user", "me:x", "-u", "prog"}) ==
        std::vector<std::string>{"--user", "<secret-removed>", "-u", "prog"});
  CHECK(mask_words({"--header", "Authorization:x", "-H", "X-Api-Key:", "x", "y"}) ==
        std::vector<std::string>{"--header", "Authorization:<secret-removed>", "-H",
                                 "X-Api-Key:", "<secret-removed>", "y"});
  CHECK(mask_words({"-H", "Authorization:", "Basic", "x", "y"}) ==
        std::vector<std::string>{"-H", "Authorization:", "<secret-removed>", "<secret-removed>", "y"});
  CHECK(mask_words({"monkey", "b", "--key"}) == std::vector<std::string>{"monkey", "b", "--key"});
}

TEST_CASE("only launchers keep their arguments in a title") {
  CHECK(mask_title("slurmstepd: [29.0]") == "slurmstepd: [29.0]");
  CHECK(mask_title("/usr/bin/hydra_pmi_proxy --control-port n1:1 --auth-token x") ==
        "/usr/bin/hydra_pmi_proxy --control-port n1:1 --auth-token <secret-removed>");
  CHECK(mask_title("bash -c login hunter2") == "bash");
  CHECK(mask_title("/opt/bin/hydra_bstrap_proxy --upstream-host n1 --upstream-port 33291") ==
        "/opt/bin/hydra_bstrap_proxy --upstream-host n1 --upstream-port 33291");
  CHECK(mask_title("") == "");
}

TEST_CASE("a snapshot without secrets keeps what a plan needs") {
  Snapshot snapshot;
  snapshot.arguments = {"--token", "t0ps3cret"};
  snapshot.environment = {{"SLURM_JOB_ID", "29"},
                          {"PBS_JOBCOOKIE", "t0ps3cret"},
                          {"HF_TOKEN", "t0ps3cret"},
                          {"SLURM_EXPORT_ENV", "HF_TOKEN=t0ps3cret"}};
  snapshot.host.name = "n1";
  snapshot.host.ancestors = {{7, "bash -c t0ps3cret"}, {6, "slurmstepd: [29.0]"}};
  const Snapshot clean = without_secrets(snapshot);
  CHECK(render_snapshot(clean).find("t0ps3cret") == std::string::npos);
  CHECK(clean.environment == Environment{{"SLURM_JOB_ID", "29"},
                                         {"PBS_JOBCOOKIE", "<secret-removed>"},
                                         {"SLURM_EXPORT_ENV", "HF_TOKEN=<secret-removed>"}});
  CHECK(clean.host.name == "n1");
  CHECK(clean.removed_secrets == std::vector<std::string>{"arguments", "PBS_JOBCOOKIE", "SLURM_EXPORT_ENV"});
  const std::string json = render_snapshot(clean);
  CHECK(json.find("removed_secrets") < json.find("environment"));
  CHECK(parse_snapshot(json, "x") == clean);
  CHECK(clean.host.ancestors[1].title == "slurmstepd: [29.0]");
}
