/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

void requests_destroy(struct requests *requests)
{
	free(requests->table);
	memset(requests, 0, sizeof(*requests));
}

static int requests_grow(struct requests *requests)
{
	uint32_t count = requests->count ? 2 * requests->count : 64;
	struct request *table = realloc(requests->table, count * sizeof(*table));
	uint32_t i;

	if (!table)
		return PF_ERR_MEMORY;
	for (i = requests->count; i < count; i++)
		table[i] = (struct request){ .generation = 1,
					     .next_free = i + 1 < count ? i + 1 : NONE };
	requests->free = requests->count;
	requests->table = table;
	requests->count = count;
	return PF_OK;
}

uint64_t request_open(struct requests *requests, enum request_kind kind, void *object,
		      const pf_peer *peer, unsigned *owed)
{
	struct request *request;
	uint32_t index;

	if ((!requests->count || requests->free == NONE) && requests_grow(requests) != PF_OK)
		return 0;
	index = requests->free;
	request = &requests->table[index];
	requests->free = request->next_free;
	request->object = object;
	request->peer = peer;
	request->kind = kind;
	request->owed = owed;
	if (owed)
		++*owed;
	return (uint64_t)request->generation << 32 | index;
}

static void requests_release(struct requests *requests, uint32_t index)
{
	struct request *request = &requests->table[index];

	if (request->owed)
		--*request->owed;
	request->kind = REQUEST_NONE;
	request->generation += 1 + (request->generation == UINT32_MAX); /* never 0 */
	request->next_free = requests->free;
	requests->free = index;
}

void *request_close(struct requests *requests, uint64_t token, enum request_kind kind,
		    const pf_peer *peer)
{
	uint32_t index = (uint32_t)token;
	struct request *request;

	if (index >= requests->count)
		return NULL;
	request = &requests->table[index];
	if (request->generation != token >> 32 || request->kind != kind || request->peer != peer)
		return NULL;
	requests_release(requests, index);
	return request->object;
}
