/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One shape of communication for each name, as programs have it that benchmarks do not resemble.
 * benchmarks/promises runs them, and compares the figures with bounds.
 */
#include "promise.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sample.h"

#define HUGE_PAGE ((size_t)2 << 20)
/* The first of two requests that Linux 6.7 and 6.11 added to files of /proc (linux/fs.h). */
#define PROC_REQUEST_TYPE 'f'
#define PROC_REQUEST_PAGEMAP_SCAN 16
#define PROC_REQUEST_PROCMAP_QUERY 17

struct shape {
	const char *name;
	promise_shape run;
	int ranks;     /* at least so many */
	int arguments; /* number of them */
	const char *about;
};

static const struct shape shapes[] = {
	{ "idle", shape_idle, 2, 1, "SECONDS: processor time of ranks in MPI_Recv, %" },
	{ "wake", shape_wake, 2, 2, "COUNT MS: lateness of messages after MS of silence, ms" },
	{ "look", shape_look, 2, 1, "MS: the longest MPI_Iprobe and MPI_Test, ms" },
	{ "late", shape_late, 2, 2,
	  "COUNT MS: lateness of a lock, MPI_Win_start, a generalized request, ms" },
	{ "init", shape_init, 1, 0,
	  ": the longest MPI_Init, ms, and then the memory of a rank, KiB" },
	{ "beside", shape_beside, 3, 3,
	  "LONG SHORT COUNT: a message of SHORT bytes beside one of LONG, ms" },
	{ "exchange", shape_exchange, 2, 3,
	  "MIB BYTES MS: both ranks send and receive BYTES out of MIB, in the first MS and in MS\n"
	  "              after 2 s, us for each" },
	{ "strided", shape_strided, 2, 1, "COUNT: MPI_Put of COUNT separate numbers, ms" },
	{ "scattered", shape_scattered, 2, 1,
	  "COUNT: MPI_Put of 8 bytes, each at a random place, us" },
	{ "round", shape_round, 2, 2,
	  "COUNT BYTES: all-to-all, the longest and the mean of COUNT rounds, ms" },
	{ "farm", shape_farm, 2, 2, "COUNT BYTES: COUNT tasks that rank 0 hands out, us for each" },
	{ "updates", shape_updates, 2, 1,
	  "COUNT: updates of a common table by each rank, us for each" },
	{ "stranded", shape_stranded, 2, 3,
	  "COUNT BYTES MS: lateness of messages of a rank that works for MS, ms" },
	{ "fresh", shape_fresh, 2, 3,
	  "BYTES MAPPINGS COUNT: receive into pages that were given back, ms" },
	{ "peer", shape_peer, 2, 0, ": KiB, descriptors and mappings for each peer" },
	{ "rings", shape_rings, 2, 2,
	  "COUNT BYTES: shared memory after COUNT messages from each rank to each other, MiB" },
	{ "receives", shape_receives, 2, 1,
	  "COUNT: MiB and mappings more after COUNT receives of 4 MiB" },
	{ "puts", shape_puts, 2, 1, "COUNT: outstanding MPI_Put of 8 bytes, ms and MiB" },
	{ "unexpected", shape_unexpected, 2, 2, "COUNT BYTES: of messages not received, MiB" },
	{ "waiting", shape_waiting, 2, 2,
	  "COUNT BYTES: of messages to a rank that does not call MPI, at the sender, MiB" },
};

void promise_print(const char *name, double value)
{
	printf("%s %.6g\n", name, value);
	fflush(stdout);
}

void promise_fail(const char *why)
{
	fprintf(stderr, "promise: %s\n", why);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1); /* not reached */
}

double promise_largest(double value)
{
	double largest;

	MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return largest;
}

char *promise_map(size_t length)
{
	char *start = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		promise_fail("no memory");
	return start + (-(uintptr_t)start & (HUGE_PAGE - 1));
}

void promise_work(double seconds)
{
	double end = sample_seconds() + seconds;

	while (sample_seconds() < end)
		;
}

/*
 * Make the requests of files of /proc that Linux 6.7 and 6.11 added fail with ENOTTY, as they do on
 * older kernels, in this process.
 */
static int older_kernel(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 5),
		/* The lower half of a request: type and number. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[1]) +
				 (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 PROC_REQUEST_TYPE << 8 | PROC_REQUEST_PAGEMAP_SCAN, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 PROC_REQUEST_TYPE << 8 | PROC_REQUEST_PROCMAP_QUERY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(*filter),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void usage(void)
{
	size_t i;

	printf("Usage: mpirun -n N [...] promise [--older-kernel] SHAPE [ARGUMENT...]\n"
	       "Prints figures of one shape of communication: NAME VALUE.\n"
	       "--older-kernel: without the requests that Linux 6.7 and 6.11 added to /proc\n\n");
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		printf("  %s %s\n", shapes[i].name, shapes[i].about);
}

static const struct shape *shape_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	return NULL;
}

static int arguments_parse(struct promise *promise, const struct shape *shape, int argc,
			   char **argv)
{
	int i;

	if (argc != shape->arguments)
		return -1;
	for (i = 0; i < argc; i++) {
		char *end;

		errno = 0;
		promise->arguments[i] = strtol(argv[i], &end, 10);
		if (errno || end == argv[i] || *end || promise->arguments[i] < 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct promise promise = { .start = sample_seconds() };
	const struct shape *shape = NULL;
	bool older = argc > 1 && !strcmp(argv[1], "--older-kernel");
	int granted, status = 0;

	if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		usage();
		return 0;
	}
	argc -= 1 + older;
	argv += 1 + older;
	if (argc > 0)
		shape = shape_find(argv[0]);
	if (!shape || arguments_parse(&promise, shape, argc - 1, argv + 1)) {
		fprintf(stderr, "promise: give a shape and its arguments: see --help\n");
		return 1;
	}
	if (older && older_kernel()) {
		fprintf(stderr, "promise: seccomp: %s\n", strerror(errno));
		return 1;
	}
	/* The thread of a generalized request completes it. */
	if (shape->run == shape_late)
		MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
	else
		MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &promise.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &promise.ranks);
	if (promise.ranks < shape->ranks) {
		if (promise.rank == 0)
			fprintf(stderr, "promise: %s needs %d ranks\n", shape->name, shape->ranks);
		status = 1;
	} else {
		shape->run(&promise);
	}
	MPI_Finalize();
	return status;
}
