/* SPDX-License-Identifier: BSD-3-Clause */
#include "page.h"

#include <fcntl.h>
#include <stdlib.h>

uint64_t huge_page_size(const char *path)
{
	char text[32] = "", *end;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	uint64_t size;

	if (fd >= 0)
		close(fd);
	size = strtoull(text, &end, 10);
	if (length <= 0 || *end != '\n' || size <= page_size() || size & (size - 1))
		return HUGE_PAGE_DEFAULT;
	return size;
}
