/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol between the two processes of a measurement, made of messages of libpf: the measuring
 * process sends requests, the partner replies.
 */
#ifndef TOOLS_PROTOCOL_H
#define TOOLS_PROTOCOL_H

#include <stdint.h>

#define PROTOCOL_MAGIC 0x31667270 /* "prf1" */

enum tag {
	TAG_CONTROL = 1,  /* struct control, in both directions */
	TAG_ECHO,         /* the partner returns the message unchanged, with its tag */
	TAG_DISCARD,      /* the partner does not reply */
	TAG_DISCARD_LAST, /* the partner replies with TAG_NOTICE */
	TAG_STORE,        /* the partner copies the message to its buffer */
	TAG_STORE_LAST,   /* the partner copies the message, and replies with TAG_NOTICE */
	TAG_FETCH,        /* struct fetch: the partner calls pf_get, then replies with TAG_NOTICE */
	TAG_RETURN,       /* struct give: the partner calls pf_put, then replies with TAG_NOTICE */
	TAG_NOTICE,       /* 8 bytes without meaning */
};

/*
 * A put of the measuring process with PF_SIGNAL_NOTICE and an address as the value: the partner
 * puts the bytes back to the address, also with a notice.
 */

enum control_kind {
	CONTROL_HELLO = 1, /* first request; the reply's length is the partner's send_max */
	CONTROL_PREPARE,   /* fill a buffer of count slots, slot i with pattern seed + i */
	CONTROL_CHECK,     /* compare the buffer with the patterns; reply with the errors */
	CONTROL_PATH,      /* the reply's text is the partner's pf_peer_path */
	CONTROL_STATISTIC, /* the reply's length is the partner's pf_stat number seed */
	CONTROL_PROCESSOR, /* the reply's length is the partner's processor time, ns */
	CONTROL_BYE,       /* the partner ends; no reply */
	CONTROL_FAILED,    /* no request: the partner reports a failed TAG_FETCH */
};

struct control {
	uint32_t magic;
	uint32_t kind;
	int32_t status;
	uint32_t verify;  /* PREPARE: compare each message with slot 0 */
	uint64_t address; /* reply to PREPARE: address of the buffer */
	uint64_t length;  /* bytes of the pattern in a slot, at most stride */
	uint64_t stride;  /* bytes from slot to slot */
	uint64_t count;   /* number of slots */
	uint64_t seed;
	uint64_t wrong; /* reply to CHECK: number of messages and slots with wrong contents */
	char text[160];
};

struct fetch {
	uint64_t address;
	uint64_t length;
};

struct give {
	uint64_t from; /* address in the partner's buffer */
	uint64_t to;   /* address in the measuring process */
	uint64_t length;
};

#endif
