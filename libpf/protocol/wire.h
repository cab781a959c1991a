/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of packets: see doc/wire.md. All numbers are little-endian. The length of
 * every part but the payload of a packet is a multiple of 8 bytes. Only wire.c and
 * wire.h encode and decode packets, byte by byte.
 */
#ifndef PF_NET_WIRE_H
#define PF_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "net.h"

/*
 * HELLO and WELCOME have the form and the version of WIRE_OPENING for ever, and name the range of
 * versions of the sender; every other packet has the newest version of both ends, which
 * is WIRE_VERSION while there is one.
 */
#define WIRE_OPENING 3
#define WIRE_VERSION NET_VERSION_NEWEST
#define WIRE_TAG 16    /* bytes of the tag */
#define WIRE_HEADER 32 /* tag and fixed header */
#define WIRE_DATA 16   /* struct wire_data, at the start of the control section of DATA */
#define WIRE_SIGNAL 24 /* frame SIGNAL */
#define WIRE_DIGEST 8  /* of the payload, at the end of the control section, with auth=full */
#define WIRE_MAC 16    /* at the end of the packet, when encrypted */
#define WIRE_CONTROL_MOST 1144 /* fits with the header into NET_PACKET_LEAST, a MAC included */
#define WIRE_ACK_WORDS 16      /* words of bits in an ACK, at most */
#define WIRE_CHARGE_MORE 512   /* bytes: see wire_charge */
#define WIRE_CHARGE_LEAST 1152 /* bytes */

/*
 * Return the share of the receiver's credit that a packet takes: at least
 * half of skb->truesize. The kernel charges truesize to the receiving socket: for a
 * single packet, a buffer of a power of two with headers and skb_shared_info, and the
 * sk_buff. SO_MEMINFO over veth with Linux 6.18 (bytes: truesize): 80: 832; 1,000:
 * 2,304; 1,472: 2,304; 8,952: 16,640. Drivers with half a page a packet charge
 * 2,304 for short packets, too. Packets that UDP_SEGMENT or UDP_GRO keep together take
 * less.
 */
static inline uint32_t wire_charge(uint32_t bytes)
{
	bytes += WIRE_CHARGE_MORE;
	return bytes > WIRE_CHARGE_LEAST ? bytes : WIRE_CHARGE_LEAST;
}

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_WELCOME,
	WIRE_FRAMES,
	WIRE_DATA_PUT, /* from the initiator of a put */
	WIRE_DATA_GET, /* to the initiator of a get */
	WIRE_PROBE,    /* FRAMES, and padding */
	WIRE_TYPES
};

struct wire_header {
	uint8_t type;
	uint8_t path;
	uint16_t control;  /* bytes of the control section */
	uint32_t index;    /* index of the association at the receiver */
	uint32_t number;   /* low half of the packet number */
	uint32_t transfer; /* DATA: number of the transfer; otherwise 0 */
};

struct wire_data {
	uint32_t offset;  /* of the payload in the transfer, bytes */
	uint32_t length;  /* of the transfer, bytes */
	uint64_t address; /* put: of the transfer at the destination; get: 0 */
};

/* Contents of HELLO and WELCOME. */
#define WIRE_NONCE 16
#define WIRE_HELLO_BYTES 80
struct wire_hello {
	uint8_t id[NET_ID_BYTES];  /* of the sender */
	uint8_t nonce[WIRE_NONCE]; /* of the sender, random */
	uint8_t echo[WIRE_NONCE];  /* WELCOME: the nonce of the HELLO; HELLO: 0 */
	uint32_t index;            /* of the association at the sender */
	uint32_t block_size;       /* bytes, of the sender */
	uint8_t auth;              /* enum net_auth */
	uint16_t info_length;
	uint16_t senders;       /* number of peers that send to the sender */
	uint8_t oldest, newest; /* wire version that the sender speaks */
	const uint8_t *info;
};

enum wire_frame_type {
	FRAME_ACK = 1,
	FRAME_CREDIT,
	FRAME_CONTROL, /* a piece of the control stream, bytes behind the frame */
	FRAME_MESSAGE, /* a piece of the message stream, bytes in the payload */
	FRAME_PING,    /* asks for an acknowledgement */
	FRAME_GOODBYE, /* the association ends */
	FRAME_SIGNAL,  /* of a put: the first frame of the packet with the last byte */
};

struct wire_frame {
	uint8_t type;
	union {
		struct {
			uint8_t path, words;
			uint32_t delay;                /* ns since largest was received */
			uint32_t largest;              /* low half of the largest number received */
			uint32_t marks;                /* CE marks received on the path */
			uint64_t bits[WIRE_ACK_WORDS]; /* bit i of word w: largest - 64 w - i */
		} ack;
		struct {
			uint8_t pauses;    /* of all senders, modulo 256 */
			uint16_t senders;  /* number of peers that send to the receiver */
			uint32_t window;   /* bytes that may be under way on a path */
			uint64_t messages; /* position up to which the receiver has room */
		} credit;
		struct {
			uint16_t length;
			uint32_t offset; /* low half of the position */
			const uint8_t *bytes;
		} stream;
		struct {
			bool failed; /* the sender gave the receiver up; false: an orderly end */
		} goodbye;
		pf_signal signal; /* NOTICE: remote is the first byte of the put */
	};
};

enum wire_entry_type {
	ENTRY_GET = 1, /* send the data of a get */
	ENTRY_DONE,    /* the receiver has finished a transfer */
	ENTRY_NACK,    /* a block met a fault at the receiver: hold the block back */
	ENTRY_AGAIN,   /* the fault is resolved: send the block, and granules of a mask again */
	ENTRY_CANCEL,  /* the initiator of a put gives up */
	ENTRY_FAILED,  /* the source of a get cannot be read */
	ENTRY_ATOMIC,  /* execute an atomic */
	ENTRY_RESULT,  /* the result of an atomic */
	ENTRY_TYPES
};

#define WIRE_ENTRY_MOST 40
struct wire_entry {
	uint8_t type;
	bool get;          /* DONE, NACK, AGAIN: of a get; false: of a put */
	uint8_t block;     /* NACK, AGAIN: index in the transfer */
	uint8_t op, width; /* ATOMIC: enum pf_atomic_op, and bytes */
	int status;        /* PF_OK, PF_ERR_FAULT, or PF_ERR_REFUSED: the address is not exposed */
	uint32_t transfer;
	uint32_t length;  /* GET: bytes */
	uint64_t address; /* of memory or of a fault; AGAIN: mask of granules; RESULT: value */
	uint64_t operand, compare;
};

/* Bytes of the header of a message in the message stream; the message follows, padded to 8. */
#define WIRE_MESSAGE_HEADER 8

static inline uint16_t wire_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t wire_get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t wire_get64(const uint8_t *p)
{
	return wire_get32(p) | (uint64_t)wire_get32(p + 4) << 32;
}

static inline void wire_put16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)value;
	p[1] = (uint8_t)(value >> 8);
}

static inline void wire_put32(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)value;
	p[1] = (uint8_t)(value >> 8);
	p[2] = (uint8_t)(value >> 16);
	p[3] = (uint8_t)(value >> 24);
}

static inline void wire_put64(uint8_t *p, uint64_t value)
{
	wire_put32(p, (uint32_t)value);
	wire_put32(p + 4, (uint32_t)(value >> 32));
}

static inline size_t wire_pad(size_t length)
{
	return (length + 7) & ~(size_t)7;
}

/* Return the 64-bit number nearest to near with low as the low half. */
static inline uint64_t wire_widen(uint64_t near, uint32_t low)
{
	int64_t apart = (int32_t)(low - (uint32_t)near);

	/* Numbers start at 0. */
	return apart < 0 && (uint64_t)-apart > near ? near + (uint32_t)apart :
						      near + (uint64_t)apart;
}

/* Write the header, without the tag. */
void wire_put_header(uint8_t *packet, const struct wire_header *header);
/* Read the header. False: no packet of a version that is spoken. length: bytes of the whole packet. */
bool wire_get_header(const uint8_t *packet, size_t length, struct wire_header *header);
void wire_put_data(uint8_t *control, const struct wire_data *data);
void wire_get_data(const uint8_t *control, struct wire_data *data);
/* Write a HELLO or WELCOME. Returns the length of the control section. */
size_t wire_put_hello(uint8_t *control, const struct wire_hello *hello);
/* Read a HELLO or WELCOME. False: malformed. length: bytes of the control section. */
bool wire_get_hello(const uint8_t *control, size_t length, struct wire_hello *hello);
/* Return the bytes of the frame, without the bytes of a message. */
size_t wire_frame_length(const struct wire_frame *frame);
size_t wire_put_frame(uint8_t *control, const struct wire_frame *frame);
/* Read a frame. Returns the bytes taken, 0 if malformed. */
size_t wire_get_frame(const uint8_t *control, size_t length, struct wire_frame *frame);
/* Return the bytes of an entry, a multiple of 8; 0: no type. */
size_t wire_entry_length(enum wire_entry_type type);
size_t wire_put_entry(uint8_t *bytes, const struct wire_entry *entry);
/* Read an entry. Returns the bytes taken, 0 if more bytes are needed, -1 if malformed. */
int wire_get_entry(const uint8_t *bytes, size_t length, struct wire_entry *entry);

#endif
