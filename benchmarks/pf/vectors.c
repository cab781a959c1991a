/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of pf_putv and pf_getv of many short pieces, compared with process_vm_writev and
 * process_vm_readv of as many between the same two processes, in turns.
 */
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "cost.h"
#include "pattern.h"
#include "sample.h"

#define PIECES PF_VECTOR_MOST
#define PIECE sizeof(uint64_t)
/* Distance of the pieces, bytes: a column of a matrix with rows of 32 numbers. */
#define STRIDE 256
#define LENGTH ((size_t)PIECES * STRIDE)
/* Longer than the default residency: the mean of a batch includes the checks that are due. */
#define BATCH_SECONDS 0.012
#define BURST 16
#define BATCHES 41
#define WARM_UP 2

enum kind { PUTV, WRITEV, GETV, READV, KINDS };

struct vectors {
	struct session session;
	pf_piece pieces[PIECES];
	struct iovec here[PIECES], there[PIECES];
	double *samples[KINDS];    /* mean time of an operation, by batch, s */
	double ratios[2][BATCHES]; /* of a put and of a get to the system call after it */
};

_Static_assert(PIECES <= IOV_MAX, "process_vm_writev takes all pieces");

static int vectors_post(struct vectors *vectors, enum kind kind)
{
	struct session *session = &vectors->session;
	int status;

	session->completed = 0;
	if (kind == PUTV)
		status = pf_putv(session->peer, vectors->pieces, PIECES, 0, session_complete,
				 session);
	else
		status = pf_getv(session->peer, vectors->pieces, PIECES, session_complete, session);
	if (session_posted(session, kind == PUTV ? "pf_putv" : "pf_getv", status))
		return -1;
	return session_wait(session, &session->completed, 1);
}

static int vectors_copy(struct vectors *vectors, enum kind kind)
{
	ssize_t (*copy)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
			unsigned long, unsigned long) = kind == WRITEV ? process_vm_writev :
									 process_vm_readv;

	if (copy(vectors->session.child, vectors->here, PIECES, vectors->there, PIECES, 0) ==
	    (ssize_t)(PIECES * PIECE))
		return 0;
	warn(kind == WRITEV ? "process_vm_writev" : "process_vm_readv");
	return -1;
}

/*
 * Return the mean time of an operation, s, or less than 0 after an error. Processor time: the
 * operations are system calls that do not wait, and other processes of the machine do not count.
 */
static double vectors_batch(struct vectors *vectors, enum kind kind)
{
	double start = sample_processor_seconds(), elapsed;
	unsigned operations = 0, i;

	do {
		for (i = 0; i < BURST; i++) {
			if (kind == PUTV || kind == GETV ? vectors_post(vectors, kind) :
							   vectors_copy(vectors, kind))
				return -1;
		}
		operations += BURST;
		elapsed = sample_processor_seconds() - start;
	} while (elapsed < BATCH_SECONDS);
	return elapsed / operations;
}

static int vectors_measure(struct vectors *vectors)
{
	double mean;
	int kind, i;

	for (i = -WARM_UP; i < BATCHES; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			mean = vectors_batch(vectors, (enum kind)kind);
			if (mean < 0)
				return -1;
			if (i >= 0)
				vectors->samples[kind][i] = mean;
		}
		if (i < 0)
			continue;
		vectors->ratios[0][i] = vectors->samples[PUTV][i] / vectors->samples[WRITEV][i];
		vectors->ratios[1][i] = vectors->samples[GETV][i] / vectors->samples[READV][i];
	}
	return 0;
}

static void vectors_print(struct vectors *vectors)
{
	double times[KINDS]; /* of a piece, ns */
	int kind;

	for (kind = 0; kind < KINDS; kind++)
		times[kind] = 1e9 * sample_summary(vectors->samples[kind], BATCHES).median / PIECES;
	printf("# %d pieces of %zu bytes, %d bytes apart: ns a piece, and the ratios\n", PIECES,
	       PIECE, STRIDE);
	printf("pf_putv %.1f\nprocess_vm_writev %.1f\nput %.3f\n", times[PUTV], times[WRITEV],
	       sample_summary(vectors->ratios[0], BATCHES).median);
	printf("pf_getv %.1f\nprocess_vm_readv %.1f\nget %.3f\n", times[GETV], times[READV],
	       sample_summary(vectors->ratios[1], BATCHES).median);
}

/* All ways move equal bytes to equal places: a piece out of place does not match. */
static int vectors_run(struct vectors *vectors, uint64_t remote, uint8_t *local)
{
	size_t i;

	pattern_fill(local, LENGTH, COST_SEED);
	for (i = 0; i < PIECES; i++) {
		size_t offset = i * STRIDE;

		vectors->pieces[i] = (pf_piece){ local + offset, remote + offset, PIECE };
		vectors->here[i] = (struct iovec){ local + offset, PIECE };
		vectors->there[i] = (struct iovec){ (void *)(uintptr_t)(remote + offset), PIECE };
	}
	cost_prepare_gets(&vectors->session);
	if (vectors_measure(vectors))
		return -1;
	if (!pattern_matches(local, LENGTH, COST_SEED)) {
		warnx("wrong contents after a transfer of %d pieces", PIECES);
		return -1;
	}
	vectors_print(vectors);
	return 0;
}

int main(int argc, char **argv)
{
	static struct vectors vectors;
	uint8_t *local = session_buffer(LENGTH);
	struct cores cores;
	pf_options options;
	struct cost cost = { .cores = &cores, .options = &options };
	uint64_t remote;
	int status;

	if (argc > 1) {
		printf("Usage: %s\n\nCompare pf_putv and pf_getv of %d pieces of %zu bytes with\n"
		       "process_vm_writev and process_vm_readv. LIBPF_* environment variables set\n"
		       "libpf's options.\n",
		       argv[0], PIECES, PIECE);
		return strcmp(argv[1], "--help") && strcmp(argv[1], "-h") ? 2 : 0;
	}
	if (cost_load_options(&options))
		return 2;
	if (!local || cores_choose(&cores) || cost_samples(vectors.samples, KINDS, BATCHES) ||
	    cost_open(&vectors.session, &cost, &options, LENGTH, &remote))
		return 1;
	status = vectors_run(&vectors, remote, local);
	if (cost_close(&vectors.session))
		status = -1;
	free(vectors.samples[0]);
	munmap(local, LENGTH);
	return status ? 1 : 0;
}
