/* Prints "rank R of N" of MPI_COMM_WORLD, and waits for all. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank = -1;
  int size = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("MPI rank %d of %d\n", rank, size);
  MPI_Finalize();
  return 0;
}
