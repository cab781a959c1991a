/* SPDX-License-Identifier: BSD-3-Clause */
/* Owners of tags (owner.h): to which one a message goes, and what each is told of peers. */
#ifndef PF_OWNERS_H
#define PF_OWNERS_H

#include "context.h"

void owners_init(struct owners *owners);
void owners_destroy(struct owners *owners);
/* Progress: the functions of pf_owner_add and pf_owner_remove, with valid arguments. */
int owners_add(pf_context *context, uint32_t first, uint32_t last, const pf_callbacks *callbacks,
	       pf_owner **owner);
void owners_remove(pf_owner *owner);

/*
 * Progress: give a message, in count pieces of length bytes together, to the owner of the tag, or
 * keep a copy until there is one. False: the peer has too much waiting here, or no memory.
 */
bool owners_receive(pf_context *context, pf_peer *from, uint32_t tag, const struct iovec *pieces,
		    unsigned count, size_t length);
/* Progress: give messages to owners that came. Returns the number of messages. */
int owners_give_waiting(pf_context *context);
/* Progress: the callbacks room and peer_event of all owners; see pf_callbacks. */
void owners_tell_room(pf_context *context, pf_peer *peer);
void owners_tell_end(pf_context *context, pf_peer *peer);

/* Why a peer fails after owners_receive was false. */
#define OWNERS_REFUSED "no room for messages of the peer with tags that nobody receives"

#endif
