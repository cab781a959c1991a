# SPDX-License-Identifier: BSD-3-Clause
# What programs that have ended left behind, for the scripts that source this file.
# shellcheck shell=bash

# shared_memory: this user's files in /dev/shm
shared_memory()
{
	find /dev/shm -mindepth 1 -user "$(id -u)" 2>/dev/null | sort
}

# unused_shared_memory LIST: files that are not in LIST, a file that shared_memory wrote, and that no
# process uses: others may run
unused_shared_memory()
{
	local file
	shared_memory | comm -13 "$1" - | while read -r file; do
		grep -qsF -- "$file" /proc/[0-9]*/maps && continue
		find /proc/[0-9]*/fd -lname "$file" -print 2>/dev/null | grep . >/dev/null && continue
		[[ ! -e $file ]] || echo "file $file"
	done
}

# marked_processes NAME=VALUE: those with this in their environment, "process PID: COMMAND". A single
# grep, because this runs after each job.
marked_processes()
{
	local file process
	grep -lszFx "$1" /proc/[0-9]*/environ | while read -r file; do
		process=${file%/environ}
		echo "process ${process#/proc/}: $(tr '\0' ' ' 2>/dev/null <"$process/cmdline")"
	done
}
