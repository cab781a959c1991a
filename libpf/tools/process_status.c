/* SPDX-License-Identifier: BSD-3-Clause */
#include "process_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long process_status(pid_t pid, const char *field)
{
	size_t length = strlen(field);
	char line[256];
	long value = -1;
	FILE *file;

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	file = fopen(line, "re");
	while (file && value < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, length) && line[length] == ':')
			value = strtol(line + length + 1, NULL, 10);
	if (file)
		fclose(file);
	return value;
}
