/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "address_file.h"
#include "sample.h"
#include "partner.h"

#define REPLY_TIMEOUT 30.0 /* seconds */

/* Report the first failure only: later failures follow from the first. */
static int pair_fail(struct pair *pair, const char *what, const char *why)
{
	if (!pair->failed)
		warnx("%s: %s", what, why);
	pair->failed = true;
	return -1;
}

static int fail_status(struct pair *pair, const char *what, int status)
{
	return pair_fail(pair, what,
			 status == PF_ERR_SYSTEM ? strerror(errno) : pf_strerror(status));
}

static void receive_control(struct pair *pair, const void *data, size_t length)
{
	struct control control;
	char what[192];

	if (length != sizeof(control))
		return;
	memcpy(&control, data, sizeof(control));
	control.text[sizeof(control.text) - 1] = 0;
	if (control.kind == CONTROL_FAILED) {
		snprintf(what, sizeof(what), "%s in the partner", control.text);
		fail_status(pair, what, control.status);
		return;
	}
	pair->reply = control;
	pair->replies++;
}

static void pair_receive(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
			 void *arg)
{
	struct pair *pair = arg;

	(void)context;
	if (from != pair->peer)
		return;
	switch (tag) {
	case TAG_ECHO:
		if (pair->expected &&
		    (length != pair->expected_length || memcmp(data, pair->expected, length) != 0))
			pair->wrong++;
		pair->arrived++;
		break;
	case TAG_NOTICE:
		pair->arrived++;
		break;
	case TAG_CONTROL:
		receive_control(pair, data, length);
		break;
	}
}

static void pair_peer_lost(pf_context *context, pf_peer *peer, int status, const char *text,
			   void *arg)
{
	struct pair *pair = arg;

	(void)context;
	(void)status;
	if (peer == pair->peer)
		pair_fail(pair, "connection to the partner", text);
}

int pair_wait(struct pair *pair, const uint64_t *counter, uint64_t value)
{
	double deadline = 0;
	unsigned polls = 0;
	char limit[32];

	while (*counter < value && !pair->failed) {
		pf_progress(pair->context);
		if (++polls % 1024)
			continue;
		if (deadline == 0) {
			deadline = sample_seconds() + REPLY_TIMEOUT;
		} else if (sample_seconds() > deadline) {
			snprintf(limit, sizeof(limit), "no reply for %.0f seconds", REPLY_TIMEOUT);
			pair_fail(pair, "the partner", limit);
		}
	}
	return pair->failed ? -1 : 0;
}

int pair_send(struct pair *pair, enum tag tag, const void *data, size_t length)
{
	int status;

	do {
		status = pf_send(pair->peer, (uint8_t)tag, NULL, 0, data, length);
		if (status != PF_ERR_AGAIN)
			break;
		pf_progress(pair->context);
	} while (!pair->failed);
	if (pair->failed)
		return -1;
	return status < 0 ? fail_status(pair, "pf_send", status) : 0;
}

void pair_complete(pf_context *context, const pf_completion *completion)
{
	struct pair *pair = completion->arg;

	(void)context;
	if (completion->status != PF_OK) {
		if (completion->status == PF_ERR_FAULT && !pair->failed)
			warnx("%s address %#llx could not be resolved",
			      completion->side == PF_SIDE_REMOTE ? "the partner's" : "local",
			      (unsigned long long)completion->address);
		fail_status(pair, "transfer", completion->status);
	}
	pair->value = completion->value;
	pair->completed++;
}

int pair_posted(struct pair *pair, const char *what, int status)
{
	if (status < 0)
		return fail_status(pair, what, status);
	pair->completed += status == PF_DONE;
	return 0;
}

int pair_ask(struct pair *pair, struct control *control)
{
	uint32_t kind = control->kind;
	uint64_t replies = pair->replies;

	control->magic = PROTOCOL_MAGIC;
	if (pair_send(pair, TAG_CONTROL, control, sizeof(*control)) ||
	    pair_wait(pair, &pair->replies, replies + 1))
		return -1;
	*control = pair->reply;
	if (control->magic != PROTOCOL_MAGIC || control->kind != kind)
		return pair_fail(pair, "the partner", "it is another version of this program");
	if (control->status != PF_OK)
		return fail_status(pair, "request to the partner", control->status);
	return 0;
}

static int ask_about_buffer(struct pair *pair, struct control *control, size_t length,
			    size_t stride, uint64_t slots, uint64_t seed)
{
	control->length = length;
	control->stride = stride;
	control->count = slots;
	control->seed = seed;
	return pair_ask(pair, control);
}

int pair_prepare(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
		 bool verify, uint64_t *remote)
{
	struct control control = { .kind = CONTROL_PREPARE, .verify = verify };
	int status = ask_about_buffer(pair, &control, length, stride, slots, seed);

	*remote = control.address;
	return status;
}

int pair_check(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
	       uint64_t *wrong)
{
	struct control control = { .kind = CONTROL_CHECK };
	int status = ask_about_buffer(pair, &control, length, stride, slots, seed);

	*wrong = control.wrong;
	return status;
}

const char *pair_path(struct pair *pair)
{
	uint64_t remote, word;

	if (pair_prepare(pair, sizeof(word), sizeof(word), 1, 0, false, &remote))
		return NULL;
	pair->completed = 0;
	if (pair_posted(pair, "pf_get",
			pf_get(pair->peer, &word, remote, sizeof(word), pair_complete, pair)) ||
	    pair_wait(pair, &pair->completed, 1))
		return NULL;
	return pf_peer_path(pair->peer);
}

uint8_t *pair_buffer(size_t length)
{
	uint8_t *area = mmap(NULL, length, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (area != MAP_FAILED)
		return area;
	warn("buffer of %zu bytes", length);
	return NULL;
}

int pair_open(struct pair *pair, const pf_options *options)
{
	pf_attributes attributes;
	int status = pf_open(options, &pair->context);

	if (status != PF_OK) {
		pair->context = NULL;
		return fail_status(pair, "pf_open", status);
	}
	pf_set_receive(pair->context, pair_receive, pair);
	pf_set_error(pair->context, pair_peer_lost, pair);
	pf_set_warning(pair->context, warning_print, NULL);
	pf_query(pair->context, &attributes, sizeof(attributes));
	pair->send_max = attributes.send_max;
	return 0;
}

int pair_greet(struct pair *pair, const void *address, size_t length)
{
	struct control hello = { .kind = CONTROL_HELLO };
	const char *why = "its address is malformed";
	int status = pf_reachable(pair->context, address, length, &why);

	if (status != PF_OK)
		return pair_fail(pair, "the partner cannot be reached", why);
	status = pf_peer_open(pair->context, address, length, pair, &pair->peer);
	if (status != PF_OK)
		return fail_status(pair, "pf_peer_open", status);
	if (pair_ask(pair, &hello))
		return -1;
	if (hello.length < pair->send_max)
		pair->send_max = hello.length;
	return 0;
}

int pair_connect(struct pair *pair, const pf_options *options, const char *file, const char *secret)
{
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);

	memset(pair, 0, sizeof(*pair));
	if (address_file_read(file, address, &length) || pair_open(pair, options))
		return -1;
	if (!secret_file_join(secret, pair->context) && !pair_greet(pair, address, length))
		return 0;
	pair_close(pair);
	return -1;
}

/* Wait for the exit of the partner. Returns -1 after a failure of the partner, already reported. */
static int wait_for_child(struct pair *pair)
{
	int status;

	if (pair->failed)
		kill(pair->child, SIGKILL);
	while (waitpid(pair->child, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	pair->child = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status) && !pair->failed)
		warnx("the partner was killed by signal %d", WTERMSIG(status));
	return -1;
}

int pair_close(struct pair *pair)
{
	struct control bye = { .magic = PROTOCOL_MAGIC, .kind = CONTROL_BYE };
	int status = 0;

	if (pair->peer && !pair->failed)
		status = pair_send(pair, TAG_CONTROL, &bye, sizeof(bye));
	if (pair->context)
		pf_close(pair->context);
	if (pair->child > 0 && wait_for_child(pair))
		status = -1;
	return pair->failed ? -1 : status;
}
