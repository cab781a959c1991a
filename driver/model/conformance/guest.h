/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A node with an engine, from the side of its driver: memory, page tables,
 * queues. What cannot fail in a test ends it, if it does.
 */
#ifndef CONFORMANCE_GUEST_H
#define CONFORMANCE_GUEST_H

#include <stdbool.h>

#include "../../registers.h"
#include "adapter.h"

#define GUEST_RAM (8u << 20)
#define GUEST_PACKET 4192u

struct guest {
	const struct adapter *adapter;
	void *engine;
	uint8_t *ram;
	size_t next; /* where unused memory begins */
	uint64_t now;
	struct exanest_engine_indices *indices;
	struct exanest_engine_command *commands;
	struct exanest_engine_submission *submissions;
	struct exanest_engine_completion *completions;
	struct exanest_engine_fault *faults;
	uint32_t command_entries, submission_entries, completion_entries, fault_entries;
	uint32_t command_producer, submission_producer, completion_consumer, fault_consumer;
};

/* A space and its tables. */
struct tables {
	uint32_t space, generation;
	unsigned int page_shift, bits;
	uint64_t key[2];
	uint64_t root; /* physical */
};

/* Power on. Registers have values that are allowed, but the engine is DISABLED. */
void guest_open(struct guest *guest, const struct adapter *adapter, uint32_t node);
void guest_close(struct guest *guest);
/* Enable and expect READY; disable and expect DISABLED. */
void guest_enable(struct guest *guest);
void guest_disable(struct guest *guest);

uint32_t guest_read32(struct guest *guest, unsigned int offset);
uint64_t guest_counter(struct guest *guest, enum exanest_engine_counter counter);
void guest_write32(struct guest *guest, unsigned int offset, uint32_t value);
void guest_write64(struct guest *guest, unsigned int offset, uint64_t value);
void guest_doorbell(struct guest *guest, unsigned int number);

/* Zeroed physical memory. */
uint64_t guest_allocate(struct guest *guest, size_t size, size_t align);
void *guest_memory(struct guest *guest, uint64_t physical);

/* Execute a command that is complete but for its status, and return that. */
uint32_t guest_execute(struct guest *guest, const struct exanest_engine_command *command);
uint32_t guest_command(struct guest *guest, uint32_t operation, uint32_t space, uint64_t first,
		       uint64_t second);
/* RESUME without a doorbell. */
void guest_put_resume(struct guest *guest, uint64_t fault);
/* Make tables with an empty root, and attach the space. */
void guest_attach(struct guest *guest, struct tables *tables, uint32_t space, uint32_t generation,
		  unsigned int page_shift, unsigned int bits);
uint32_t guest_attach_tables(struct guest *guest, const struct tables *tables);
/* The entry of an address at a level; tables above it are made. */
uint64_t *guest_entry(struct guest *guest, const struct tables *tables, uint64_t address,
		      unsigned int level);
/* Map length bytes from address on to new pages, or to physical memory from there on. */
uint64_t guest_map(struct guest *guest, const struct tables *tables, uint64_t address,
		   uint64_t length, bool write);
void guest_map_to(struct guest *guest, const struct tables *tables, uint64_t address,
		  uint64_t length, uint64_t physical, uint64_t flags);
/* Make the pages absent and invalidate them. Returns the flags of the entries, or-ed. */
uint64_t guest_unmap(struct guest *guest, const struct tables *tables, uint64_t address,
		     uint64_t length);
/* What is mapped at an address. */
void *guest_at(struct guest *guest, const struct tables *tables, uint64_t address);

/* Submit without a doorbell; with it. */
void guest_put_submission(struct guest *guest, const struct exanest_engine_submission *submission);
void guest_submit(struct guest *guest, const struct exanest_engine_submission *submission);
/* A put, get or atomic between two spaces; tag as given. */
struct exanest_engine_submission guest_transfer(uint8_t operation, uint64_t tag,
						const struct tables *local_tables, uint64_t local,
						uint32_t node, const struct tables *remote_tables,
						uint64_t remote, uint32_t length);

/* The next entry; false: there is none. */
bool guest_completion(struct guest *guest, struct exanest_engine_completion *completion);
bool guest_fault(struct guest *guest, struct exanest_engine_fault *fault);
/* Expect that there is one. */
struct exanest_engine_completion guest_expect_completion(struct guest *guest, uint64_t tag,
							 uint32_t status);
struct exanest_engine_fault guest_expect_fault(struct guest *guest, uint64_t address);

/* The next packet; 0: none. */
size_t guest_transmit(struct guest *guest, uint8_t packet[GUEST_PACKET]);
void guest_receive(struct guest *guest, const uint8_t *packet, size_t length);
/* Let time pass. */
uint64_t guest_advance(struct guest *guest, uint64_t now);
/* Handle transfers of the node to itself until nothing is left to do; expects no packet. */
void guest_settle(struct guest *guest);

#endif
