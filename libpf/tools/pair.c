/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address_file.h"
#include "partner.h"
#include "sample.h"

/* A partner that says nothing for so long will not come back. */
#define PATIENCE 30.0

static int fail(struct pair *pair, const char *what, int status)
{
	if (!pair->failed)
		warnx("%s: %s%s%s", what, pf_strerror(status), status == PF_ERR_SYSTEM ? ": " : "",
		      status == PF_ERR_SYSTEM ? strerror(errno) : "");
	pair->failed = true;
	return -1;
}

static void receive(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		    void *arg)
{
	struct pair *pair = arg;
	struct control control;
	char what[192];

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
		if (length != sizeof(control))
			break;
		memcpy(&control, data, sizeof(control));
		control.text[sizeof(control.text) - 1] = 0;
		if (control.kind == CONTROL_FAILED) {
			snprintf(what, sizeof(what), "the partner's %s",
				 control.text[0] ? control.text : "part");
			fail(pair, what, control.status);
			break;
		}
		pair->answer = control;
		pair->answers++;
		break;
	}
}

static void gone(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	struct pair *pair = arg;

	(void)context;
	(void)text;
	if (peer == pair->peer)
		fail(pair, "connection to the partner", status);
}

int pair_wait(struct pair *pair, const uint64_t *counter, uint64_t value)
{
	double deadline = 0;
	unsigned polls = 0;

	while (*counter < value && !pair->failed) {
		pf_progress(pair->context);
		if (++polls % 1024)
			continue;
		if (deadline == 0) {
			deadline = sample_seconds() + PATIENCE;
		} else if (sample_seconds() > deadline) {
			warnx("no answer from the partner for %.0f seconds", PATIENCE);
			pair->failed = true;
		}
	}
	return pair->failed ? -1 : 0;
}

int pair_send(struct pair *pair, enum tag tag, const void *data, size_t length)
{
	int status;

	do {
		status = pf_send(pair->peer, (uint8_t)tag, data, length, NULL, 0);
		if (status != PF_ERR_AGAIN)
			break;
		pf_progress(pair->context);
	} while (!pair->failed);
	if (pair->failed)
		return -1;
	return status < 0 ? fail(pair, "pf_send", status) : 0;
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
		fail(pair, "transfer", completion->status);
	}
	pair->value = completion->value;
	pair->completed++;
}

int pair_posted(struct pair *pair, const char *what, int status)
{
	if (status < 0)
		return fail(pair, what, status);
	pair->completed += status == PF_DONE;
	return 0;
}

int pair_ask(struct pair *pair, struct control *control)
{
	uint32_t kind = control->kind;
	uint64_t answers = pair->answers;

	control->magic = PROTOCOL_MAGIC;
	if (pair_send(pair, TAG_CONTROL, control, sizeof(*control)) ||
	    pair_wait(pair, &pair->answers, answers + 1))
		return -1;
	*control = pair->answer;
	if (control->magic != PROTOCOL_MAGIC || control->kind != kind)
		return fail(pair, "the partner is another version of this program", PF_ERR_REFUSED);
	if (control->status != PF_OK)
		return fail(pair, "the partner cannot do this", control->status);
	return 0;
}

int pair_prepare(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
		 bool verify, uint64_t *remote)
{
	struct control control = { .kind = CONTROL_PREPARE,
				   .verify = verify,
				   .length = length,
				   .stride = stride,
				   .count = slots,
				   .seed = seed };

	if (pair_ask(pair, &control))
		return -1;
	*remote = control.address;
	return 0;
}

int pair_check(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
	       uint64_t *wrong)
{
	struct control control = { .kind = CONTROL_CHECK,
				   .length = length,
				   .stride = stride,
				   .count = slots,
				   .seed = seed };

	if (pair_ask(pair, &control))
		return -1;
	*wrong = control.wrong;
	return 0;
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

static int open_context(struct pair *pair, const pf_options *options)
{
	pf_attributes attributes;
	int status = pf_open(options, &pair->context);

	if (status != PF_OK) {
		pair->context = NULL;
		return fail(pair, "pf_open", status);
	}
	pf_set_receive(pair->context, receive, pair);
	pf_set_error(pair->context, gone, pair);
	pf_query(pair->context, &attributes);
	pair->send_max = attributes.send_max;
	return 0;
}

static int greet(struct pair *pair, const void *address, size_t length)
{
	struct control hello = { .kind = CONTROL_HELLO };
	const char *why = "";
	int status = pf_reachable(pair->context, address, length, &why);

	if (status != PF_OK) {
		warnx("the partner cannot be reached: it is %s", why);
		pair->failed = true;
		return -1;
	}
	status = pf_peer_open(pair->context, address, length, pair, &pair->peer);
	if (status != PF_OK)
		return fail(pair, "pf_peer_open", status);
	if (pair_ask(pair, &hello))
		return -1;
	if (hello.length < pair->send_max)
		pair->send_max = hello.length;
	return 0;
}

/* The partner's whole life; the address goes to the socket. */
static int child(const pf_options *options, int core, int socket, pid_t parent)
{
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	struct partner *partner;
	pf_context *context;
	int status;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) {
		warnx("the partner is left alone: process %d is gone", (int)parent);
		return -1;
	}
	if (core_bind(core))
		return -1;
	status = pf_open(options, &context);
	if (status != PF_OK) {
		warnx("pf_open in the partner: %s", pf_strerror(status));
		return -1;
	}
	partner = partner_create(context);
	if (!partner || pf_address(context, address, &length) != PF_OK ||
	    send(socket, address, length, MSG_NOSIGNAL) != (ssize_t)length) {
		warn("address of the partner");
		return -1;
	}
	close(socket);
	if (partner_serve(partner, NULL))
		return -1;
	pf_close(context);
	partner_destroy(partner);
	return 0;
}

static int wait_child(struct pair *pair)
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
	if (!pair->failed && WIFSIGNALED(status))
		warnx("the partner was killed by signal %d", WTERMSIG(status));
	return -1;
}

int pair_fork(struct pair *pair, const pf_options *options, const struct cores *cores)
{
	unsigned char address[PF_ADDRESS_MAX];
	pid_t parent = getpid();
	ssize_t length = -1;
	int sockets[2];

	memset(pair, 0, sizeof(*pair));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		warn("socketpair");
		return -1;
	}
	fflush(stdout);
	pair->child = fork();
	if (pair->child < 0) {
		warn("fork");
		close(sockets[0]);
		close(sockets[1]);
		return -1;
	}
	if (!pair->child) {
		close(sockets[0]);
		_exit(child(options, cores->second, sockets[1], parent) ? 1 : 0);
	}
	close(sockets[1]);
	if (!core_bind(cores->first) && !open_context(pair, options)) {
		/* 0: the partner could not start, and has said why. */
		length = recv(sockets[0], address, sizeof(address), 0);
		if (length < 0)
			warn("the partner's address");
	}
	close(sockets[0]);
	if (length > 0 && !greet(pair, address, (size_t)length))
		return 0;
	/* A partner that died on its way here has not said why. */
	if (!length && !wait_child(pair))
		warnx("the partner ended before it began");
	pair->failed = true;
	pair_close(pair);
	return -1;
}

int pair_connect(struct pair *pair, const pf_options *options, const char *file)
{
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);

	memset(pair, 0, sizeof(*pair));
	if (address_file_read(file, address, &length) || open_context(pair, options))
		return -1;
	if (!greet(pair, address, length))
		return 0;
	pair_close(pair);
	return -1;
}

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

int pair_listen(const pf_options *options, const char *file)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	struct partner *partner;
	pf_context *context;
	int status = pf_open(options, &context);

	if (status != PF_OK) {
		warnx("pf_open: %s", pf_strerror(status));
		return -1;
	}
	status = -1;
	partner = partner_create(context);
	if (!partner) {
		warn("partner");
		goto out;
	}
	/* So that the address file does not outlive the process that it names. */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	if (pf_address(context, address, &length) != PF_OK ||
	    address_file_create(file, address, length))
		goto out;
	status = partner_serve(partner, &stop);
	unlink(file);
	if (status) {
		/* No farewell by pf_close: the caller is to see a process that died. */
		partner_destroy(partner);
		return -1;
	}
out:
	pf_close(context);
	if (partner)
		partner_destroy(partner);
	return status;
}

int pair_close(struct pair *pair)
{
	struct control bye = { .magic = PROTOCOL_MAGIC, .kind = CONTROL_BYE };
	int status = 0;

	if (pair->peer && !pair->failed)
		status = pair_send(pair, TAG_CONTROL, &bye, sizeof(bye));
	if (pair->context)
		pf_close(pair->context);
	if (pair->child > 0 && wait_child(pair))
		status = -1;
	return pair->failed ? -1 : status;
}
