/* SPDX-License-Identifier: BSD-3-Clause */
#include "atomic.h"

#include "base/check.h"
#include <libpf/pf.h>
#include "touch.h"

bool atomic_valid(unsigned op, unsigned width, uint64_t address)
{
	return op <= PF_ATOMIC_COMPARE_SWAP && (width == 4 || width == 8) &&
	       !(address & (width - 1));
}

#define EXECUTE(type)                                                                              \
	static type execute_##type(type *target, unsigned op, type operand, type compare)          \
	{                                                                                          \
		switch (op) {                                                                      \
		case PF_ATOMIC_ADD:                                                                \
			return __atomic_fetch_add(target, operand, __ATOMIC_SEQ_CST);              \
		case PF_ATOMIC_AND:                                                                \
			return __atomic_fetch_and(target, operand, __ATOMIC_SEQ_CST);              \
		case PF_ATOMIC_OR:                                                                 \
			return __atomic_fetch_or(target, operand, __ATOMIC_SEQ_CST);               \
		case PF_ATOMIC_XOR:                                                                \
			return __atomic_fetch_xor(target, operand, __ATOMIC_SEQ_CST);              \
		case PF_ATOMIC_SWAP:                                                               \
			return __atomic_exchange_n(target, operand, __ATOMIC_SEQ_CST);             \
		default:                                                                           \
			__atomic_compare_exchange_n(target, &compare, operand, false,              \
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);           \
			return compare;                                                            \
		}                                                                                  \
	}
EXECUTE(uint32_t)
EXECUTE(uint64_t)

int atomic_execute(const struct atomic_request *request, uint64_t *value)
{
	void *target = (void *)(uintptr_t)request->address;
	/*
	 * The kernel checks the address first: a bad address from a peer must not raise a signal.
	 */
	int status = touch_range(request->address, request->width, true, value);

	assert_that(atomic_valid(request->op, request->width, request->address));
	if (status != PF_OK)
		return status;
	if (request->width == 4)
		*value = execute_uint32_t(target, request->op, (uint32_t)request->operand,
					  (uint32_t)request->compare);
	else
		*value = execute_uint64_t(target, request->op, request->operand, request->compare);
	return PF_OK;
}
