# SPDX-License-Identifier: BSD-3-Clause
# For run-mpi and run-programs, which source this file: mpirun over the component
# of a build tree, and what a job leaves behind.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../../tests/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../../tests/leftovers.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build
btl=${EXANEST_TEST_BTL:-exanest,self}
asan='' sanitizer='' ompi_lines=''

# Set by the caller for mpirun_command: what precedes mpirun, the mpirun itself, its arguments, what
# precedes the program, and the value of btl, if it is not $btl.
wrap=() mpirun=(mpirun) options=() launcher=() over=''

# sanitizer_of PROGRAM-OR-LIBRARY: the address sanitizer's library that it is linked with
sanitizer_of()
{
	ldd "$(command -v "$1")" 2>/dev/null | awk '/asan/ { print $3 }'
}

# End all background jobs and wait for them.
end_background()
{
	local job
	for job in $(jobs -pr); do
		kill -TERM "$job" 2>/dev/null
		wait "$job" 2>/dev/null
	done
}

# pause SECONDS: sleep without a process, which would survive a killed shell
pause()
{
	read -r -t "$1" <> <(:) || :
}

# use_build DIR: test the component of this build tree; creates the folder $work
use_build()
{
	[[ -x $1/environment ]] || bail_out "$1 is not a configured tree: see --build in --help"
	build=$(cd "$1" && pwd)
	eval "$("$build/environment")"
	sanitizer=$(sanitizer_of "$build/ompi-btl-exanest/.libs/mca_btl_exanest.so")
	[[ -z $sanitizer ]] || asan=1
	export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS-}
	export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-}
	# Sockets are made in it, whose paths must be short.
	work=$(mktemp -d "${TMPDIR:-/tmp}/mpi.XXXXXX") || bail_out "cannot make a folder in ${TMPDIR:-/tmp}"
	trap 'end_background; rm -rf "$work"' EXIT
	trap 'exit 130' HUP INT PIPE TERM
}

# ompi_has PATTERN: of a line that 'ompi_info --parsable' prints, which takes seconds in an emulator
ompi_has()
{
	[[ -n $ompi_lines ]] || ompi_lines=$(LD_PRELOAD=$sanitizer ompi_info --parsable 2>/dev/null)
	grep -q "$1" <<<"$ompi_lines"
}

need_component()
{
	[[ $btl != exanest* ]] || ompi_has '^mca:btl:exanest:' ||
		bail_out "ompi_info finds no btl exanest: is $build a built tree?"
}

# mpirun_command RANKS PROGRAM [ARGUMENT...]: set command
mpirun_command()
{
	local ranks=$1
	shift
	command=(env "TMPDIR=$session" "EXANEST_MPI_RUN=$job" "${wrap[@]}" "${mpirun[@]}" -n "$ranks"
		--oversubscribe --mca pml ob1 --mca btl "${over:-$btl}" "${options[@]}")
	# Open MPI's signal handler would hide the sanitizer's report.
	[[ -z $asan ]] || command+=(--mca opal_signal "")
	# A sanitized component needs the sanitizer's library to be loaded first.
	[[ -z $sanitizer || -n $(sanitizer_of "$1") ]] || command+=(-x "LD_PRELOAD=$sanitizer")
	command+=("${launcher[@]}" "$@")
}

# launch SECONDS: run command; set status, and elapsed (ms)
# shellcheck disable=SC2034 # the caller reads them
launch()
{
	local start=${EPOCHREALTIME/[.,]/}
	status=0
	# bash handles no signal while a command runs in the foreground.
	timeout -k 5 $(($1 * patience)) "${command[@]}" >"$work/out" 2>"$work/err" </dev/null &
	wait $! || status=$?
	elapsed=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
}

# Print the job's standard error, without the rules that mpirun draws.
show_stderr()
{
	grep -av '^-*$' "$work/err" | head -n 80 | sed 's/^#* */# /'
}

# ---- what a job leaves behind ----

kill_remaining()
{
	marked_processes "EXANEST_MPI_RUN=$job" | sed 's/^process \([0-9]*\):.*/\1/' | xargs -r kill -9
}

# leftovers_elsewhere ACTION: files that ranks left in other places, with this action of find;
# replaced by hosts.sh
leftovers_elsewhere()
{
	:
}

leftovers()
{
	marked_processes "EXANEST_MPI_RUN=$job"
	unused_shared_memory "$work/shm"
	find "$session" -mindepth 1 ! -type d -printf 'file %p\n'
	leftovers_elsewhere -print
}

# begin_job: give the next job a session folder, and a mark in the environment of its processes
begin_job()
{
	job=$$-$RANDOM-$results
	session=$work/session
	mkdir -p "$session"
	shared_memory >"$work/shm"
}

# end_job NAME: test that the job left nothing behind; processes need a moment to end
end_job()
{
	local tries=0 found
	while found=$(leftovers) && [[ -n $found ]] && ((++tries < 20 * patience)); do
		sleep 0.1
	done
	if [[ -n $found ]]; then
		note "left behind: $found"
		kill_remaining
		leftovers_elsewhere -delete
	fi
	test -z "$found"
	result $? "$1: nothing is left behind"
	rm -rf "$session"
	note "$1: $((elapsed / 1000)).$(printf %03d $((elapsed % 1000))) s"
}
