/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faulted_put [kill]: a put of 4 MiB from one process to another. The pages of the third block of
 * 16 KiB are absent where it goes: they belong to a file, and are not in memory. kill: the process
 * that puts is killed instead of ending. Needs a file system on a disk below the current folder.
 */
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpf/pf.h>

#define LENGTH ((size_t)4 << 20)
#define BLOCK ((size_t)16 << 10)
#define ABSENT (2 * BLOCK)

struct contact {
	uint8_t address[PF_ADDRESS_MAX];
	size_t length;
	uint64_t buffer;
};

static bool told;

static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	told = true;
}

/* A mapping of a file with all pages in memory but those of the block. */
static char *map_file(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at;
	char name[] = "faulted_put.XXXXXX", *map;
	static char bytes[1 << 20];
	unsigned char present = 0;
	int fd = mkstemp(name);

	if (fd < 0)
		err(1, "%s", name);
	unlink(name);
	memset(bytes, 7, sizeof(bytes));
	for (at = 0; at < LENGTH; at += sizeof(bytes)) {
		if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
			err(1, "write");
	}
	/* Only what is on the disk can go, and no page may come along with others. */
	if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		err(1, "fsync, fadvise");
	map = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || madvise(map, LENGTH, MADV_RANDOM))
		err(1, "mmap, madvise");
	for (at = 0; at < LENGTH; at += page) {
		if (at < ABSENT || at >= ABSENT + BLOCK)
			((volatile char *)map)[at] = 8;
	}
	if (mincore(map + ABSENT, page, &present) || present)
		errx(77, "the pages of the file stay in memory");
	return map;
}

static pf_context *open_context(pf_receive_fn receive)
{
	const pf_callbacks callbacks = { .size = sizeof(callbacks), .receive = receive };
	pf_context *context;

	if (pf_open(NULL, &callbacks, &context) != PF_OK)
		errx(1, "pf_open");
	return context;
}

static int target(int to)
{
	pf_context *context = open_context(on_message);
	struct contact contact = { .length = sizeof(contact.address) };
	char *map = map_file();
	size_t i;

	if (pf_address(context, contact.address, &contact.length) != PF_OK)
		errx(1, "pf_address");
	contact.buffer = (uint64_t)(uintptr_t)map;
	if (write(to, &contact, sizeof(contact)) != sizeof(contact))
		err(1, "write");
	while (!told)
		pf_progress(context);
	for (i = 0; i < LENGTH && map[i] == 42; i++)
		;
	if (i < LENGTH)
		errx(1, "byte %zu is wrong", i);
	pf_close(context);
	return 0;
}

static void source(int from, bool killed)
{
	pf_context *context = open_context(NULL);
	char *buffer = malloc(LENGTH);
	struct contact contact;
	pf_peer *peer;
	int status;

	if (!buffer || read(from, &contact, sizeof(contact)) != sizeof(contact))
		err(1, "read");
	memset(buffer, 42, LENGTH);
	if (pf_peer_open(context, contact.address, contact.length, NULL, &peer) != PF_OK)
		errx(1, "pf_peer_open");
	status = pf_put(peer, buffer, contact.buffer, LENGTH, 0, NULL, NULL);
	if (status < 0 || pf_flush(context, NULL, PF_FOREVER) != PF_OK)
		errx(1, "pf_put: %s", pf_strerror(status));
	while ((status = pf_send(peer, 0, NULL, 0, NULL, 0)) == PF_ERR_AGAIN)
		pf_progress(context);
	if (status < 0)
		errx(1, "pf_send: %s", pf_strerror(status));
	if (killed)
		raise(SIGKILL);
	pf_close(context);
	free(buffer);
}

int main(int argc, char **argv)
{
	bool killed = argc > 1 && !strcmp(argv[1], "kill");
	int ends[2], status;
	pid_t child;

	if (pipe(ends))
		err(1, "pipe");
	child = fork();
	if (child < 0)
		err(1, "fork");
	setenv("OMPI_COMM_WORLD_RANK", child ? "0" : "1", 1);
	if (!child) {
		close(ends[0]);
		return target(ends[1]);
	}
	close(ends[1]);
	if (!killed) {
		source(ends[0], false);
	} else if (!fork()) {
		source(ends[0], true);
	}
	while (wait(&status) != child)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return 1;
}
