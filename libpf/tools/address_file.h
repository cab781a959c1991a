/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's address in a file, for two processes of one user without a common parent. The address
 * holds the key to the owner's memory: only the owner's user may read the file.
 */
#ifndef TOOLS_ADDRESS_FILE_H
#define TOOLS_ADDRESS_FILE_H

#include <stddef.h>

#include <libpf/pf.h>

/* All functions return 0, or -1 with a message on standard error. */

/* Create the file with mode 0600, complete from the start. The file must not exist. */
int address_file_create(const char *name, const void *address, size_t length);

/* Read the file; wait some seconds for its creation. *length: size of address, then bytes read. */
int address_file_read(const char *name, void *address, size_t *length);

/* Join the protection domain of the secret in a file with access for the user alone. NULL: none. */
int secret_file_join(const char *name, pf_context *context);

#endif
