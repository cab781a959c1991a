/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels that the module is built for: from 6.1 on. */
#ifndef EXANEST_COMPAT_H
#define EXANEST_COMPAT_H

#include <linux/eventfd.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/version.h>

#if BITS_PER_LONG < 64
#error "exanest needs a 64-bit kernel: all memory mapped, and 64-bit atomics"
#endif
#ifndef CONFIG_HMM_MIRROR
#error "exanest needs a kernel with CONFIG_HMM_MIRROR: translations come from hmm_range_fault"
#endif

static inline void exanest_eventfd_signal(struct eventfd_ctx *eventfd)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
	eventfd_signal(eventfd, 1);
#else
	eventfd_signal(eventfd);
#endif
}

static inline void exanest_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags |= flags;
#else
	vm_flags_set(vma, flags);
#endif
}

static inline void exanest_vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags &= ~flags;
#else
	vm_flags_clear(vma, flags);
#endif
}

/* What clear_flush_young, clear_young and test_young return: int, or bool in newer kernels. */
#define exanest_young typeof(((const struct mmu_notifier_ops *)NULL)->test_young(NULL, NULL, 0))

#ifndef VM_SHADOW_STACK /* before 6.6 */
#define VM_SHADOW_STACK VM_NONE
#endif

#endif
