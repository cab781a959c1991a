/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An address in a file, for two processes that did not start each other. The
 * key to the owner's memory is inside: only its user may read it.
 */
#ifndef TOOLS_ADDRESS_FILE_H
#define TOOLS_ADDRESS_FILE_H

#include <stddef.h>

/* Both return 0, or -1 after a message on standard error. */

/* Create the file, mode 0600; it must not exist. Whoever sees it sees it whole. */
int address_file_create(const char *name, const void *address, size_t length);

/* Read it, waiting some seconds for it to appear. *length: room, then the address's length. */
int address_file_read(const char *name, void *address, size_t *length);

#endif
