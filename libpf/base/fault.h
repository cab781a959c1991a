/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fault was, by what had to be done about it. */
#ifndef PF_FAULT_H
#define PF_FAULT_H

enum fault_kind {
	FAULT_MINOR,      /* a page never touched: the kernel gives memory, without waiting */
	FAULT_MAJOR,      /* a page that has to be read: from swap, or of a file */
	FAULT_PAGER,      /* a page that a pager of the application supplies */
	FAULT_PERMISSION, /* no such mapping, or the access is not permitted: never resolved */
};

#endif
