/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An engine that implements engine.md. It has no clock, no thread and no
 * socket: time, doorbells and packets are arguments, memory is an interface.
 */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include "memory.h"

#define ENGINE_PACKET_MAX 4192u

struct engine;

/*
 * registers: EXANEST_REGISTERS_SIZE bytes that the driver sees as BAR2; it may
 * change them at any time. NULL: no memory.
 */
struct engine *engine_create(const struct memory *memory, void *registers, uint32_t doorbell_base);
void engine_destroy(struct engine *engine);

/* now: ns; it never decreases. */
void engine_doorbell(struct engine *engine, unsigned int number, uint64_t now);
void engine_receive(struct engine *engine, const void *packet, size_t length, uint64_t now);

/* The next packet to send; returns its length, 0: none for now. *node: for whom. */
size_t engine_transmit(struct engine *engine, uint8_t packet[ENGINE_PACKET_MAX], uint32_t *node,
		       uint64_t now);
/* Would another call of engine_transmit do something? */
bool engine_busy(const struct engine *engine);

/* Handle what is due. Returns when to call it again, at the latest; UINT64_MAX: never. */
uint64_t engine_expire(struct engine *engine, uint64_t now);

/* The vectors raised since the last call: bit n is vector n. */
uint32_t engine_interrupts(struct engine *engine);

#endif
