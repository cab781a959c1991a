/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets a file out of the memory of another process, which never touched that memory. */
#include <err.h>
#include <fcntl.h>
#include <libpf/pf.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct contact { /* what the parent has to know of the child */
	unsigned char address[PF_ADDRESS_MAX];
	size_t address_length;
	uint64_t memory;
};

static void check(const char *what, int status)
{
	if (status < 0)
		errx(1, "%s: %s", what, pf_strerror(status));
}

static void on_complete(pf_context *context, const pf_completion *completion)
{
	check("pf_get", completion->status);
}

int main(int argc, char **argv)
{
	int file = open(argc == 2 ? argv[1] : "", O_RDONLY), ends[2];
	struct contact contact = { .address_length = PF_ADDRESS_MAX };
	struct stat status;
	pf_context *context;
	pf_peer *peer;
	char *memory;
	pid_t child;

	if (file < 0 || fstat(file, &status) || pipe(ends))
		err(1, "Usage: first FILE");
	child = fork(); /* before pf_open: a child must not use its parent's context */
	memory = child ? mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
			 mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (child < 0 || memory == MAP_FAILED)
		err(1, "no memory");
	check("pf_open", pf_open(NULL, NULL, &context));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* ends with its parent */
		contact.memory = (uintptr_t)memory;
		check("pf_address", pf_address(context, contact.address, &contact.address_length));
		if (write(ends[1], &contact, sizeof(contact)) != sizeof(contact))
			err(1, "write");
		for (;;)
			pf_progress(context);
	}
	if (read(ends[0], &contact, sizeof(contact)) != sizeof(contact))
		errx(1, "the child ended");
	check("pf_peer_open",
	      pf_peer_open(context, contact.address, contact.address_length, NULL, &peer));
	check("pf_get",
	      pf_get(peer, memory, contact.memory, (size_t)status.st_size, on_complete, NULL));
	check("pf_flush", pf_flush(context, peer, PF_FOREVER));
	fprintf(stderr, "%zu bytes, page faults: %lu here, %lu in the child\n",
		(size_t)status.st_size, (unsigned long)pf_stat(context, PF_STAT_LOCAL_FAULTS),
		(unsigned long)pf_stat(context, PF_STAT_REMOTE_FAULTS));
	fwrite(memory, 1, (size_t)status.st_size, stdout);
	pf_close(context);
	return 0;
}
