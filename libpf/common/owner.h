/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of the owners of tags: libraries of one process with a common context, each with
 * callbacks for its own tags. The callbacks of pf_open have all other tags.
 *
 * The table of owners and the list of messages without an owner are progress's own: pf_owner_add and
 * pf_owner_remove enter progress, or are called by a callback. Callbacks may therefore change the
 * table while a loop calls one owner after the other: the place of a removed owner stays empty until
 * another owner comes. The pointers of pf_owner_user are for any thread.
 */
#ifndef PF_OWNER_H
#define PF_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <libpf/pf.h>

struct pf_owner {
	pf_context *context;
	uint32_t first, last; /* tags */
	unsigned place;       /* in the table, and in pf_peer.users */
	pf_callbacks callbacks;
};

struct unowned;

struct owners {
	unsigned count;
	bool added;                             /* an owner came: messages of its tags may wait */
	struct pf_owner *place[PF_OWNERS_MOST]; /* NULL: free */
	STAILQ_HEAD(unowned_list, unowned) waiting; /* messages without an owner, in order */
};

#endif
