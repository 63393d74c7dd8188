#include "options/container.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::options;

namespace {

using ContainerWords = std::vector<std::string>;

std::string container_error(const std::string& text) {
  try {
    parse_container(text, "--container");
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return {};
}

}  // namespace

TEST_CASE("--container is split as a shell does, and nothing in it is expanded") {
  CHECK(parse_container(" apptainer exec --nv  image.sif ", "--container").words ==
        ContainerWords{"apptainer", "exec", "--nv", "image.sif"});
  CHECK(parse_container(R"(ch-run '/my images/x' "a \"b\"" c\ d '' $HOME)", "--container").words ==
        ContainerWords{"ch-run", "/my images/x", "a \"b\"", "c d", "", "$HOME"});
  CHECK(container_error(" ") == "--container is empty | as in --container 'apptainer exec --nv image.sif'");
  CHECK(container_error("a 'b") ==
        "--container has an open quote: a 'b | as in --container 'apptainer exec --nv image.sif'");
}

TEST_CASE("how variables enter follows from the program's name, wherever it is") {
  const auto parsed = [](const char* text) { return parse_container(text, "--container"); };
  CHECK(parsed("/opt/bin/apptainer exec x").prefix == "APPTAINERENV_");
  CHECK(parsed("singularity exec x").prefix == "SINGULARITYENV_");
  CHECK(parsed("podman-hpc run x").kind == ContainerKind::by_option);
  CHECK(parsed("shifter --image=x").kind == ContainerKind::passes_all);
  CHECK(container_error("docker image") ==
        "--container names neither run nor exec of docker | as in --container "
        "'docker run --network=host IMAGE'");
}

TEST_CASE("a wrapped command names its variables behind the subcommand, where the program needs that") {
  const Container podman = parse_container("podman --log-level=error run --rm x", "--container");
  const auto wrapped = wrap_in_container(podman, {"python3", "run"});
  CHECK(wrapped == ContainerWords{"podman", "--log-level=error", "run", "--rm", "x", "python3", "run"});
  CHECK(name_variables(podman, wrapped, {"RANK", "WORLD_SIZE"}) ==
        ContainerWords{"podman", "--log-level=error", "run", "-e", "RANK", "-e", "WORLD_SIZE", "--rm", "x",
                       "python3", "run"});
  const Container apptainer = parse_container("apptainer exec x", "--container");
  CHECK(name_variables(apptainer, {"apptainer", "exec", "x", "a"}, {"RANK"}) ==
        ContainerWords{"apptainer", "exec", "x", "a"});
  CHECK(wrap_in_container({}, {"a"}) == ContainerWords{"a"});
}

TEST_CASE("what the user tunes for torch enters too, and paths do not") {
  for (const char* name : {"NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "OMP_PLACES", "ZE_AFFINITY_MASK"})
    CHECK(enters_container(name));
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH", "SLURM_JOB_ID", "PYTHONPATH"})
    CHECK_FALSE(enters_container(name));
}
