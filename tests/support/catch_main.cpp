#define CATCH_CONFIG_MAIN
#include "catch.hpp"
#if CATCH2_MAJOR >= 3
int main(int argc, char* argv[]) { return Catch::Session().run(argc, argv); }
#endif
