// The program: run, report the one exception of set-up, return the code.
#include "ddprun/run.hpp"

int main(int argc, char** argv) { return ddprun::app::run_program(argc, argv); }
