/* SPDX-License-Identifier: GPL-2.0 */
/* The numbers and structures of engine.md: registers, queue entries, page tables, packets. */
#ifndef SECOND_INTERFACE_H
#define SECOND_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the interface is little-endian");

/* Section 3. */
enum doorbell { DOORBELL_CONTROL, DOORBELL_COMMAND, DOORBELL_SUBMISSION, DOORBELL_FAULT };
enum vector { VECTOR_STATUS, VECTOR_COMPLETION, VECTOR_FAULT, VECTOR_COMMAND };

/* Section 4: offsets in BAR2. */
enum reg {
	REG_MAGIC = 0x000,
	REG_VERSION = 0x004,
	REG_FEATURES = 0x008,
	REG_BLOCK_SIZE = 0x010,
	REG_BLOCKS = 0x014,
	REG_SPACES = 0x018,
	REG_PEERS = 0x01c,
	REG_QUEUE_ENTRIES = 0x020,
	REG_TRANSFER_MAX = 0x024,
	REG_PAGE_SIZES = 0x028,
	REG_ADDRESS_BITS = 0x02c,
	REG_PHYSICAL_BITS = 0x030,
	REG_ATOMICS = 0x034,
	REG_DOORBELL_BASE = 0x038,
	REG_COMMAND_TIME = 0x03c,
	REG_TRANSFER_BLOCKS = 0x040,

	REG_CONTROL = 0x080,
	REG_IRQ_ENABLE = 0x084,
	REG_NODE = 0x088,
	REG_LINK_PAYLOAD = 0x08c,
	REG_LINK_TIMEOUT = 0x090,
	REG_LINK_RETRIES = 0x094,
	REG_INCARNATION = 0x098,
	REG_INDEX_BASE = 0x0a0,
	REG_COMMAND_BASE = 0x0b0, /* each queue: base u64, entries u32, 4 bytes not used */
	REG_SUBMISSION_BASE = 0x0c0,
	REG_COMPLETION_BASE = 0x0d0,
	REG_FAULT_BASE = 0x0e0,
	REG_COMMAND_PRODUCER = 0x100,
	REG_SUBMISSION_PRODUCER = 0x104,
	REG_COMPLETION_CONSUMER = 0x108,
	REG_FAULT_CONSUMER = 0x10c,

	REG_STATUS = 0x140,
	REG_ERROR = 0x144,
	REG_ERROR_DETAIL = 0x148,

	REG_TRANSFERS = 0x200,
	REG_BYTES = 0x208,
	REG_BLOCKS_DONE = 0x210,
	REG_BLOCKS_AGAIN = 0x218,
	REG_PACKETS_SENT = 0x220,
	REG_PACKETS_RECEIVED = 0x228,
	REG_PACKETS_DROPPED = 0x230,
	REG_PACKETS_DENIED = 0x238,
	REG_TIMEOUTS = 0x240,
	REG_FAULTS_LOCAL = 0x248,
	REG_FAULTS_REMOTE = 0x250,
	REG_RESUMES = 0x258,
	REG_REJECTS = 0x260,
	REG_INVALIDATIONS = 0x268,
	REG_CACHE_HITS = 0x270,
	REG_CACHE_MISSES = 0x278,
	REG_ATOMICS_DONE = 0x280,
	REG_INTERRUPTS = 0x288,

	REG_SIZE = 4096,
};

#define MAGIC 0x4e415845u
#define VERSION_1_0 0x00010000u
#define FEATURE_ATOMICS 1u
#define FEATURE_LARGE_PAGES 2u

enum engine_status { ENGINE_DISABLED, ENGINE_READY, ENGINE_FAILED };
enum engine_error { ERROR_NONE, ERROR_CONFIGURATION, ERROR_INDEX, ERROR_MEMORY, ERROR_INTERNAL };

/* Section 5: offsets in the index block. */
enum index_offset {
	INDEX_COMMAND_CONSUMER = 0,
	INDEX_SUBMISSION_CONSUMER = 4,
	INDEX_COMPLETION_PRODUCER = 8,
	INDEX_FAULT_PRODUCER = 12,
	INDEX_SIZE = 64,
};

/* Section 6.2: bits of a page table entry. */
#define ENTRY_VALID (1ull << 0)
#define ENTRY_LEAF (1ull << 1)
#define ENTRY_WRITE (1ull << 2)
#define ENTRY_ACCESSED (1ull << 3)
#define ENTRY_DIRTY (1ull << 4)
#define ENTRY_RESERVED 0x0000000000000fe0ull
#define ENTRY_ADDRESS 0x000ffffffffff000ull

/* Section 7.1. */
enum command_operation {
	COMMAND_NOP,
	COMMAND_SPACE_ATTACH,
	COMMAND_SPACE_DETACH,
	COMMAND_INVALIDATE,
	COMMAND_PEER_SET,
	COMMAND_PEER_CLEAR,
	COMMAND_RESUME,
	COMMAND_REJECT,
	COMMAND_ABORT,
};

enum command_status {
	COMMAND_OK,
	COMMAND_INVALID,
	COMMAND_NOT_FOUND,
	COMMAND_EXISTS,
	COMMAND_FULL
};

struct command {
	u32 operation;
	u32 space;
	union {
		struct {
			u64 root;
			u64 key[2];
			u32 generation;
			u8 page_shift;
			u8 bits;
		} attach;
		struct {
			u64 start;
			u64 length;
		} invalidate;
		u32 node;
		u64 fault;
		struct {
			u64 fault;
			u64 status;
			u64 address;
		} reject;
		u64 tag;
		u8 arguments[48];
	};
	u32 reserved;
	u32 status;
};

_Static_assert(sizeof(struct command) == 64 && offsetof(struct command, status) == 60, "command");
_Static_assert(offsetof(struct command, attach.bits) == 37, "command");

/* Section 7.2. */
enum operation { OPERATION_NOP, OPERATION_PUT, OPERATION_GET, OPERATION_ATOMIC };
enum atomic { ATOMIC_ADD, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR, ATOMIC_SWAP, ATOMIC_COMPARE };

struct submission {
	u8 operation;
	u8 atomic;
	u16 reserved;
	u32 space;
	u64 tag;
	u64 local;
	u64 remote;
	u32 length;
	u32 node;
	u32 remote_space;
	u32 generation;
	u64 operand;
	u64 compare;
};

_Static_assert(sizeof(struct submission) == 64, "submission");

/* Section 7.3. */
enum status {
	STATUS_OK,
	STATUS_INVALID,
	STATUS_UNREACHABLE,
	STATUS_PEER_RESET,
	STATUS_FAULT,
	STATUS_FAULT_TIMEOUT,
	STATUS_FAULT_BUSY,
	STATUS_FAULT_MEMORY,
	STATUS_MEMORY,
	STATUS_LINK_TIMEOUT,
	STATUS_ABORTED,
};

enum side { SIDE_NONE, SIDE_LOCAL, SIDE_REMOTE };

struct completion {
	u64 tag;
	u64 value;
	u64 address;
	u32 status;
	u32 side;
};

_Static_assert(sizeof(struct completion) == 32, "completion");

/* Section 7.4. */
#define FAULT_WRITE 1u
#define FAULT_REMOTE 2u
#define FAULT_ATOMIC 4u

struct fault_entry {
	u64 fault;
	u64 address;
	u32 length;
	u32 flags;
	u32 space;
	u32 generation;
	u32 node;
	u32 ahead;
	u64 tag;
	u64 block;
	u64 request;
};

_Static_assert(sizeof(struct fault_entry) == 64, "fault entry");

/* Section 8. */
#define BLOCK_SIZE 16384u
#define GRANULE 256u

/* Section 9. */
enum packet_type {
	PACKET_HELLO = 1,
	PACKET_PUT,
	PACKET_GET,
	PACKET_ATOMIC,
	PACKET_CANCEL,
	PACKET_DATA,
	PACKET_ACK,
	PACKET_NACK,
	PACKET_AGAIN,
};

#define PACKET_VERSION 1
#define PACKET_SLOTS 256
#define PACKET_PAYLOAD 4096
#define LINK_ADDRESS_LIMIT (1ull << 57)

struct request {
	u64 key[2];
	u32 space;
	u32 generation;
	u64 address;
	u32 length;
	u32 ahead;
};

struct payload {
	u32 offset;
	u32 length;
	u8 bytes[PACKET_PAYLOAD];
};

struct packet {
	u8 version;
	u8 type;
	u16 reserved1;
	u32 length;
	u32 source;
	u32 destination;
	u64 incarnation;
	u64 peer_incarnation;
	u64 sequence;
	u32 slot;
	u32 reserved2;
	union {
		struct {
			struct request request;
			union {
				struct payload put;
				u64 get_mask;
				struct {
					u8 operation;
					u8 reserved[7];
					u64 operand;
					u64 compare;
				} atomic;
			};
		};
		struct payload data;
		struct {
			u32 status;
			u32 reserved;
			u64 value;
			u64 address;
		} ack;
		u64 again_mask;
	};
};

/* Lengths of packets without payload, by type. */
#define LENGTH_HEADER 48
#define LENGTH_PUT 96
#define LENGTH_GET 96
#define LENGTH_ATOMIC 112
#define LENGTH_DATA 56
#define LENGTH_ACK 72
#define LENGTH_AGAIN 56

_Static_assert(offsetof(struct packet, request) == LENGTH_HEADER, "packet");
_Static_assert(offsetof(struct packet, put.bytes) == LENGTH_PUT, "packet");
_Static_assert(offsetof(struct packet, get_mask) == 88, "packet");
_Static_assert(offsetof(struct packet, atomic.compare) == 104, "packet");
_Static_assert(offsetof(struct packet, data.bytes) == LENGTH_DATA, "packet");
_Static_assert(offsetof(struct packet, ack.address) == 64, "packet");
_Static_assert(sizeof(struct packet) == 4192, "packet");

#endif
