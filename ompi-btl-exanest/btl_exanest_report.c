/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports to the user: the first line on stderr at once, then the whole text through
 * opal_show_help, which shows a single copy for a job.
 *
 * The texts are in the code. Open MPI would read texts from a file: reading fails in a
 * process without free file descriptors, and Open MPI 6 only knows the files of its own
 * build. The help file has the topics alone.
 */
#include "btl_exanest.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "opal/mca/installdirs/installdirs.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#define HELP_FILE "help-mpi-btl-exanest.txt"

static char help_path[OPAL_PATH_MAX];

static bool file_is_readable(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/*
 * The help file is installed beside the component; with Open MPI's help files, if the
 * component is a part of Open MPI.
 */
void mca_btl_exanest_find_help(void)
{
	Dl_info self;
	char *slash;

	if (help_path[0])
		return;
	if (dladdr(&mca_btl_exanest_component, &self) && self.dli_fname) {
		snprintf(help_path, sizeof(help_path), "%s", self.dli_fname);
		slash = strrchr(help_path, '/');
		if (slash) {
			*slash = '\0';
			(void)opal_show_help_add_dir(help_path);
			snprintf(slash, sizeof(help_path) - (size_t)(slash - help_path),
				 "/" HELP_FILE);
			if (file_is_readable(help_path))
				return;
		}
	}
	snprintf(help_path, sizeof(help_path), "%s/" HELP_FILE, opal_install_dirs.opaldatadir);
}

void mca_btl_exanest_report(enum mca_btl_exanest_scope scope, const char *topic, const char *format,
			    ...)
{
	va_list args;
	char *text, *rest;
	int length;

	if (scope == MCA_BTL_EXANEST_HOST && opal_process_info.my_local_rank != 0)
		return;
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		return;
	rest = text + strcspn(text, "\n");
	opal_output(0, "btl:exanest: %.*s", (int)(rest - text), text);
	if (MCA_BTL_EXANEST_SHOW_HELP_READS_FILES && file_is_readable(help_path))
		opal_show_help(HELP_FILE, topic, true, text);
	else
		opal_output(0, "%s", rest + strspn(rest, "\n"));
	free(text);
}

struct mca_btl_exanest_name mca_btl_exanest_name(opal_process_name_t process)
{
	struct mca_btl_exanest_name name;

	if (process.jobid == OPAL_PROC_MY_NAME.jobid)
		snprintf(name.text, sizeof(name.text), "rank %u", (unsigned)process.vpid);
	else
		snprintf(name.text, sizeof(name.text), "process %s of another job",
			 OPAL_NAME_PRINT(process));
	return name;
}
