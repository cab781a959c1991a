/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two processes of a measurement say to each other, all of it in
 * messages of libpf: the side that measures asks, its partner answers.
 */
#ifndef TOOLS_PROTOCOL_H
#define TOOLS_PROTOCOL_H

#include <stdint.h>

#define PROTOCOL_MAGIC 0x31667270 /* "prf1" */

enum tag {
	TAG_CONTROL = 1, /* struct control, both ways */
	TAG_ECHO,        /* comes back as it is, with the same tag */
	TAG_TAKE,        /* one of many: nothing comes back */
	TAG_TAKE_LAST,   /* the last of many: TAG_NOTICE comes back */
	TAG_KEEP,        /* is copied to the partner's buffer */
	TAG_KEEP_LAST,   /* so is this, and TAG_NOTICE comes back */
	TAG_FETCH,       /* struct fetch: pf_get to the partner's buffer, then TAG_NOTICE */
	TAG_NOTICE,      /* 8 bytes */
	TAG_REGISTER,    /* struct range: pf_register of a part of the buffer, then TAG_NOTICE */
	TAG_DEREGISTER,  /* struct range: of the same number; nothing comes back */
};

enum control_kind {
	CONTROL_HELLO = 1, /* first of all; the answer's length is the partner's send_max */
	CONTROL_PREPARE,   /* a buffer of count slots with pattern seed + slot in each */
	CONTROL_CHECK,     /* compare the buffer with this pattern, and tell of messages */
	CONTROL_PATH,      /* the answer's text is the partner's pf_peer_path */
	CONTROL_STATISTIC, /* the answer's length is its pf_stat of number seed */
	CONTROL_PROCESSOR, /* the answer's length is the processor time it used, nanoseconds */
	CONTROL_BYE,       /* the partner ends; no answer */
	CONTROL_FAILED,    /* from the partner, unasked: how a TAG_FETCH or TAG_REGISTER ended */
};

struct control {
	uint32_t magic;
	uint32_t kind;
	int32_t status;
	uint32_t verify;  /* PREPARE: compare messages that arrive with slot 0 */
	uint64_t address; /* answer to PREPARE: of the buffer */
	uint64_t length;  /* bytes of the pattern in a slot; less than stride */
	uint64_t stride;  /* from slot to slot */
	uint64_t count;   /* slots */
	uint64_t seed;
	uint64_t wrong; /* answer to CHECK: messages and slots with wrong contents */
	char text[160];
};

/* Registered ranges have numbers below this: the largest window of pf_perf. */
#define RANGES_MOST 65536

struct range {
	uint64_t number;
	uint64_t address;
	uint64_t length;
	uint64_t write;
};

struct fetch {
	uint64_t address;
	uint64_t length;
};

#endif
