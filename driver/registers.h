/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The register interface of an engine, as engine.md specifies it: for the
 * driver's backend and for the model.
 */
#ifndef EXANEST_REGISTERS_H
#define EXANEST_REGISTERS_H

#include <linux/types.h>

#define EXANEST_BAR_DOORBELL 0 /* BAR numbers */
#define EXANEST_BAR_REGISTERS 2
#define EXANEST_DOORBELL_OFFSET 0x0c
#define EXANEST_REGISTERS_SIZE 0x1000

enum exanest_doorbell {
	EXANEST_DOORBELL_CONTROL = 0,
	EXANEST_DOORBELL_COMMAND = 1,
	EXANEST_DOORBELL_SUBMISSION = 2,
	EXANEST_DOORBELL_FAULT = 3,
	EXANEST_DOORBELLS = 4,
};

enum exanest_vector {
	EXANEST_VECTOR_STATUS = 0,
	EXANEST_VECTOR_COMPLETION = 1,
	EXANEST_VECTOR_FAULT = 2,
	EXANEST_VECTOR_COMMAND = 3,
	EXANEST_VECTORS = 4,
};

/* Identification */
#define EXANEST_REG_MAGIC 0x000
#define EXANEST_REG_VERSION 0x004
#define EXANEST_REG_FEATURES 0x008 /* u64 */
#define EXANEST_REG_BLOCK_SIZE 0x010
#define EXANEST_REG_BLOCKS 0x014
#define EXANEST_REG_SPACES 0x018
#define EXANEST_REG_PEERS 0x01c
#define EXANEST_REG_QUEUE_ENTRIES 0x020
#define EXANEST_REG_TRANSFER_MAX 0x024
#define EXANEST_REG_PAGE_SIZES 0x028
#define EXANEST_REG_ADDRESS_BITS 0x02c
#define EXANEST_REG_PHYSICAL_BITS 0x030
#define EXANEST_REG_ATOMICS 0x034
#define EXANEST_REG_DOORBELL_BASE 0x038
#define EXANEST_REG_COMMAND_TIME 0x03c
#define EXANEST_REG_TRANSFER_BLOCKS 0x040
/* Configuration */
#define EXANEST_REG_CONTROL 0x080
#define EXANEST_REG_IRQ_ENABLE 0x084
#define EXANEST_REG_NODE 0x088
#define EXANEST_REG_LINK_PAYLOAD 0x08c
#define EXANEST_REG_LINK_TIMEOUT 0x090
#define EXANEST_REG_LINK_RETRIES 0x094
#define EXANEST_REG_INCARNATION 0x098 /* u64, as are the bases */
#define EXANEST_REG_INDEX_BASE 0x0a0
#define EXANEST_REG_COMMAND_BASE 0x0b0
#define EXANEST_REG_COMMAND_ENTRIES 0x0b8
#define EXANEST_REG_SUBMISSION_BASE 0x0c0
#define EXANEST_REG_SUBMISSION_ENTRIES 0x0c8
#define EXANEST_REG_COMPLETION_BASE 0x0d0
#define EXANEST_REG_COMPLETION_ENTRIES 0x0d8
#define EXANEST_REG_FAULT_BASE 0x0e0
#define EXANEST_REG_FAULT_ENTRIES 0x0e8
#define EXANEST_REG_COMMAND_PRODUCER 0x100
#define EXANEST_REG_SUBMISSION_PRODUCER 0x104
#define EXANEST_REG_COMPLETION_CONSUMER 0x108
#define EXANEST_REG_FAULT_CONSUMER 0x10c
/* State */
#define EXANEST_REG_STATUS 0x140
#define EXANEST_REG_ERROR 0x144
#define EXANEST_REG_ERROR_DETAIL 0x148 /* u64 */
/* Counters: u64 each */
#define EXANEST_REG_COUNTERS 0x200

#define EXANEST_MAGIC 0x4e415845u
#define EXANEST_VERSION 0x00010000u
#define EXANEST_ENGINE_ATOMICS (1ULL << 0) /* of EXANEST_REG_FEATURES */
#define EXANEST_ENGINE_LARGE_PAGES (1ULL << 1)

enum exanest_register_status {
	EXANEST_ENGINE_DISABLED = 0,
	EXANEST_ENGINE_READY = 1,
	EXANEST_ENGINE_FAILED = 2,
};

enum exanest_engine_error {
	EXANEST_ERROR_NONE = 0,
	EXANEST_ERROR_CONFIGURATION = 1,
	EXANEST_ERROR_INDEX = 2,
	EXANEST_ERROR_MEMORY = 3,
	EXANEST_ERROR_INTERNAL = 4,
};

/* In the order of their registers. */
enum exanest_engine_counter {
	EXANEST_COUNTER_TRANSFERS,
	EXANEST_COUNTER_BYTES,
	EXANEST_COUNTER_BLOCKS_DONE,
	EXANEST_COUNTER_BLOCKS_AGAIN,
	EXANEST_COUNTER_PACKETS_SENT,
	EXANEST_COUNTER_PACKETS_RECEIVED,
	EXANEST_COUNTER_PACKETS_DROPPED,
	EXANEST_COUNTER_PACKETS_DENIED,
	EXANEST_COUNTER_TIMEOUTS,
	EXANEST_COUNTER_FAULTS_LOCAL,
	EXANEST_COUNTER_FAULTS_REMOTE,
	EXANEST_COUNTER_RESUMES,
	EXANEST_COUNTER_REJECTS,
	EXANEST_COUNTER_INVALIDATIONS,
	EXANEST_COUNTER_CACHE_HITS,
	EXANEST_COUNTER_CACHE_MISSES,
	EXANEST_COUNTER_ATOMICS_DONE,
	EXANEST_COUNTER_INTERRUPTS,
	EXANEST_ENGINE_COUNTERS,
};

/* The index block */
struct exanest_engine_indices {
	__le32 command_consumer;
	__le32 submission_consumer;
	__le32 completion_producer;
	__le32 fault_producer;
	__le32 reserved[12];
};

/* Entries of page tables */
#define EXANEST_PTE_VALID (1ULL << 0)
#define EXANEST_PTE_LEAF (1ULL << 1)
#define EXANEST_PTE_WRITE (1ULL << 2)
#define EXANEST_PTE_ACCESSED (1ULL << 3)
#define EXANEST_PTE_DIRTY (1ULL << 4)
#define EXANEST_PTE_RESERVED 0xfe0ULL
#define EXANEST_PTE_ADDRESS 0x000ffffffffff000ULL

enum exanest_command {
	EXANEST_COMMAND_NOP = 0,
	EXANEST_COMMAND_SPACE_ATTACH = 1,
	EXANEST_COMMAND_SPACE_DETACH = 2,
	EXANEST_COMMAND_INVALIDATE = 3,
	EXANEST_COMMAND_PEER_SET = 4,
	EXANEST_COMMAND_PEER_CLEAR = 5,
	EXANEST_COMMAND_RESUME = 6,
	EXANEST_COMMAND_REJECT = 7,
	EXANEST_COMMAND_ABORT = 8,
};

enum exanest_command_status {
	EXANEST_COMMAND_OK = 0,
	EXANEST_COMMAND_INVALID = 1,
	EXANEST_COMMAND_NOT_FOUND = 2,
	EXANEST_COMMAND_EXISTS = 3,
	EXANEST_COMMAND_FULL = 4,
};

/*
 * Arguments, from 0 on. SPACE_ATTACH: root, key (low half, high half), and
 * EXANEST_ATTACH_SHAPE. INVALIDATE: start, length. PEER_SET, PEER_CLEAR: node.
 * RESUME, REJECT: fault, and of REJECT the status and an address. ABORT: tag. Others are 0.
 */
struct exanest_engine_command {
	__le32 operation; /* enum exanest_command */
	__le32 space;
	__le64 argument[6];
	__le32 reserved;
	__le32 status; /* out: enum exanest_command_status */
};

#define EXANEST_ATTACH_SHAPE(generation, page_shift, bits)                                         \
	((__u64)(generation) | (__u64)(page_shift) << 32 | (__u64)(bits) << 40)

enum exanest_engine_operation {
	EXANEST_ENGINE_NOP = 0,
	EXANEST_ENGINE_PUT = 1,
	EXANEST_ENGINE_GET = 2,
	EXANEST_ENGINE_ATOMIC = 3,
};

/* The atomic operations are those of enum exanest_atomic (uapi/exanest.h). */
struct exanest_engine_submission {
	__u8 operation; /* enum exanest_engine_operation */
	__u8 atomic;
	__u8 reserved[2];
	__le32 space;
	__le64 tag;
	__le64 local;
	__le64 remote;
	__le32 length;
	__le32 node;
	__le32 remote_space;
	__le32 generation;
	__le64 operand;
	__le64 compare;
};

enum exanest_engine_status {
	EXANEST_STATUS_OK = 0,
	EXANEST_STATUS_INVALID = 1,
	EXANEST_STATUS_UNREACHABLE = 2,
	EXANEST_STATUS_PEER_RESET = 3,
	EXANEST_STATUS_FAULT = 4,
	EXANEST_STATUS_FAULT_TIMEOUT = 5,
	EXANEST_STATUS_FAULT_BUSY = 6,
	EXANEST_STATUS_FAULT_MEMORY = 7,
	EXANEST_STATUS_MEMORY = 8,
	EXANEST_STATUS_LINK_TIMEOUT = 9,
	EXANEST_STATUS_ABORTED = 10,
};

struct exanest_engine_completion {
	__le64 tag;
	__le64 value;
	__le64 address;
	__le32 status; /* enum exanest_engine_status */
	__le32 side;   /* enum exanest_side (uapi/exanest.h) */
};

#define EXANEST_ENGINE_FAULT_WRITE (1u << 0) /* of exanest_engine_fault.flags */
#define EXANEST_ENGINE_FAULT_REMOTE (1u << 1)
#define EXANEST_ENGINE_FAULT_ATOMIC (1u << 2)

struct exanest_engine_fault {
	__le64 fault;
	__le64 address;
	__le32 length;
	__le32 flags;
	__le32 space;
	__le32 generation;
	__le32 node;
	__le32 ahead;
	__le64 tag;
	__le64 block;   /* address where the block begins */
	__le64 request; /* REMOTE: which block of that node it is; else 0 */
};

#endif
