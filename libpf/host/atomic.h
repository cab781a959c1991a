/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations on the memory of a peer of this host. The peer's processor executes an atomic
 * inside the peer's pf_progress, or the engine of /dev/exanest does with the same instructions: the
 * operation is atomic towards everything on the host.
 */
#ifndef PF_HOST_ATOMIC_H
#define PF_HOST_ATOMIC_H

#include <stdbool.h>

#include "common/operation.h"
#include "device/device.h"
#include "message.h"
#include "peer.h"
#include "route.h"

struct atomic_operation {
	struct operation operation;
	struct message_atomic message;
	bool sent, answered;
	struct device_request request; /* sent to /dev/exanest */
	unsigned retries;              /* by the engine, whose page went away each time */
};

/* Any thread: make the record of a request; NULL without memory. */
struct atomic_operation *atomic_allocate(pf_peer *peer, enum operation_kind kind,
					 const struct atomic_request *request,
					 pf_complete_fn complete, void *arg);
/* Execute pf_atomic, with valid arguments. */
int atomic_post(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);
/* Progress: take the steps that are possible now. */
enum advanced atomic_advance(struct host_state *host, struct atomic_operation *atomic);
/* Progress: the peer is gone; forget the request under way. */
void atomic_abandon(struct host_state *host, struct atomic_operation *atomic);
/*
 * Progress: the answer arrived. value: the value before the operation; PF_ERR_FAULT and
 * PF_ERR_REFUSED: the address.
 */
void atomic_answered(struct atomic_operation *atomic, int status, uint64_t value);

static inline struct host_peer *atomic_peer(const struct atomic_operation *atomic)
{
	return (struct host_peer *)atomic->operation.peer;
}

#endif
