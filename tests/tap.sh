# SPDX-License-Identifier: BSD-3-Clause
# TAP for the tests in shell, which source this file. They report tests with
# result, skip, check or include, and end with finish.
# shellcheck shell=bash

set +e -uo pipefail
results=0 failed=0 included='' included_status=0
# By how much time limits are longer than on a usual machine; the programs read it, too.
# shellcheck disable=SC2034 # for the callers
patience=${EXANEST_TEST_PATIENCE:-1}

# result STATUS NAME: one test, which passed if the status is 0
result()
{
	results=$((results + 1))
	if (($1 == 0)); then
		printf 'ok %d - %s\n' "$results" "$2"
	else
		failed=$((failed + 1))
		printf 'not ok %d - %s\n' "$results" "$2"
	fi
}

skip()
{
	result 0 "$1 # SKIP $2"
}

note()
{
	printf '# %s\n' "$*"
}

bail_out()
{
	printf 'Bail out! %s\n' "$*"
	exit 2
}

# need_mounts NAME: skip and finish where nothing can be mounted in a namespace: in a chroot, whose root is no
# mount, and in containers that forbid it
need_mounts()
{
	local user=() said
	((EUID == 0)) || user=(--map-root-user)
	said=$(unshare "${user[@]}" --mount true 2>&1) && return
	skip "$1" "no namespace for mounts can be made, as in a chroot or a container ($said)"
	finish
}

# check NAME COMMAND...: one test; the command runs in a subshell, its output becomes comments
check()
{
	local name=$1
	shift
	"$@" 2>&1 </dev/null | sed -u 's/^#* */# /'
	result "${PIPESTATUS[0]}" "$name"
}

# include PREFIX COMMAND...: the tests of a command that prints TAP, with PREFIX before their names.
# A command that fails without a failed test, or runs fewer tests than it planned, is one failure.
# Accepts what cmocka 1.1.5 prints: a plan for each group, "not ok" for a skipped test. Sets
# included_status; while the command runs, its process is $included.
include()
{
	local prefix=$1 planned=0 before=$results failures=$failed line output wrong name
	shift
	# In the output, because "wait" sometimes does not know it: a defect of bash 5.2.
	exec {output}< <(("$@") 2>&1 </dev/null; printf '\n# exit status %d\n' "$?")
	included=$!
	while IFS= read -r line <&"$output"; do
		if [[ $line =~ ^[[:space:]]*1\.\.([0-9]+)(.*SKIP (.*))? ]]; then
			planned=$((planned + BASH_REMATCH[1]))
			if [[ -n ${BASH_REMATCH[2]} ]]; then
				skip "${prefix%: }" "${BASH_REMATCH[3]}"
				planned=$((planned + 1))
			fi
		elif [[ $line =~ ^[[:space:]]*(not )?ok($|[[:space:]]) ]]; then
			wrong=${#BASH_REMATCH[1]}
			name=${line#*ok}
			name=${name# }
			name=${name#"${name%%[^0-9]*}"}
			name=${name# }
			name=${name#- }
			if [[ $name == *"# SKIP"* ]]; then
				wrong=0
				[[ $name != "# SKIP "* ]] || name="${name#"# SKIP "} # SKIP"
			fi
			result "$wrong" "$prefix$name"
		elif [[ $line == "# exit status "* ]]; then
			included_status=${line##* }
		elif [[ -n $line && $line != "TAP version "* ]]; then
			printf '%s\n' "$line"
		fi
	done
	exec {output}<&-
	# shellcheck disable=SC2034 # for the traps of the caller
	included=
	((failed == failures)) || return 0
	if ((included_status)); then
		result 1 "${prefix}exit status $included_status"
	elif ((planned != results - before)) || ((planned == 0)); then
		result 1 "${prefix}$planned tests planned, $((results - before)) run"
	fi
}

# finish: print the plan and exit, with 1 if a test failed
finish()
{
	echo "1..$results"
	exit $((failed > 0))
}
