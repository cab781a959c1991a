/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a benchmark, makes each MPI call lose or change one byte or
 * element of long messages, and MPI_Barrier return at once: --validate has to
 * notice.
 */
#include <mpi.h>
#include <stdlib.h>

#define LONG 1000

/* Only the last message of a window is short. */
static int shorten_last(int count)
{
	static int calls;

	return count >= LONG && ++calls % 64 == 0 ? count - 1 : count;
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	int result = PMPI_Recv(buffer, count, type, source, tag, comm, status);

	if (count >= LONG)
		((char *)buffer)[count - 1] ^= 1;
	return result;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	return PMPI_Isend(buffer, shorten_last(count), type, target, tag, comm, request);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	return PMPI_Bcast(buffer, count - 1, type, root, comm);
}

int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	return PMPI_Allreduce(send, receive, count >= LONG ? count - 1 : count, type, op, comm);
}

int MPI_Reduce_scatter_block(const void *send, void *receive, int count, MPI_Datatype type,
			     MPI_Op op, MPI_Comm comm)
{
	int result = PMPI_Reduce_scatter_block(send, receive, count, type, op, comm);

	((float *)receive)[count - 1] += 1;
	return result;
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
		  int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
	int result = PMPI_Allgather(send, send_count, send_type, receive, receive_count,
				    receive_type, comm);

	((char *)receive)[receive_count] ^= 1;
	return result;
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *receive,
		 int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
	int result = PMPI_Alltoall(send, send_count, send_type, receive, receive_count,
				   receive_type, comm);

	((char *)receive)[receive_count] ^= 1;
	return result;
}

int MPI_Put(const void *origin, int count, MPI_Datatype type, int target, MPI_Aint place,
	    int target_count, MPI_Datatype target_type, MPI_Win win)
{
	return PMPI_Put(origin, count - 1, type, target, place, target_count - 1, target_type, win);
}

int MPI_Get(void *origin, int count, MPI_Datatype type, int target, MPI_Aint place,
	    int target_count, MPI_Datatype target_type, MPI_Win win)
{
	return PMPI_Get(origin, count - 1, type, target, place, target_count - 1, target_type, win);
}

int MPI_Barrier(MPI_Comm comm)
{
	return getenv("CORRUPT_BARRIER") ? MPI_SUCCESS : PMPI_Barrier(comm);
}
