/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_TESTS_INTERFACE_ADDRESS_H
#define PF_TESTS_INTERFACE_ADDRESS_H

#include <arpa/inet.h>

#include "net/interface.h"
#include "unit.h"

/* The address of a text like "10.0.0.1" or "fd00::1". */
static inline union interface_address interface_address(const char *text)
{
	union interface_address address = { .in6 = { 0 } };

	if (inet_pton(AF_INET, text, &address.in.sin_addr) == 1) {
		address.in.sin_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &address.in6.sin6_addr), 1);
		address.in6.sin6_family = AF_INET6;
	}
	return address;
}

#endif
