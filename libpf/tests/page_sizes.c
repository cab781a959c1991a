/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does the host transport work with the page size of this system? Two contexts of one
 * process exchange a message, and a put through the ring, with the smallest ring. The
 * script page-sizes runs it where pages are 16 KiB and 64 KiB.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "context/context.h"
#include <libpf/pf.h>

#define LENGTH 100000

static unsigned messages, errors, completions;

static void received(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		     void *arg)
{
	messages += length == 5 && !memcmp(data, "hello", 5);
}

static void failed(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	printf("# %s: %s\n", pf_strerror(status), text);
	errors++;
}

static void completed(pf_context *context, const pf_completion *completion)
{
	completions += completion->status == PF_OK;
	errors += completion->status != PF_OK;
}

static pf_context *open_context(void)
{
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = received,
					 .peer_event = failed };
	pf_context *context = NULL;
	pf_options options;
	int status;

	pf_options_init(&options, sizeof(options), NULL);
	options.ring_size = RING_SIZE_MIN;
	options.network = PF_NETWORK_OFF;
	options.single_copy = 0;
	status = pf_open(&options, &callbacks, &context);
	if (status != PF_OK) {
		printf("Bail out! pf_open: %s\n", pf_strerror(status));
		exit(1);
	}
	return context;
}

static bool until(const unsigned *count, pf_context *a, pf_context *b)
{
	time_t start = time(NULL);

	while (!*count && !errors && time(NULL) - start < 60) {
		pf_progress(a);
		pf_progress(b);
	}
	return *count == 1;
}

int main(void)
{
	static char from[LENGTH], to[LENGTH];
	pf_context *a = open_context(), *b = open_context();
	uint8_t address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_peer *peer;
	int status;

	printf("# pages of %ld bytes\n1..3\n", sysconf(_SC_PAGESIZE));
	pf_address(b, address, &length);
	pf_peer_open(a, address, length, NULL, &peer);
	status = pf_send(peer, 0, NULL, 0, "hello", 5);
	printf("%sok 1 - a message arrives\n",
	       status == PF_OK && until(&messages, a, b) ? "" : "not ");
	memset(from, 0x5a, sizeof(from));
	status = pf_put(peer, from, (uint64_t)(uintptr_t)to, sizeof(to), 0, completed, NULL);
	printf("%sok 2 - a put arrives\n",
	       status == PF_PENDING && until(&completions, a, b) && !memcmp(from, to, sizeof(to)) ?
		       "" :
		       "not ");
	printf("%sok 3 - the statistics are shared and counted\n",
	       a->statistics.fd >= 0 && pf_stat(a, PF_STAT_SENDS) == 1 ? "" : "not ");
	pf_close(a);
	pf_close(b);
	return 0;
}
