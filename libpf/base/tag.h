/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_TAG_H
#define PF_TAG_H

#include <stdint.h>

/*
 * Return the address without its tag. The processors of arm64 ignore the upper 8 bits of an
 * address, where some allocators and sanitizers keep a tag; bit 55 gives their meaning. Not all
 * system calls accept a tag, and pages are looked up by address: libpf removes the tag of every
 * address from the application.
 */
static inline uint64_t tag_remove(uint64_t address)
{
#ifdef __aarch64__
	return (uint64_t)((int64_t)(address << 8) >> 8);
#else
	return address;
#endif
}

static inline void *tag_remove_pointer(const void *pointer)
{
	return (void *)(uintptr_t)tag_remove((uint64_t)(uintptr_t)pointer);
}

#endif
