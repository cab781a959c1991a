/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of page faults, by the way to resolve each. */
#ifndef PF_FAULT_H
#define PF_FAULT_H

#include <stdint.h>

enum fault_kind {
	FAULT_MINOR,      /* a page never touched: the kernel provides memory without waiting */
	FAULT_MAJOR,      /* a page to be read by the kernel from swap or from a file */
	FAULT_PAGER,      /* a page supplied by a pager of the program */
	FAULT_PERMISSION, /* no mapping, or an access not permitted: cannot be resolved */
	/*
	 * The access is permitted, but the kernel neither brings the page in nor copies the page
	 * for another process: a driver's mapping (VM_PFNMAP, VM_IO), memfd_secret(2). The
	 * owner's own system calls read and write the page.
	 */
	FAULT_HIDDEN,
	FAULT_KINDS
};

/* Convert the kind named by another process: a number without a kind counts as FAULT_PERMISSION. */
static inline enum fault_kind fault_kind_received(uint32_t number)
{
	return number < FAULT_KINDS ? (enum fault_kind)number : FAULT_PERMISSION;
}

#endif
