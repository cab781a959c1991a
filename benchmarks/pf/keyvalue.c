/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One instance of a key-value server and its client, to run many of them in one memory cgroup.
 * As in examples/keyvalue.c, the server maps a file of records and the client gets them. Here the
 * server is a child of the client and can pin the file, and some records are looked up more often.
 */
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"
#include <libpf/pf.h>
#include "sample.h"
#include "waiting.h"

#define RECORD 1024 /* bytes */
#define IN_FLIGHT 16
/* So many percent of the lookups go to so many percent of the records, the others to all. */
#define HOT_LOOKUPS 90
#define HOT_RECORDS 20
#define PAUSE_MICROSECONDS 200 /* while no lookup is due */

/* What the client has to know of the server. */
struct contact {
	uint64_t base, records; /* address of the first record, and how many there are */
	size_t length;
	unsigned char address[PF_ADDRESS_MAX];
};

struct client;

struct lookup {
	struct client *client;
	bool waiting;
	uint64_t key;
	unsigned char value[RECORD];
};

struct client {
	struct contact contact;
	pf_context *context;
	pf_peer *server;
	uint64_t random;
	double rate; /* lookups a second at most; 0: as many as possible */
	uint64_t posted, completed;
	bool *used; /* by page of the file */
	struct lookup lookups[IN_FLIGHT];
};

static void check(const char *what, int status)
{
	if (status == PF_ERR_SYSTEM)
		err(1, "%s", what);
	if (status < 0)
		errx(1, "%s: %s", what, pf_strerror(status));
}

static void make(const char *name, uint64_t records)
{
	FILE *file = fopen(name, "w");
	unsigned char record[RECORD];

	for (uint64_t key = 0; file && key < records; key++) {
		pattern_fill(record, RECORD, key);
		fwrite(record, RECORD, 1, file);
	}
	/* The server cannot drop pages from the cache that are not on the disk yet. */
	if (!file || fflush(file) || fsync(fileno(file)) || ferror(file) || fclose(file))
		err(1, "cannot write %s", name);
}

static pf_context *open_context(void)
{
	pf_options options;
	pf_context *context;

	check("LIBPF_* variable", pf_options_init(&options, sizeof(options), NULL));
	options.wake = 1;
	check("pf_open", pf_open(&options, NULL, &context));
	return context;
}

/* In the child. */
static void serve(const char *name, bool pinned, int contact_pipe)
{
	struct contact contact = { .length = sizeof(contact.address) };
	struct waiting waiting = { .wake = true, .sleep = WAITING_SLEEP };
	pf_context *context = open_context();
	int fd = open(name, O_RDONLY);
	struct stat file;
	unsigned char present;
	void *store;

	if (fd < 0 || fstat(fd, &file))
		err(1, "%s", name);
	/* So that its pages are charged to this cgroup, and nothing is resident. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	store = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (store == MAP_FAILED)
		err(1, "cannot map %s", name);
	if (!mincore(store, 1, &present) && present & 1)
		errx(1, "the file system keeps %s in memory: choose another folder", name);
	madvise(store, (size_t)file.st_size, MADV_RANDOM);
	/* The kernel reads the whole file into memory and keeps it there. */
	if (pinned && mlock(store, (size_t)file.st_size))
		err(1, "the store cannot be pinned");
	contact.base = (uintptr_t)store;
	contact.records = (uint64_t)file.st_size / RECORD;
	check("pf_address", pf_address(context, contact.address, &contact.length));
	if (write(contact_pipe, &contact, sizeof(contact)) != sizeof(contact))
		err(1, "contact");
	for (;;)
		waiting_poll(&waiting, context);
}

static uint64_t draw(uint64_t *state)
{
	uint64_t random = pattern_random(*state);

	*state += PATTERN_STEP;
	return random;
}

static void on_complete(pf_context *context, const pf_completion *completion)
{
	struct lookup *lookup = completion->arg;

	(void)context;
	check("pf_get", completion->status);
	if (!pattern_matches(lookup->value, RECORD, lookup->key))
		errx(1, "wrong value of key %lu", (unsigned long)lookup->key);
	lookup->waiting = false;
	lookup->client->completed++;
}

static void post(struct client *client, struct lookup *lookup)
{
	bool hot = draw(&client->random) % 100 < HOT_LOOKUPS;
	uint64_t range = hot ? client->contact.records * HOT_RECORDS / 100 :
			       client->contact.records;
	int status;

	lookup->client = client;
	lookup->key = draw(&client->random) % range;
	lookup->waiting = true;
	client->used[lookup->key * RECORD / (size_t)sysconf(_SC_PAGESIZE)] = true;
	client->posted++;
	status = pf_get(client->server, lookup->value, client->contact.base + lookup->key * RECORD,
			RECORD, on_complete, lookup);
	if (status != PF_PENDING)
		on_complete(client->context, &(pf_completion){ .status = status, .arg = lookup });
}

static void run(struct client *client, double seconds)
{
	double start = sample_seconds(), now;
	struct waiting waiting = { .wake = true };
	uint64_t first = client->posted;

	while ((now = sample_seconds()) < start + seconds) {
		uint64_t due = client->rate > 0 ? first + (uint64_t)((now - start) * client->rate) :
						  UINT64_MAX;

		for (int i = 0; i < IN_FLIGHT && client->posted < due; i++)
			if (!client->lookups[i].waiting)
				post(client, &client->lookups[i]);
		waiting_poll(&waiting, client->context);
		if (client->posted >= due && client->posted == client->completed)
			usleep(PAUSE_MICROSECONDS);
	}
}

static void load(struct client *client, pid_t child, double warm_up, double seconds)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t pages = (client->contact.records * RECORD + page - 1) / page;
	uint64_t completed, waited;
	double start, took;
	long resident, locked;
	size_t i, used = 0;

	client->used = calloc(pages, sizeof(*client->used));
	if (!client->used)
		err(1, "memory");
	client->context = open_context();
	check("pf_peer_open", pf_peer_open(client->context, client->contact.address,
					   client->contact.length, NULL, &client->server));
	run(client, warm_up);
	completed = client->completed;
	waited = pf_stat(client->context, PF_STAT_REMOTE_FAULTS);
	start = sample_seconds();
	run(client, seconds);
	took = sample_seconds() - start;
	completed = client->completed - completed;
	waited = pf_stat(client->context, PF_STAT_REMOTE_FAULTS) - waited;
	for (i = 0; i < pages; i++)
		used += client->used[i];
	/* One that has just ended uses none. */
	resident = process_status(child, "RssFile");
	locked = process_status(child, "VmLck");
	printf("%.1f %.6f %ld %ld %zu\n", (double)completed / took,
	       completed ? (double)waited / (double)completed : 0.0, resident > 0 ? resident : 0,
	       locked > 0 ? locked : 0, used * page >> 10);
	check("pf_flush", pf_flush(client->context, client->server, PF_FOREVER));
	pf_close(client->context);
	free(client->used);
}

/* End this process too if the child has ended, which was not asked to. options: as for waitpid. */
static void watch(pid_t child, int options)
{
	int status;

	if (waitpid(child, &status, options) != child)
		return;
	if (WIFSIGNALED(status))
		errx(1, "the server was killed: %s", strsignal(WTERMSIG(status)));
	errx(1, "the server ended");
}

int main(int argc, char **argv)
{
	static struct client client;
	int ends[2];
	pid_t child;

	if (argc == 4 && !strcmp(argv[1], "make") && strtoul(argv[3], NULL, 10)) {
		make(argv[2], strtoul(argv[3], NULL, 10) << 10);
		return 0;
	}
	if (argc < 7 || argc > 8 || strcmp(argv[1], "run") ||
	    (argc == 8 && strcmp(argv[7], "pin"))) {
		fprintf(stderr,
			"Usage: keyvalue make FILE MIB\n"
			"       keyvalue run FILE SEED RATE WARM-UP SECONDS [pin]\n"
			"Serves FILE and looks records up in it: prints \"ready\", waits for a line, "
			"and after so many seconds\nprints lookups a second, the share of them that "
			"waited for a page, and KiB: resident and locked in the\nserver, and used by "
			"lookups. RATE 0: no limit. pin: the file is pinned.\n");
		return argc == 2 && !strcmp(argv[1], "--help") ? 0 : 2;
	}
	client.random = strtoul(argv[3], NULL, 10);
	client.rate = atof(argv[4]);
	if (pipe2(ends, O_CLOEXEC) || (child = fork()) < 0)
		err(1, "cannot start the server");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(argv[2], argc == 8, ends[1]);
	}
	close(ends[1]);
	if (read(ends[0], &client.contact, sizeof(client.contact)) != sizeof(client.contact))
		watch(child, 0);
	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		errx(1, "standard input ended before a line");
	watch(child, WNOHANG);
	load(&client, child, atof(argv[5]), atof(argv[6]));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
