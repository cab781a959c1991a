# SPDX-License-Identifier: BSD-3-Clause
# What run-mpi knows of ranks on several hosts; sourced by it, behind harness.sh:
# their network, whether it was as it should be, and what happens to it meanwhile.
# shellcheck shell=bash

host_script=$here/../../tests/hosts
# Where the programs are that are looked for among the processes; the caller sets it.
programs= silent=

# A host that says nothing where nobody listens, as one behind a firewall, or without power.
silence()
{
	"$host_script" exec "$1" nft 'table inet silence {
		chain output {
			type filter hook output priority 0;
			meta l4proto icmp drop
			icmpv6 type destination-unreachable drop
		}
	}' && silent=$1
}

speak()
{
	[[ -z $silent ]] || "$host_script" exec "$silent" nft delete table inet silence || return
	silent=
}

# on_hosts LIST [SETTING...]
on_hosts()
{
	mpirun=("$host_script" run --host "$1")
	shift
	speak || return
	"$host_script" set --loss 0 --duplicate 0 --reorder 0 --corrupt 0 --checksum off --wire off \
		--mtu 9000 --link up && { (($# == 0)) || "$host_script" set "$@"; }
}

# The hosts' own files, which nobody but a run makes.
leftovers_elsewhere()
{
	local host
	[[ -n $hosts ]] || return 0
	for host in h0 h1 h2 h3 front; do
		# shellcheck disable=SC2016 # the host's shell expands it
		"$host_script" exec "$host" sh -c 'find /dev/shm "$TMPDIR" -mindepth 1 ! -type d "$@"' \
			sh "$@" | sed "s/^/file on $host: /"
	done
}

# ---- whether what a variant is about has happened ----

# What the hosts' kernels have counted so far, for variants that no counter of "hosts status" tells of.
witness()
{
	local host program
	# shellcheck disable=SC2016 # awk expands it
	case $1 in
	ipv6) program='/^Udp6OutDatagrams/ { print $2 }' ;;
	# RcvbufErrors
	tiny) program='/^Udp: [0-9]/ { print $6 }' ;;
	*) echo 0 && return ;;
	esac
	for host in h0 h1; do
		"$host_script" exec "$host" awk "$program" /proc/net/snmp /proc/net/snmp6
	done | awk '{ sum += $1 } END { print sum + 0 }'
}

# packets KIND: of "hosts status", to all hosts
packets()
{
	"$host_script" status | awk -v kind="$1" '$1 == kind { sum += $4 } END { print sum + 0 }'
}

# shown VARIANT BEFORE: false if it has not been as its name says, with a reason
shown()
{
	local variant=$1 before=$2 kind
	case $variant in
	lossy*) set -- lost ;;
	duplicated | reordered) set -- "$variant" ;;
	corrupted | damaged) set -- corrupted ;;
	rough) set -- lost duplicated reordered corrupted ;;
	ipv6 | tiny)
		(($(witness "$variant") > before)) && return
		note "the hosts' kernels have counted no such packet"
		return 1
		;;
	*) return 0 ;;
	esac
	for kind; do
		(($(packets "$kind"))) && continue
		note "no packet was $kind"
		return 1
	done
}

# ---- what happens to a run meanwhile; each says when it has ----

# A rank's process, not what only has its mark in the environment.
find_rank()
{
	local process
	for process in /proc/[0-9]*; do
		grep -qsz "^EXANEST_MPI_RUN=$job\$" "$process/environ" || continue
		[[ $(readlink "$process/exe") == "$programs"/* ]] || continue
		echo "${process#/proc/}"
		return
	done
	return 1
}

# Until the job is there.
await_ranks()
{
	local tries
	for ((tries = 0; tries < 100; tries++)); do
		! find_rank >/dev/null || return 0
		pause 0.1
	done
	return 1
}

unplug()
{
	await_ranks || return
	pause 1
	"$host_script" set --host h1 --link down || return
	pause 20
	"$host_script" set --host h1 --link up || return
	note "happened: the link was down for 20 s"
}

stop_rank()
{
	local rank
	await_ranks || return
	pause 1
	# None that has ended meanwhile, whose number may be anybody's.
	rank=$(find_rank) && kill -STOP "$rank" || return
	pause 60
	kill -CONT "$rank"
	note "happened: process $rank was stopped for 60 s"
}

change_mtu()
{
	local mtu
	await_ranks || return
	while true; do
		for mtu in 1500 9000 1280 4000; do
			pause 0.3
			"$host_script" set --mtu "$mtu" || return
			note "happened: MTU $mtu"
		done
	done
}

# At the switch, so that the host itself does not know of it.
pull_cable()
{
	local file=/sys/class/net/eth1/statistics/tx_bytes before
	await_ranks || return
	before=$("$host_script" exec h0 cat "$file")
	pause 1.2
	(($("$host_script" exec h0 cat "$file") - before > 1000000)) || return
	"$host_script" exec front ip link set p1.1 down
	pause 2
	"$host_script" exec front ip link set p1.1 up
	note "happened: both cables were used, and one was out for 2 s"
}

# At the ends of the cables that the switch holds. For some the sockets may have no room.
assail()
{
	local refused taken
	await_ranks || return
	pause 0.5
	"$host_script" exec front "$build/libpf/tests/pf_assail" --packets 50000 --rate 50000 \
		${seed:+--seed "$seed"} p0 p1 || return
	"$host_script" exec h0 "$build/libpf/tools/pf_info" --job | grep -q '^ *rank .* refused ' ||
		return
	read -r refused taken < <("$here/../../tests/refused" "$build")
	note "$refused of 50000 packets were refused, $taken taken"
	((refused > 25000 && taken == 0)) || return
	note "happened: 50000 packets that were to be refused"
}

# ---- a rank dies, and mpirun kills nobody ----

# run_survivors SECONDS NAME: all ranks have to end themselves within that time from the death on.
# mpirun (Open MPI 4.1) itself stays when ranks of several hosts have ended with an error.
run_survivors()
{
	local seconds=$(($1 * patience)) name=$2 began='' start=${EPOCHREALTIME/[.,]/} now verdict=ok
	elapsed=0
	timeout -k 5 $((seconds + 60 * patience)) "${command[@]}" >"$work/out" 2>"$work/err" </dev/null &
	while [[ -n $(jobs -pr) ]]; do
		pause 0.1
		now=${EPOCHREALTIME/[.,]/}
		if [[ -z $began ]]; then
			! grep -q 'kills itself' "$work/err" || began=$now
			continue
		fi
		find_rank >/dev/null || break
		((now - began < seconds * 1000000)) || break
	done
	elapsed=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
	if [[ -z $began ]]; then
		note "no rank got as far as killing itself"
		verdict="not ok"
	elif find_rank >/dev/null; then
		note "a rank is still there $seconds s after the death of another"
		verdict="not ok"
	else
		note "after $(((now - began) / 1000)) ms no rank was there any more"
	fi
	told_of_death || verdict="not ok"
	[[ $verdict == ok ]] || show_stderr
	result "$verdict" "$name: the others are told in time, and end"
	# Nor has it a chance to tidy up then.
	end_background
	remaining_processes | sed 's/^process \([0-9]*\):.*/\1/' | xargs -r kill -9
	leftovers_elsewhere -delete
}
