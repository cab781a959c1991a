/* SPDX-License-Identifier: BSD-3-Clause */
#include "page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

uint64_t huge_page_size(const char *path)
{
	char text[32], *end;
	uint64_t size;

	(void)file_read_text(path, text, sizeof(text));
	size = strtoull(text, &end, 10);
	if (end == text || *end != '\n' || size <= page_size() || size & (size - 1))
		return HUGE_PAGE_DEFAULT;
	return size;
}

void page_setting(const char *folder, uint64_t size, char *word, size_t room)
{
	char path[256], text[128];
	const char *start;

	if (size)
		snprintf(path, sizeof(path), "%s/hugepages-%" PRIu64 "kB/enabled", folder,
			 size >> 10);
	else
		snprintf(path, sizeof(path), "%s/enabled", folder);
	(void)file_read_text(path, text, sizeof(text));
	start = strchr(text, '[');
	snprintf(word, room, "%.*s", start ? (int)strcspn(start + 1, "]") : 0,
		 start ? start + 1 : "");
	if (size && !strcmp(word, "inherit"))
		page_setting(folder, 0, word, room);
}
