/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of device.c and its component (accelerator.c). */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdint.h>

/* Where programs map the memory of the device. */
#define DEVICE_BASE ((uintptr_t)0x600000000000)
#define DEVICE_SIZE ((uintptr_t)64 << 20)
/* The descriptor of its file. */
#define DEVICE_VARIABLE "EXANEST_TEST_DEVICE"

#endif
