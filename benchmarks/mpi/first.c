/* SPDX-License-Identifier: BSD-3-Clause */
#include "first.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "sample.h"

/* How long ranks wait for each other, s. */
#define PATIENCE 20
/* Time from the announcement of the start to the start, s: all ranks have read it by then. */
#define LEAD 0.002

const int first_counts[FIRST_COUNTS] = { 1, 10, 100, 1000 };

/* An abstract address, which leaves no file behind: the name of the job, and the rank. */
static socklen_t address_of(struct sockaddr_un *address, int rank)
{
	const char *job = getenv("PMIX_NAMESPACE");
	int length;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "first %s %d",
			  job ? job : "", rank);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* The other rank may not have bound its socket yet. */
static int send_to(int fd, int rank, const void *data, size_t length)
{
	double limit = sample_seconds() + PATIENCE;
	struct sockaddr_un address;
	socklen_t address_length = address_of(&address, rank);

	while (sendto(fd, data, length, 0, (struct sockaddr *)&address, address_length) < 0) {
		if ((errno != ECONNREFUSED && errno != EINTR) || sample_seconds() > limit)
			return -1;
		usleep(1000);
	}
	return 0;
}

/* Rank 0 hears of every rank, then announces the time of the start. */
static int agree(int fd, int rank, int ranks, double *start)
{
	char here = 1;
	int other;

	if (rank) {
		if (send_to(fd, 0, &here, sizeof(here)))
			return -1;
		return recv(fd, start, sizeof(*start), 0) == sizeof(*start) ? 0 : -1;
	}
	for (other = 1; other < ranks; other++)
		if (recv(fd, &here, sizeof(here), 0) != sizeof(here))
			return -1;
	*start = sample_seconds() + LEAD;
	for (other = 1; other < ranks; other++)
		if (send_to(fd, other, start, sizeof(*start)))
			return -1;
	return 0;
}

const char *first_begin(int rank, int ranks)
{
	const struct timeval patience = { .tv_sec = PATIENCE };
	struct sockaddr_un address;
	socklen_t length = address_of(&address, rank);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	double start = 0;
	int status;

	if (fd < 0)
		return "cannot create a socket for --first";
	status = bind(fd, (struct sockaddr *)&address, length) ||
		 setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
		 agree(fd, rank, ranks, &start);
	close(fd);
	if (status)
		return "the ranks did not find each other: --first needs all of them on one host";
	while (sample_seconds() < start)
		;
	return NULL;
}

long first_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}
