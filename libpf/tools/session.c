/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

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
static int session_fail(struct session *session, const char *what, const char *why)
{
	if (!session->failed)
		warnx("%s: %s", what, why);
	session->failed = true;
	return -1;
}

static int fail_status(struct session *session, const char *what, int status)
{
	return session_fail(session, what,
			    status == PF_ERR_SYSTEM ? strerror(errno) : pf_strerror(status));
}

static void receive_control(struct session *session, const void *data, size_t length)
{
	struct control control;
	char what[192];

	if (length != sizeof(control))
		return;
	memcpy(&control, data, sizeof(control));
	control.text[sizeof(control.text) - 1] = 0;
	if (control.kind == CONTROL_FAILED) {
		snprintf(what, sizeof(what), "%s in the partner", control.text);
		fail_status(session, what, control.status);
		return;
	}
	session->reply = control;
	session->replies++;
}

static void session_receive(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			    size_t length, void *arg)
{
	struct session *session = arg;

	(void)context;
	if (from != session->peer)
		return;
	switch (tag) {
	case TAG_ECHO:
		if (session->expected && (length != session->expected_length ||
					  memcmp(data, session->expected, length) != 0))
			session->wrong++;
		session->arrived++;
		break;
	case TAG_NOTICE:
		session->arrived++;
		break;
	case TAG_CONTROL:
		receive_control(session, data, length);
		break;
	}
}

static void session_notice(pf_context *context, pf_peer *from, uint64_t remote, size_t length,
			   uint64_t value, void *arg)
{
	struct session *session = arg;

	(void)context;
	(void)remote;
	(void)length;
	(void)value;
	session->arrived += from == session->peer;
}

static void session_peer_lost(pf_context *context, pf_peer *peer, enum pf_peer_state reason,
			      int status, const char *text, void *arg)
{
	struct session *session = arg;

	(void)context;
	(void)reason;
	(void)status;
	if (peer == session->peer)
		session_fail(session, "connection to the partner", text);
}

int session_wait(struct session *session, const uint64_t *counter, uint64_t value)
{
	double deadline = 0;
	unsigned polls = 0;
	char limit[32];

	while (*counter < value && !session->failed) {
		session_poll(session);
		if (++polls % 1024)
			continue;
		if (deadline == 0) {
			deadline = sample_seconds() + REPLY_TIMEOUT;
		} else if (sample_seconds() > deadline) {
			snprintf(limit, sizeof(limit), "no reply for %.0f seconds", REPLY_TIMEOUT);
			session_fail(session, "the partner", limit);
		}
	}
	return session->failed ? -1 : 0;
}

int session_send(struct session *session, enum tag tag, const void *data, size_t length)
{
	int status;

	do {
		status = pf_send(session->peer, tag, NULL, 0, data, length);
		if (status != PF_ERR_AGAIN)
			break;
		session_poll(session);
	} while (!session->failed);
	if (session->failed)
		return -1;
	return status < 0 ? fail_status(session, "pf_send", status) : 0;
}

void session_complete(pf_context *context, const pf_completion *completion)
{
	struct session *session = completion->arg;

	(void)context;
	if (completion->status != PF_OK) {
		if (completion->status == PF_ERR_FAULT && !session->failed)
			warnx("%s address %#llx could not be resolved",
			      completion->side == PF_SIDE_REMOTE ? "the partner's" : "local",
			      (unsigned long long)completion->address);
		fail_status(session, "transfer", completion->status);
	}
	session->value = completion->value;
	session->completed++;
}

int session_posted(struct session *session, const char *what, int status)
{
	if (status < 0)
		return fail_status(session, what, status);
	session->completed += status == PF_OK;
	return 0;
}

int session_ask(struct session *session, struct control *control)
{
	uint32_t kind = control->kind;
	uint64_t replies = session->replies;

	control->magic = PROTOCOL_MAGIC;
	if (session_send(session, TAG_CONTROL, control, sizeof(*control)) ||
	    session_wait(session, &session->replies, replies + 1))
		return -1;
	*control = session->reply;
	if (control->magic != PROTOCOL_MAGIC || control->kind != kind)
		return session_fail(session, "the partner",
				    "it is another version of this program");
	if (control->status != PF_OK)
		return fail_status(session, "request to the partner", control->status);
	return 0;
}

static int ask_about_buffer(struct session *session, struct control *control, size_t length,
			    size_t stride, uint64_t slots, uint64_t seed)
{
	control->length = length;
	control->stride = stride;
	control->count = slots;
	control->seed = seed;
	return session_ask(session, control);
}

int session_prepare(struct session *session, size_t length, size_t stride, uint64_t slots,
		    uint64_t seed, bool verify, uint64_t *remote)
{
	struct control control = { .kind = CONTROL_PREPARE, .verify = verify };
	int status = ask_about_buffer(session, &control, length, stride, slots, seed);

	*remote = control.address;
	return status;
}

int session_check(struct session *session, size_t length, size_t stride, uint64_t slots,
		  uint64_t seed, uint64_t *wrong)
{
	struct control control = { .kind = CONTROL_CHECK };
	int status = ask_about_buffer(session, &control, length, stride, slots, seed);

	*wrong = control.wrong;
	return status;
}

const char *session_path(struct session *session)
{
	uint64_t remote, word;

	if (session_prepare(session, sizeof(word), sizeof(word), 1, 0, false, &remote))
		return NULL;
	session->completed = 0;
	if (session_posted(session, "pf_get",
			   pf_get(session->peer, &word, remote, sizeof(word), session_complete,
				  session)) ||
	    session_wait(session, &session->completed, 1))
		return NULL;
	return pf_peer_path(session->peer);
}

uint8_t *session_buffer(size_t length)
{
	uint8_t *area = mmap(NULL, length, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (area != MAP_FAILED)
		return area;
	warn("buffer of %zu bytes", length);
	return NULL;
}

int session_open(struct session *session, const pf_options *options)
{
	const pf_callbacks callbacks = {
		.size = sizeof(callbacks),
		.receive = session_receive,
		.notice = session_notice,
		.peer_event = session_peer_lost,
		.log = log_print,
		.arg = session,
	};
	pf_attributes attributes;
	int status = pf_open(options, &callbacks, &session->context);

	if (status != PF_OK) {
		session->context = NULL;
		return fail_status(session, "pf_open", status);
	}
	session->waiting = (struct waiting){ .wake = options->wake, .sleep = WAITING_SLEEP };
	pf_query(session->context, &attributes, sizeof(attributes));
	session->send_max = attributes.send_max;
	return 0;
}

int session_greet(struct session *session, const void *address, size_t length)
{
	struct control hello = { .kind = CONTROL_HELLO };
	const char *why = "its address is malformed";
	int status = pf_reachable(session->context, address, length, &why);

	if (status != PF_OK)
		return session_fail(session, "the partner cannot be reached", why);
	status = pf_peer_open(session->context, address, length, session, &session->peer);
	if (status != PF_OK)
		return fail_status(session, "pf_peer_open", status);
	if (session_ask(session, &hello))
		return -1;
	if (hello.length < session->send_max)
		session->send_max = hello.length;
	return 0;
}

int session_connect(struct session *session, const pf_options *options, const char *file,
		    const char *secret)
{
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);

	memset(session, 0, sizeof(*session));
	if (address_file_read(file, address, &length) || session_open(session, options))
		return -1;
	if (!secret_file_join(secret, session->context) && !session_greet(session, address, length))
		return 0;
	session_close(session);
	return -1;
}

/* Wait for the exit of the partner. Returns -1 after a failure of the partner, already reported. */
static int wait_for_child(struct session *session)
{
	int status;

	if (session->failed)
		kill(session->child, SIGKILL);
	while (waitpid(session->child, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	session->child = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status) && !session->failed)
		warnx("the partner was killed by signal %d", WTERMSIG(status));
	return -1;
}

int session_close(struct session *session)
{
	struct control bye = { .magic = PROTOCOL_MAGIC, .kind = CONTROL_BYE };
	int status = 0;

	if (session->peer && !session->failed)
		status = session_send(session, TAG_CONTROL, &bye, sizeof(bye));
	if (session->context)
		pf_close(session->context);
	if (session->child > 0 && wait_for_child(session))
		status = -1;
	return session->failed ? -1 : status;
}
