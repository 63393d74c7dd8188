# For Homebrew on Linux: Formula/ddprun.rb of a tap.
class Ddprun < Formula
  desc "Starts PyTorch jobs on one machine or a whole allocation"
  homepage "https://github.com/OWNER/ddprun"
  url "https://github.com/OWNER/ddprun/releases/download/v0.2.0/ddprun-0.2.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "BSD-3-Clause"
  head "https://github.com/OWNER/ddprun.git", branch: "main"

  depends_on "boost" => :build
  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "fmt"
  depends_on "hwloc"
  depends_on "libsodium"
  depends_on :linux
  depends_on "spdlog"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DDDPRUN_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match "ddprun #{version}", shell_output("#{bin}/ddprun --version")
    command = "#{bin}/ddprun --nproc-per-node 2 --ranks 0 --no-python -- sh -c 'echo $WORLD_SIZE'"
    assert_equal "2\n", shell_output(command)
  end
end
