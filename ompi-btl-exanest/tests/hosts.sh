# SPDX-License-Identifier: BSD-3-Clause
# For run-mpi, which sources this file after harness.sh: ranks on several hosts
# (tests/hosts), their network, and what happens to it during a run.
# shellcheck shell=bash

host_script=$here/../../tests/hosts
# Set by the caller: the folder of the test programs, and whether there are hosts.
programs='' hosts=''
silent=

# start_hosts: make four hosts with two cables; the reason for a failure is in $work/hosts
start_hosts()
{
	export EXANEST_HOSTS=mpi-$$
	# Processes on the hosts end with them.
	trap 'end_background; "$host_script" down; rm -rf "$work"' EXIT
	export OMPI_MCA_btl_exanest_if_include=10.77.0.0/24
	"$host_script" up 4 --cables 2 >"$work/hosts" 2>&1
}

# set_network SETTING...: all hosts get these settings of tests/hosts, and the defaults of others
set_network()
{
	[[ -z $silent ]] || "$host_script" exec "$silent" nft delete table inet silence || return
	silent=
	"$host_script" set --loss 0 --duplicate 0 --reorder 0 --corrupt 0 --checksum off --wire off \
		--mtu 9000 --link up && { (($# == 0)) || "$host_script" set "$@"; }
}

# silence HOST: it sends no ICMP, so a closed port of it looks like a host without power
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

# The files of the hosts' ranks.
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

# ---- whether the network did what the variant is for ----

# kernel_counter NAME: the sum of a counter of the kernel's on h0 and h1
kernel_counter()
{
	local host program
	# shellcheck disable=SC2016 # awk expands it
	case $1 in
	ipv6) program='/^Udp6OutDatagrams/ { print $2 }' ;;
	esac
	for host in h0 h1; do
		"$host_script" exec "$host" awk "$program" /proc/net/snmp /proc/net/snmp6
	done | awk '{ sum += $1 } END { print sum + 0 }'
}

# happened_to_packets SETTING...: true if every setting that changes packets has changed some
happened_to_packets()
{
	local kind
	while (($#)); do
		case $1 in
		--loss) kind=lost ;;
		--duplicate) kind=duplicated ;;
		--reorder) kind=reordered ;;
		--corrupt) kind=corrupted ;;
		*) kind= ;;
		esac
		shift 2
		[[ -n $kind ]] || continue
		"$host_script" status |
			awk -v kind="$kind" '$1 == kind { sum += $4 } END { exit !sum }' || {
			note "no packet was $kind"
			return 1
		}
	done
}

# ---- what happens during a run: the program goes on until it has ----

# happened TEXT
happened()
{
	note "happened: $1"
	rm -f "$work/awaited"
}

# A rank: not every process with the job's mark is one.
find_rank()
{
	local process
	for process in /proc/[0-9]*; do
		if grep -qsz "^EXANEST_MPI_RUN=$job\$" "$process/environ" &&
			[[ $(readlink "$process/exe") == "$programs"/* ]]; then
			echo "${process#/proc/}"
			return
		fi
	done
	return 1
}

# Until MPI_Init has returned on all ranks, after which the program says its seed; the limit is the program's.
await_program()
{
	until grep -qs '^# seed' "$work/out"; do
		pause 0.1
	done
}

unplug()
{
	pause 1
	"$host_script" set --host h1 --link down || return
	pause 20
	"$host_script" set --host h1 --link up || return
	happened "no link for 20 s"
}

stop_rank()
{
	local rank
	pause 1
	# Again: its number may be that of another process by now.
	rank=$(find_rank) && kill -STOP "$rank" || return
	pause 60
	kill -CONT "$rank"
	happened "process $rank was stopped for 60 s"
}

change_mtu()
{
	local mtu
	while true; do
		for mtu in 1500 9000 1280 4000; do
			pause 0.3
			"$host_script" set --mtu "$mtu" || return
			happened "MTU $mtu"
		done
	done
}

# sent INTERFACE: bytes that h0 sent over it
sent()
{
	"$host_script" exec h0 cat "/sys/class/net/$1/statistics/tx_bytes"
}

# await_sent INTERFACE BYTES: until h0 has sent 1 MB more than BYTES over it. The program's end is the
# limit: a machine that is busy with something else sends little.
await_sent()
{
	while (($(sent "$1") - $2 <= 1000000)); do
		pause 0.1
	done
}

# At the switch, so that the host's interface stays up.
pull_cable()
{
	local before
	before=$(sent eth1)
	pause 1.2
	await_sent eth1 "$before"
	"$host_script" exec front ip link set p1.1 down
	pause 2
	"$host_script" exec front ip link set p1.1 up
	happened "both cables were used, and one had no link for 2 s"
}

# In host h0, whose kernel then has no route for that interface.
shut_interface()
{
	local bytes0 bytes1
	bytes0=$(sent eth0) bytes1=$(sent eth1)
	pause 1.2
	await_sent eth0 "$bytes0"
	await_sent eth1 "$bytes1"
	"$host_script" exec h0 ip link set eth1 down
	bytes0=$(sent eth0)
	pause 1.5
	await_sent eth0 "$bytes0"
	"$host_script" exec h0 ip link set eth1 up
	bytes1=$(sent eth1)
	# A path that has no answer is probed once a second.
	await_sent eth1 "$bytes1"
	happened "both interfaces were used, then one, then both again"
}

# The sockets may have no room for some of the packets.
assail()
{
	local refused accepted
	pause 0.5
	"$host_script" exec front "$build/libpf/tests/pf_assail" --packets 50000 --rate 50000 \
		${seed:+--seed "$seed"} p0 p1 || return
	"$host_script" exec h0 "$build/libpf/tools/pf_info" --job | grep -q '^ *rank .* replayed ' ||
		return
	read -r refused accepted < <("$here/../../tests/refused" "$build")
	note "$refused of 50000 packets were refused, $accepted accepted"
	((refused > 25000 && accepted == 0)) || return
	happened "50000 packets that must be refused"
}

# ---- a rank dies, and mpirun does not kill the others ----

# run_survivors SECONDS NAME: all ranks must end within this time after the death. Open MPI 4.1's
# mpirun does not end by itself when ranks on several hosts ended with an error.
run_survivors()
{
	local seconds=$(($1 * patience)) name=$2 death='' start=${EPOCHREALTIME/[.,]/} now wrong='' tries
	timeout -k 5 $((seconds + 60 * patience)) "${command[@]}" >"$work/out" 2>"$work/err" </dev/null &
	while [[ -n $(jobs -pr) ]]; do
		pause 0.1
		now=${EPOCHREALTIME/[.,]/}
		if [[ -z $death ]]; then
			! grep -q 'kills itself' "$work/err" || death=$now
		elif ! find_rank >/dev/null || ((now - death >= seconds * 1000000)); then
			break
		fi
	done
	elapsed=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
	if [[ -z $death ]]; then
		wrong="no rank killed itself"
	elif find_rank >/dev/null; then
		wrong="a rank still runs $seconds s after the death of another"
	else
		note "no rank ran $(((now - death) / 1000)) ms after the death of one"
		# The message passes through the daemons of mpirun.
		wrong="no error message reports the death"
		for ((tries = 0; tries < 50 * patience && ${#wrong}; tries++)); do
			if death_is_reported; then wrong=""; else pause 0.1; fi
		done
	fi
	end_killed "$name: the survivors are told in time and end" "$wrong"
	# mpirun is killed, so it cannot tidy up.
	end_background
	kill_remaining
	leftovers_elsewhere -delete
}
