/* SPDX-License-Identifier: BSD-3-Clause */
#include "file.h"

#include <unistd.h>

bool file_read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[bytes > 0 ? bytes : 0] = 0;
	return bytes > 0;
}
