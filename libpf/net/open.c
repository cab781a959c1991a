/* SPDX-License-Identifier: BSD-3-Clause */
/* How an association is opened: HELLO and WELCOME. */
#include <stdlib.h>

#include "core.h"

#define WELCOME_PERIOD 1000000ull /* no more than one in it, to whom it may concern */

static struct auth_party party(const uint8_t *id, const uint8_t *nonce, uint64_t incarnation)
{
	return (struct auth_party){ .id = id, .nonce = nonce, .incarnation = incarnation };
}

static bool understood(const struct net_core *core, const struct wire_hello *hello)
{
	return hello->auth == core->options.auth && hello->index && hello->block_size >= 4096 &&
	       hello->block_size <= 65536 && !(hello->block_size & (hello->block_size - 1));
}

/* What both ends take from the other's hello. */
static void agree(struct net_association *association, const struct wire_hello *hello)
{
	association->peer_index = hello->index;
	association->incarnation = hello->incarnation;
	memcpy(association->opening->peer_nonce, hello->nonce, WIRE_NONCE);
	if (hello->block_size < association->block_size)
		association->block_size = hello->block_size;
}

static void answer(struct net_association *association)
{
	association->welcome = true;
	association_wake(association);
}

/*
 * A path is where its HELLO came from, the last one: one that somebody else
 * repeats from elsewhere is put right by the opener's next. The answer goes the
 * same way. Nothing else has been sent there yet.
 */
static bool take_path(struct net_association *association, unsigned number,
		      const struct net_endpoint *from)
{
	struct net_core *core = association->core;
	struct path *path = association->paths[number];

	if (path)
		path_init(path, from, core->callbacks.packet_most(core->callbacks.user, from));
	else if (!association_path(association, number, from))
		return false;
	association->opening->welcome_path = (uint8_t)number;
	return true;
}

/* Which numbers paths have is the opener's affair: ours were for opening. */
static void drop_other_paths(struct net_association *association, unsigned number)
{
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (i == number)
			continue;
		free(association->paths[i]);
		association->paths[i] = NULL;
	}
	association->paths_count = 1;
}

/* Become the accepter of the association that this HELLO wants. */
static void accept_hello(struct net_association *association, const struct wire_hello *hello,
			 unsigned path, const struct net_endpoint *from)
{
	struct net_core *core = association->core;
	const struct net_options *options = &core->options;
	struct opening *opening = association->opening;
	struct auth_party opener, accepter;

	if (!take_path(association, path, from))
		return;
	drop_other_paths(association, path);
	agree(association, hello);
	opener = party(association->id, opening->peer_nonce, hello->incarnation);
	accepter = party(options->id, opening->nonce, options->incarnation);
	auth_session(&association->receiving, &association->sending, options->key, &opener,
		     &accepter);
	association->accepter = true;
	association->state = ACCEPTED;
	association->silent = association->busy ? core->now : NET_NEVER;
	opening->hello_due = core->now;
	answer(association);
}

static void forget(struct net_association *association)
{
	association_fail(association, PF_ERR_PEER,
			 "the peer's process is gone: HELLO of another one");
	/* Found by index until net_close, by id no more. */
	core_hide(association->core, association);
}

/* An association that is known already. NULL: nothing more to do. */
static struct net_association *known_hello(struct net_association *association,
					   const struct wire_hello *hello, unsigned path,
					   const struct net_endpoint *from, uint64_t now)
{
	const uint8_t *own = association->core->options.id;

	switch (association->state) {
	case KNOWN:
		return association;
	case OPENING:
		/* Both opened: the lower id stays the opener. */
		return memcmp(hello->id, own, NET_ID_BYTES) < 0 ? association : NULL;
	case ACCEPTED:
		if (!memcmp(hello->nonce, association->opening->peer_nonce, WIRE_NONCE) &&
		    now >= association->opening->hello_due && take_path(association, path, from)) {
			association->opening->hello_due = now + WELCOME_PERIOD;
			answer(association);
		}
		return NULL;
	default:
		/* Of one that is OPEN the opener has had its WELCOME. */
		return NULL;
	}
}

void open_hello(struct net_core *core, uint64_t now, uint8_t *packet, size_t length,
		const struct wire_header *header, const struct net_endpoint *from)
{
	struct net_association *association;
	struct wire_hello hello;
	void *user = NULL;

	if (header->index || header->number || length != WIRE_HEADER + (size_t)header->control) {
		core->statistics.refused++;
		return;
	}
	if (!auth_check(packet, header->control, core->hello_key, 0)) {
		core->statistics.forged++;
		return;
	}
	if (!wire_get_hello(packet + WIRE_HEADER, header->control, &hello) ||
	    !understood(core, &hello) || !memcmp(hello.id, core->options.id, NET_ID_BYTES)) {
		core->statistics.refused++;
		return;
	}
	association = core_find(core, hello.id);
	if (association && association->state >= ACCEPTED) {
		if (hello.incarnation < association->incarnation) {
			core->statistics.replayed++;
			return;
		}
		if (hello.incarnation > association->incarnation) {
			forget(association);
			association = NULL;
		}
	}
	if (association) {
		association = known_hello(association, &hello, header->path, from, now);
		if (association)
			accept_hello(association, &hello, header->path, from);
		return;
	}
	association = association_new(core, hello.id, NULL, 0);
	if (!association)
		return;
	accept_hello(association, &hello, header->path, from);
	if (association->state != ACCEPTED ||
	    !core->callbacks.accept(core->callbacks.user, association, hello.id, hello.info,
				    hello.info_length, &user)) {
		association_unready(association);
		association_free(association);
		return;
	}
	association->user = user;
}

void open_welcome(struct net_core *core, uint64_t now, uint8_t *packet, size_t length,
		  const struct wire_header *header)
{
	struct net_association *association = core_index(core, header->index);
	const struct net_options *options = &core->options;
	struct auth_party opener, accepter;
	struct opening *opening;
	struct wire_hello hello;

	if (!association || association->state != OPENING || header->number ||
	    length != WIRE_HEADER + (size_t)header->control) {
		core->statistics.refused++;
		return;
	}
	opening = association->opening;
	if (!auth_check(packet, header->control, opening->welcome_key, 0)) {
		core->statistics.forged++;
		return;
	}
	if (!wire_get_hello(packet + WIRE_HEADER, header->control, &hello) ||
	    !understood(core, &hello) || memcmp(hello.id, association->id, NET_ID_BYTES) ||
	    memcmp(hello.echo, opening->nonce, WIRE_NONCE)) {
		core->statistics.refused++;
		return;
	}
	agree(association, &hello);
	opener = party(options->id, opening->nonce, options->incarnation);
	accepter = party(association->id, opening->peer_nonce, hello.incarnation);
	auth_session(&association->sending, &association->receiving, opening->key, &opener,
		     &accepter);
	/* Of a repeated HELLO it is not known which one was answered. */
	if (opening->hellos == 1)
		path_sample(association->paths[0], now - opening->hello_sent);
	association_opened(association);
	association_heard(association, now);
	association->ping = true;
	association_wake(association);
}

size_t open_output(struct net_association *association, unsigned path, uint64_t now,
		   uint8_t *packet)
{
	const struct net_options *options = &association->core->options;
	struct wire_hello hello = { .incarnation = options->incarnation,
				    .index = association->index,
				    .block_size = options->block_size,
				    .auth = (uint8_t)options->auth };
	struct wire_header header = { .type = WIRE_HELLO, .path = (uint8_t)path };
	struct opening *opening = association->opening;
	uint8_t key[AUTH_HASH_KEY];

	memcpy(hello.id, options->id, NET_ID_BYTES);
	memcpy(hello.nonce, opening->nonce, WIRE_NONCE);
	if (association->welcome) {
		association->welcome = false;
		header.type = WIRE_WELCOME;
		header.index = association->peer_index;
		memcpy(hello.echo, opening->peer_nonce, WIRE_NONCE);
		auth_welcome_key(key, options->key, opening->peer_nonce);
	} else {
		hello.info = opening->info;
		hello.info_length = opening->info_length;
		auth_hello_key(key, opening->key);
		opening->hello_sent = now;
		opening->hello_due = now + association_hello_delay(association);
		/* Paths take turns for ever: 252 is a multiple of any number of them. */
		opening->hellos = opening->hellos < 255 ? opening->hellos + 1 : 252;
		association->core->statistics.hellos++;
		association_asked(association, now);
	}
	header.control = (uint16_t)wire_put_hello(packet + WIRE_HEADER, &hello);
	wire_put_header(packet, &header);
	auth_tag(packet, header.control, key, 0);
	return WIRE_HEADER + (size_t)header.control;
}
