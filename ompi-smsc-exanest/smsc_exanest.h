/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Component smsc/exanest: single copy below btl/sm, Open MPI's own transport of a host. Both processes
 * copy, each from an end of the range, and an absent page is resolved by its owner while the rest
 * moves.
 *
 * The component has a context of its own, which calls back only to complete copies. A copy waits
 * without a call of opal_progress: no code of Open MPI runs inside. In a job whose BTL is exanest the
 * component has nothing to copy and opens no context.
 */
#ifndef MCA_SMSC_EXANEST_H
#define MCA_SMSC_EXANEST_H

#include "opal_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "opal/mca/smsc/base/base.h"
#include "opal/mca/smsc/smsc.h"

#include <libpf/pf.h>

typedef struct mca_smsc_exanest_component {
	mca_smsc_component_t super;
	pf_context *context; /* NULL: not selected */
	uint64_t cookie;     /* read by peers: see mca_smsc_exanest_modex_t */
	/*
	 * Is progress called as often as a transport's? From the first shared copy of this process or
	 * a peer on; until then every eighth call of opal_progress calls it.
	 */
	_Atomic bool frequent;
} mca_smsc_exanest_component_t;

typedef struct mca_smsc_exanest_endpoint {
	mca_smsc_endpoint_t super;
	/*
	 * Opened by the first long copy, by the thread that sets asked: a peer takes 1 KiB. NULL: not
	 * yet, or libpf does not reach the process. Then copies are made alone.
	 */
	_Atomic(pf_peer *) peer;
	_Atomic bool asked;
	pid_t pid;
} mca_smsc_exanest_endpoint_t;

/*
 * Published by each process. A peer reads the cookie from the memory of the process before the first
 * copy: the kernel permits copies, and the number is not that of a process in another PID namespace.
 */
typedef struct mca_smsc_exanest_modex {
	int64_t pid;
	uint64_t cookie_address, cookie;
	unsigned char address[PF_ADDRESS_MAX]; /* of libpf */
} mca_smsc_exanest_modex_t;

OBJ_CLASS_DECLARATION(mca_smsc_exanest_endpoint_t);

extern mca_smsc_exanest_component_t mca_smsc_exanest_component;
extern mca_smsc_module_t mca_smsc_exanest_module;

/* Note a shared copy of this process or of a peer: from now on progress is called often. */
void mca_smsc_exanest_note_copy(void);

#endif
