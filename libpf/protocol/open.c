/* SPDX-License-Identifier: BSD-3-Clause */
#include "open.h"

#include <stdlib.h>

#include "base/check.h"

#define WELCOME_PERIOD 1000000ull /* ns from a WELCOME to the next, at least */

static bool hello_is_understood(const struct shared *shared, const struct wire_hello *hello)
{
	return net_version_shared(hello->oldest, hello->newest) &&
	       hello->auth == shared->options.auth && hello->index && hello->block_size >= 4096 &&
	       hello->block_size <= 65536 && !(hello->block_size & (hello->block_size - 1));
}

/* Begin a path on which nothing was sent yet. */
static void association_begin(struct net_association *association, struct path *path,
			      const struct wire_hello *hello)
{
	const struct shared *shared = association->shared;

	mtu_assume(&path->mtu, &shared->sizes);
	path_begin(path, shared->now, hello->senders, hello->index, shared->options.queue_target);
}

/* Take the terms of the association from the HELLO or WELCOME of the peer. */
static void association_agree(struct net_association *association, const struct wire_hello *hello)
{
	unsigned i;

	association->peer_index = hello->index;
	memcpy(association->opening->peer_nonce, hello->nonce, WIRE_NONCE);
	if (hello->block_size < association->block_size)
		association->block_size = hello->block_size;
	if (association->busy)
		association->busy->exchange.block_size = association->block_size;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i])
			association_begin(association, association->paths[i], hello);
	}
}

static void association_answer(struct net_association *association)
{
	association->welcome = true;
	association->wants_output = true;
}

static size_t association_packet_max(const struct net_association *association,
				     const struct net_endpoint *to)
{
	const struct net_callbacks *callbacks = &association->shared->callbacks;

	return callbacks->packet_most(callbacks->user, to);
}

/* Answer on the path of the HELLO. */
static bool take_path(struct net_association *association, unsigned number,
		      const struct net_endpoint *from)
{
	struct path *path;

	assert_that(number < NET_PATHS_MOST);
	path = association->paths[number];
	if (path)
		path_init(path, from, association_packet_max(association, from));
	else if (!association_path(association, number, from))
		return false;
	association->opening->welcome_path = (uint8_t)number;
	return true;
}

/*
 * A HELLO comes again if the WELCOME was lost, or on a further path. A path leads to where the last
 * HELLO came from. A HELLO that another host repeats moves the path, until the first packet of
 * the opener with a session tag moves the path back (input.c). Nothing but the answer has been sent
 * there yet. The path keeps the beginning: the number of senders, the pause beside many senders,
 * and, unless the path leads elsewhere, the length of packets.
 */
static bool take_path_again(struct net_association *association, const struct wire_hello *hello,
			    unsigned number, const struct net_endpoint *from)
{
	struct path *path = association->paths[number];

	if (!path) {
		path = association_path(association, number, from);
		if (!path)
			return false;
		association_begin(association, path, hello);
	} else if (memcmp(&path->to, from, sizeof(*from)) != 0) {
		path_move(path, from, association_packet_max(association, from));
		mtu_assume(&path->mtu, &association->shared->sizes);
	}
	association->opening->welcome_path = (uint8_t)number;
	return true;
}

/* The opener numbers paths: drop the paths made here for opening. */
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

void open_accept(struct net_association *association, const struct wire_hello *hello, unsigned path,
		 const struct net_endpoint *from)
{
	const struct net_options *options = &association->shared->options;
	struct opening *opening = association->opening;
	struct auth_party opener = { association->id, opening->peer_nonce };
	struct auth_party accepter = { options->id, opening->nonce };

	assert_that(opening && association->state != OPEN && association->state != GONE);
	if (!take_path(association, path, from))
		return;
	drop_other_paths(association, path);
	association_agree(association, hello);
	auth_session(&association->receiving, &association->sending, options->key, &opener,
		     &accepter);
	association->accepter = true;
	association->state = ACCEPTED;
	/* An association that the user has made long ago is unconfirmed from here on. */
	association->heard = association->shared->now;
	senders_heard(&association->shared->senders, association->shared->now,
		      &association->heard_in);
	association->silent = association->busy ? association->shared->now : NET_NEVER;
	opening->hello_due = association->shared->now;
	association_answer(association);
}

void open_again(struct net_association *association, const struct wire_hello *hello, unsigned path,
		const struct net_endpoint *from)
{
	uint64_t now = association->shared->now;
	/* Both ends opened: the lower id stays the opener. */
	bool yields = association->state == OPENING &&
		      memcmp(hello->id, association->shared->options.id, NET_ID_BYTES) < 0;

	if (association->state == KNOWN || yields) {
		open_accept(association, hello, path, from);
		return;
	}
	/* An OPEN association needs no WELCOME again: the opener has received WELCOME. */
	if (association->state == ACCEPTED &&
	    !memcmp(hello->nonce, association->opening->peer_nonce, WIRE_NONCE) &&
	    now >= association->opening->hello_due &&
	    take_path_again(association, hello, path, from)) {
		association->opening->hello_due = now + WELCOME_PERIOD;
		association->heard = now;
		association_answer(association);
	}
}

bool open_read(struct shared *shared, uint8_t *packet, size_t length,
	       const struct wire_header *header, struct wire_hello *hello)
{
	if (header->index || header->number || length != WIRE_HEADER + (size_t)header->control) {
		drop_packet(shared, NET_DROP_MALFORMED);
		return false;
	}
	if (!auth_check(packet, header->control, shared->hello_key, 0)) {
		drop_packet(shared, NET_DROP_FORGED);
		return false;
	}
	if (!wire_get_hello(packet + WIRE_HEADER, header->control, hello) ||
	    !hello_is_understood(shared, hello) ||
	    !memcmp(hello->id, shared->options.id, NET_ID_BYTES)) {
		drop_packet(shared, NET_DROP_DIFFERENT);
		return false;
	}
	return true;
}

void open_welcome(struct net_association *association, uint8_t *packet, size_t length,
		  const struct wire_header *header)
{
	const struct net_options *options = &association->shared->options;
	uint64_t now = association->shared->now;
	struct auth_party opener, accepter;
	struct opening *opening;
	struct wire_hello hello;

	if (association->state != OPENING || header->number ||
	    length != WIRE_HEADER + (size_t)header->control) {
		drop_packet(association->shared, NET_DROP_UNEXPECTED);
		return;
	}
	opening = association->opening;
	/* The opener has the path of the HELLO. */
	assert_that(opening && association->paths[0]);
	if (!auth_check(packet, header->control, opening->welcome_key, 0)) {
		drop_packet(association->shared, NET_DROP_FORGED);
		return;
	}
	if (!wire_get_hello(packet + WIRE_HEADER, header->control, &hello) ||
	    !hello_is_understood(association->shared, &hello) ||
	    memcmp(hello.id, association->id, NET_ID_BYTES) ||
	    memcmp(hello.echo, opening->nonce, WIRE_NONCE)) {
		drop_packet(association->shared, NET_DROP_DIFFERENT);
		return;
	}
	association_agree(association, &hello);
	opener = (struct auth_party){ options->id, opening->nonce };
	accepter = (struct auth_party){ association->id, opening->peer_nonce };
	auth_session(&association->sending, &association->receiving, opening->key, &opener,
		     &accepter);
	/* After several HELLOs, the HELLO that was answered is unknown. */
	if (opening->hellos == 1)
		path_answered(association->paths[0], now - opening->hello_sent);
	association_opened(association);
	association_heard(association, now);
	association->ping = true;
	association->wants_output = true;
}

size_t open_output(struct net_association *association, unsigned path, uint64_t now,
		   uint8_t *packet)
{
	const struct net_options *options = &association->shared->options;
	struct wire_hello hello = { .senders = senders_count(&association->shared->senders, now),
				    .index = association->index,
				    .block_size = options->block_size,
				    .auth = (uint8_t)options->auth,
				    .oldest = NET_VERSION_OLDEST,
				    .newest = NET_VERSION_NEWEST };
	struct wire_header header = { .type = WIRE_HELLO, .path = (uint8_t)path };
	struct opening *opening = association->opening;
	uint8_t key[AUTH_HASH_KEY];

	assert_that(path < NET_PATHS_MOST && opening &&
		    (association->welcome || association->state == OPENING));
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
		/* Paths take turns for ever: 252 is a multiple of any number of paths. */
		opening->hellos = opening->hellos < 255 ? opening->hellos + 1 : 252;
		association->shared->statistics.hellos++;
		association_asked(association, now);
	}
	header.control = (uint16_t)wire_put_hello(packet + WIRE_HEADER, &hello);
	wire_put_header(packet, &header);
	auth_tag(packet, header.control, key, 0);
	return WIRE_HEADER + (size_t)header.control;
}
