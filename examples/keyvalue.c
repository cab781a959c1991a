/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server maps a file of records; clients read them by pf_get. The file may be larger than memory:
 * nothing is registered or pinned. A get of an absent page waits for it, the others go on.
 */
#include <err.h>
#include <fcntl.h>
#include <libpf/pf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORDS 128                                  /* of a record */
#define WORD(n) ((uint64_t)(n)*0x9e3779b97f4a7c15) /* word number n of the file, to be checked */
#define IN_FLIGHT 16                               /* gets of a client */

/* What a client has to know. The address contains the key to the server's memory. */
struct contact {
	uint64_t base, records; /* address of the first record, and how many there are */
	size_t length;
	unsigned char address[PF_ADDRESS_MAX];
};

static void check(const char *what, int status)
{
	if (status < 0)
		errx(1, "%s: %s", what, pf_strerror(status));
}

static void make(const char *name, uint64_t records)
{
	FILE *file = fopen(name, "w");

	for (uint64_t n = 0; file && n < records * WORDS; n++)
		fwrite(&(uint64_t){ WORD(n) }, sizeof(uint64_t), 1, file);
	if (!file || ferror(file) || fclose(file))
		err(1, "cannot write %s", name);
}

static void serve(pf_context *context, const char *name, const char *contact_name)
{
	struct contact contact = { .length = sizeof(contact.address) };
	int fd = open(name, O_RDONLY);
	char new_name[4096];
	struct stat file;
	void *store;

	if (fd < 0 || fstat(fd, &file))
		err(1, "cannot open %s", name);
	store = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (store == MAP_FAILED)
		err(1, "cannot map %s", name);
	madvise(store, (size_t)file.st_size, MADV_RANDOM); /* do not read ahead */
	contact.base = (uintptr_t)store;
	contact.records = (uint64_t)file.st_size / sizeof(uint64_t[WORDS]);
	check("pf_address", pf_address(context, contact.address, &contact.length));
	/* A new file, for this user alone, that clients see when it is complete. */
	snprintf(new_name, sizeof(new_name), "%s.new", contact_name);
	unlink(new_name);
	fd = open(new_name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || write(fd, &contact, sizeof(contact)) != sizeof(contact) ||
	    rename(new_name, contact_name))
		err(1, "cannot write %s", contact_name);
	for (;;)
		pf_wait(context, PF_FOREVER);
}

struct lookup {
	int waiting;
	uint64_t key, value[WORDS];
};

static void on_complete(pf_context *context, const pf_completion *completion)
{
	struct lookup *lookup = completion->arg;

	check("pf_get", completion->status);
	lookup->waiting = 0;
	for (uint64_t i = 0; i < WORDS; i++)
		if (lookup->value[i] != WORD(lookup->key * WORDS + i))
			errx(1, "wrong value of key %lu", (unsigned long)lookup->key);
}

static void get(pf_context *context, const char *contact_name, unsigned long count)
{
	static struct lookup lookups[IN_FLIGHT];
	int status, fd = open(contact_name, O_RDONLY);
	struct timespec from, to;
	struct contact contact;
	pf_peer *server;
	double seconds;

	if (fd < 0 || read(fd, &contact, sizeof(contact)) != sizeof(contact) || !contact.records)
		errx(1, "%s is not the CONTACT of a server", contact_name);
	status = pf_peer_open(context, contact.address, contact.length, NULL, &server);
	check("pf_peer_open", status);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (uint64_t i = 0; i < count; i++) {
		struct lookup *lookup = &lookups[i % IN_FLIGHT];

		while (lookup->waiting)
			pf_wait(context, PF_FOREVER);
		lookup->key = (WORD(i + (uint64_t)from.tv_nsec) >> 20) % contact.records;
		lookup->waiting = 1;
		status = pf_get(server, lookup->value,
				contact.base + lookup->key * sizeof(lookup->value),
				sizeof(lookup->value), on_complete, lookup);
		if (status != PF_PENDING) /* complete, or an error: no callback follows */
			on_complete(context, &(pf_completion){ .status = status, .arg = lookup });
	}
	check("pf_flush", pf_flush(context, server, PF_FOREVER));
	clock_gettime(CLOCK_MONOTONIC, &to);
	seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
	printf("%lu correct values, %.0f a second; %lu gets waited for a page\n", count,
	       (double)count / seconds, (unsigned long)pf_stat(context, PF_STAT_REMOTE_FAULTS));
}

int main(int argc, char **argv)
{
	const char *command = argc == 4 || argc == 2 ? argv[1] : "";
	unsigned long count = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	bool serving = argc == 4 && !strcmp(command, "--serve");
	bool getting = count && !strcmp(command, "--get");
	pf_options options;
	pf_context *context;

	if (count && !strcmp(command, "--make")) {
		make(argv[2], count);
	} else if (serving || getting) {
		check("LIBPF_* variable", pf_options_init(&options, sizeof(options), NULL));
		options.wake = 1; /* peers end a sleep in pf_wait */
		check("pf_open", pf_open(&options, NULL, &context));
		if (serving)
			serve(context, argv[2], argv[3]);
		get(context, argv[2], count);
		pf_close(context);
	} else {
		printf("Usage: keyvalue --make FILE RECORDS   write a file of RECORDS KiB\n"
		       "       keyvalue --serve FILE CONTACT  serve it; clients read CONTACT\n"
		       "       keyvalue --get CONTACT COUNT   look up COUNT random records\n");
		return strcmp(command, "--help") != 0;
	}
	return 0;
}
