/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of data that libpf cannot move. Two ranks.
 *
 *   lost get|put|fetch|swap  one-sided, in memory that its owner has unmapped: the job has to end. The program
 *                            prints "returned" if the operation does.
 *   lost message             from shared memory of a userfaultfd in user mode only: ob1 has to send it. Prints
 *                            "right" or "wrong", or "skipped" where there is no such userfaultfd
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define LENGTH ((size_t)1 << 20)

static long page;

static void run_operation(const char *operation, int rank)
{
	char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	long one = 1, other = 2, old = 0;
	char *here = calloc(1, LENGTH);
	MPI_Win win;

	MPI_Win_create(memory, (MPI_Aint)LENGTH, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	MPI_Win_lock_all(0, win);
	/* The first operation also reads about the window. */
	if (rank == 0) {
		MPI_Get(here, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
		MPI_Win_flush(1, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	munmap(memory, LENGTH);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		if (!strcmp(operation, "get"))
			MPI_Get(here, LENGTH, MPI_BYTE, 1, 0, LENGTH, MPI_BYTE, win);
		else if (!strcmp(operation, "put"))
			MPI_Put(here, LENGTH, MPI_BYTE, 1, 0, LENGTH, MPI_BYTE, win);
		else if (!strcmp(operation, "fetch"))
			MPI_Fetch_and_op(&one, &old, MPI_LONG, 1, 0, MPI_SUM, win);
		else
			MPI_Compare_and_swap(&one, &other, &old, MPI_LONG, 1, 0, win);
		MPI_Win_flush(1, win);
		printf("returned\n");
		fflush(stdout);
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	free(here);
}

static void *serve_faults(void *arg)
{
	char *contents = malloc((size_t)page);
	struct uffd_msg message;
	int fd = *(int *)arg;

	if (!contents)
		abort();
	memset(contents, 0x5a, (size_t)page);
	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = { .dst = message.arg.pagefault.address &
						   ~((uint64_t)page - 1),
					    .src = (uint64_t)(uintptr_t)contents,
					    .len = (uint64_t)page };

		ioctl(fd, UFFDIO_COPY, &copy);
	}
	free(contents);
	return NULL;
}

/* NULL: there is no such userfaultfd. */
static char *map_paged(void)
{
	static int fd;
	char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			    0);
	struct uffdio_register range = { .range = { (uint64_t)(uintptr_t)memory, LENGTH },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	pthread_t thread;

	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range) ||
	    pthread_create(&thread, NULL, serve_faults, &fd))
		return NULL;
	return memory;
}

static void send_paged(int rank)
{
	static char received[LENGTH];
	char *memory = rank == 0 ? map_paged() : received;
	int paged = memory != NULL;
	size_t i;

	MPI_Bcast(&paged, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (!paged || !memory) {
		if (rank == 0)
			printf("skipped\n");
		return;
	}
	if (rank == 0) {
		MPI_Send(memory, LENGTH, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		return;
	}
	MPI_Recv(memory, LENGTH, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (i = 0; i < LENGTH && memory[i] == 0x5a; i++)
		;
	printf("%s\n", i == LENGTH ? "right" : "wrong");
}

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	page = sysconf(_SC_PAGESIZE);
	if (!strcmp(argv[1], "message"))
		send_paged(rank);
	else
		run_operation(argv[1], rank);
	MPI_Finalize();
	return 0;
}
