#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What run-mpi and run-programs share; sourced by them. TAP results, mpirun over
# the component of a build tree, and what a job has left behind.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build         # where quickstart builds
btl=${EXANEST_TEST_BTL:-exanest,self}
asan='' sanitizer=''
# How much slower than usual this machine may be; the programs look at it, too.
patience=${EXANEST_TEST_PATIENCE:-1}

# For a caller to fill before mpirun_command: what comes before mpirun, on its
# command line, and before the program; and what is mpirun.
wrap=() options=() launcher=() mpirun=(mpirun)

fail()
{
	echo "Bail out! $1"
	exit 2
}

note()
{
	printf '# %s\n' "$*"
}

results=0
failed=0
done_runs=0
total_runs=0

result()
{
	results=$((results + 1))
	[[ $1 == ok ]] || failed=$((failed + 1))
	printf '%s %d - %s\n' "$1" "$results" "$2"
}

# The address sanitizer's library that a program or component is linked with, if any.
sanitizer_of()
{
	ldd "$(command -v "$1")" 2>/dev/null | awk '/asan/ { print $3 }'
}

# A signal may come while anything runs: nothing of it may stay.
end_background()
{
	local job
	for job in $(jobs -pr); do
		kill -TERM "$job" 2>/dev/null
		wait "$job" 2>/dev/null
	done
}

# As sleep, but no process, which would stay when the shell is killed.
pause()
{
	read -r -t "$1" <> <(:) || :
}

# use_build DIR: its component, and a folder for what the jobs write.
use_build()
{
	[[ -x $1/environment ]] || fail "$1 is not a configured tree: see --build in --help"
	build=$(cd "$1" && pwd)
	eval "$("$build/environment")"
	sanitizer=$(sanitizer_of "$build/ompi-btl-exanest/.libs/mca_btl_exanest.so")
	[[ -z $sanitizer ]] || asan=1
	export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS-}
	export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-}

	# Short, because sockets are made in it.
	work=$(mktemp -d "${TMPDIR:-/tmp}/mpi.XXXXXX") || exit 2
	trap 'end_background; rm -rf "$work"' EXIT
	trap 'exit 130' HUP INT PIPE TERM
	mark=$$-$RANDOM
}

need_component()
{
	[[ $btl == exanest* ]] || return 0
	LD_PRELOAD=$sanitizer ompi_info --param btl exanest | grep 'btl: exanest ' >/dev/null ||
		fail "ompi_info finds no btl exanest: is $build a built tree?"
}

# mpirun_command RANKS PROGRAM [ARGUMENT...]: sets command
mpirun_command()
{
	local ranks=$1
	shift
	command=(env "TMPDIR=$session" "EXANEST_MPI_RUN=$job" "${wrap[@]}" "${mpirun[@]}" -n "$ranks"
		--oversubscribe --mca pml ob1 --mca btl "$btl" "${options[@]}")
	# Open MPI's handler for crashes would hide the sanitizer's report.
	[[ -z $asan ]] || command+=(--mca opal_signal "")
	# An instrumented component in a program that is not wants its library first.
	if [[ -n $sanitizer && -z $(sanitizer_of "$1") ]]; then
		command+=(-x "LD_PRELOAD=$sanitizer")
	fi
	command+=("${launcher[@]}" "$@")
}

# Processes that bear this run's mark.
remaining_processes()
{
	local file process
	# One grep for all: this is called after every run, and a start of a program can be slow.
	grep -lszFx "EXANEST_MPI_RUN=$job" /proc/[0-9]*/environ | while read -r file; do
		process=${file%/environ}
		echo "process ${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)"
	done
}

shared_memory()
{
	find /dev/shm -mindepth 1 -user "$(id -u)" 2>/dev/null | sort
}

# Files of ours in /dev/shm that are new and that no process uses: others run MPI too.
unused_shared_memory()
{
	local file
	shared_memory | comm -13 "$work/shm" - | while read -r file; do
		grep -qsF -- "$file" /proc/[0-9]*/maps && continue
		find /proc/[0-9]*/fd -lname "$file" -print 2>/dev/null | grep . >/dev/null && continue
		[[ ! -e $file ]] || echo "file $file"
	done
}

# leftovers_elsewhere ACTION: of find(1); for who has ranks with files of their own to replace it
leftovers_elsewhere()
{
	:
}

leftovers()
{
	remaining_processes
	unused_shared_memory
	find "$session" -mindepth 1 ! -type d -printf 'file %p\n'
	leftovers_elsewhere -print
}

# Processes take a moment to die and their files to go.
check_leftovers()
{
	local tries=0 found
	while found=$(leftovers) && [[ -n $found ]]; do
		((++tries < 20)) || break
		sleep 0.1
	done
	[[ -n $found ]] || return 0
	printf '# left behind: %s\n' "$found"
	remaining_processes | sed 's/^process \([0-9]*\):.*/\1/' | xargs -r kill -9
	leftovers_elsewhere -delete
	return 1
}

# The job's stderr without what every failed job makes mpirun say.
show_stderr()
{
	grep -v '^-*$' "$work/err" | head -n 80 | sed 's/^#* */# /'
}

# launch SECONDS: runs command; sets status, and elapsed in milliseconds
# shellcheck disable=SC2034 # the caller reads them
launch()
{
	local seconds=$(($1 * patience)) began=${EPOCHREALTIME/[.,]/}
	status=0
	# In the background, or bash would not look at signals before it ends.
	timeout -k 5 "$seconds" "${command[@]}" >"$work/out" 2>"$work/err" </dev/null &
	wait $! || status=$?
	elapsed=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
}

# A job has its own session folder, and a mark in its processes' environment.
begin_job()
{
	job=$mark-$results
	session=$work/session
	mkdir -p "$session"
	shared_memory >"$work/shm"
}

end_job()
{
	if check_leftovers; then
		result ok "$1: nothing is left behind"
	else
		result "not ok" "$1: nothing is left behind"
	fi
	rm -rf "$session"
}

# progress NAME: a run has ended
progress()
{
	done_runs=$((done_runs + 1))
	printf '[%4d s] %3d of %d runs, %d failures: %s (%d.%03d s)\n' "$SECONDS" "$done_runs" \
		"$total_runs" "$failed" "$1" $((elapsed / 1000)) $((elapsed % 1000)) >&2
}
