/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the conformance suite needs of an implementation of engine.md. To test
 * another one, link suite.c and its companions with an object that defines
 * conformance_adapter.
 */
#ifndef CONFORMANCE_ADAPTER_H
#define CONFORMANCE_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

struct adapter {
	const char *name;
	/* Memory for a node: zeros, aligned to 64 KiB. */
	void *(*allocate)(size_t size);
	void (*release)(void *ram, size_t size);
	/*
	 * Power on. Physical addresses from 0 to size - 1 are ram; others are not memory.
	 * The engine is reached by this pointer from then on.
	 */
	void *(*create)(void *ram, size_t size);
	void (*destroy)(void *engine);
	/* BAR2. */
	uint32_t (*read32)(void *engine, unsigned int offset);
	uint64_t (*read64)(void *engine, unsigned int offset);
	void (*write32)(void *engine, unsigned int offset, uint32_t value);
	void (*write64)(void *engine, unsigned int offset, uint64_t value);
	/*
	 * A doorbell, by its number. When it returns, the engine has handled it, but for
	 * what waits for packets or time.
	 */
	void (*doorbell)(void *engine, unsigned int number, uint64_t now);
	/* A packet arrives. It was handled when this returns. */
	void (*receive)(void *engine, const void *packet, size_t length, uint64_t now);
	/* The next packet that the engine sends; returns its length, 0: none. */
	size_t (*transmit)(void *engine, void *packet, size_t size, uint64_t now);
	/* Time passes, ns. Returns when the engine has something to do by itself; UINT64_MAX: never. */
	uint64_t (*advance)(void *engine, uint64_t now);
	/* The vectors raised since the last call: bit n is vector n. */
	uint32_t (*interrupts)(void *engine);
};

extern const struct adapter conformance_adapter;

/* The one at the other end of the link. */
#ifdef CONFORMANCE_OTHER
extern const struct adapter CONFORMANCE_OTHER;
#else
#define CONFORMANCE_OTHER conformance_adapter
#endif

#endif
