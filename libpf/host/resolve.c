/* SPDX-License-Identifier: BSD-3-Clause */
#include "resolve.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "base/check.h"

/* A range that this process resolves, and the asker. */
struct asked {
	struct resolution resolution;
	struct host_state *host;
	uint64_t connection; /* number of the asker's; 0: this process */
	uint64_t token;
};

struct answer_task {
	struct task task;
	struct connections *connections;
	uint64_t connection;
	struct resolve result;
};

/* Service thread. */
static void answer_task_run(struct task *task, bool dropped)
{
	const struct answer_task *answer = (struct answer_task *)task;

	if (!dropped)
		connections_answer(answer->connections, answer->connection, &answer->result);
	free(task);
}

/* Any thread. The asker's connection may have ended meanwhile, and is therefore found by number. */
static void asked_resolved(struct resolution *resolution)
{
	struct asked *asked = (struct asked *)resolution;
	struct host_state *host = asked->host;

	if (!asked->connection) {
		notices_report(&host->notices, &(struct notice){ .kind = NOTICE_RESOLVED,
								 .token = asked->token,
								 .status = resolution->status,
								 .fault = resolution->kind,
								 .address = resolution->failed });
	} else {
		struct answer_task *work = allocate_or_wait(sizeof(*work));

		work->task.run = answer_task_run;
		work->connections = &host->connections;
		work->connection = asked->connection;
		work->result = (struct resolve){ .token = asked->token,
						 .address = resolution->failed,
						 .status = resolution->status,
						 .kind = resolution->kind };
		service_run(&host->context->service, &work->task);
	}
	free(asked);
}

void resolve_for_peer(void *arg, uint64_t connection, const struct resolve *request)
{
	struct asked *asked = allocate_or_wait(sizeof(*asked));
	struct host_state *host = arg;

	*asked = (struct asked){ .resolution = { .asker = connection,
						 .address = request->address,
						 .length = request->length,
						 .write = request->write,
						 .done = asked_resolved },
				 .host = host,
				 .connection = connection,
				 .token = request->token };
	memory_resolve(&host->context->memory, &asked->resolution);
}

struct ask_task {
	struct task task;
	struct host_peer *peer;
	struct resolve request;
};

/* Service thread. */
static void ask_task_run(struct task *task, bool dropped)
{
	const struct ask_task *ask = (struct ask_task *)task;

	/* A connection that has ended is reported to progress separately. */
	if (!dropped && ask->peer->connection)
		connection_ask(ask->peer->connection, &ask->request);
	free(task);
}

int resolve_request(struct host_state *host, struct host_peer *owner, uint64_t token,
		    uint64_t address, uint64_t length, bool write)
{
	const struct resolve request = {
		.token = token, .address = address, .length = length, .write = write
	};
	struct ask_task *work;

	assert_progress(host->context);
	if (!owner) {
		resolve_for_peer(host, 0, &request);
		return PF_OK;
	}
	work = calloc(1, sizeof(*work));
	if (!work)
		return PF_ERR_MEMORY;
	work->task.run = ask_task_run;
	work->peer = owner;
	work->request = request;
	service_run(&host->context->service, &work->task);
	return PF_OK;
}
