/* SPDX-License-Identifier: GPL-2.0 */
/* A driver and a link that send nonsense to an engine, between things that make sense. */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Do what the bytes say. Ends the process if the engine breaks a promise of
 * engine.md: an index beyond its queue, an access to memory that neither queues
 * nor tables nor valid entries name.
 */
void hostile_run(const uint8_t *bytes, size_t length);

#endif
