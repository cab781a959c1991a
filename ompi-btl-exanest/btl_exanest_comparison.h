/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration, as required by networks without page faults, for comparison. Builds of configure
 * --enable-comparison have the parameter btl_exanest_mode, by which buffers are prefaulted or
 * locked. In other builds the functions do nothing.
 */
#ifndef MCA_BTL_EXANEST_COMPARISON_H
#define MCA_BTL_EXANEST_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>

#include "opal/mca/btl/btl.h"

struct mca_btl_base_registration_handle_t {
	struct registration *registration; /* NULL: there is nothing to undo */
};

/* Register the parameter. Returns an error of Open MPI. */
int mca_btl_exanest_comparison_register(void);
/* With the parameters read, before the first buffer: prepare for the mode. */
void mca_btl_exanest_comparison_init(void);
/* After the last transfer: unlock all memory. Handles may still be freed afterwards. */
void mca_btl_exanest_comparison_finalize(void);
/* Does the mode ask for registration? */
bool mca_btl_exanest_compares(void);
/* Register a buffer. NULL: out of memory. */
mca_btl_base_registration_handle_t *mca_btl_exanest_handle_new(void *base, size_t size, bool write);
void mca_btl_exanest_handle_free(mca_btl_base_registration_handle_t *handle);

#endif
