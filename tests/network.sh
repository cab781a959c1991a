# SPDX-License-Identifier: BSD-3-Clause
# The network of tests/hosts, which sources this: links, rates, and rules of
# nftables for what happens to packets, all from the files of the settings.
# shellcheck shell=bash

# Of one host, from $state/settings/HOST. Files there are written by "set" only.
setting()
{
	cat "$state/settings/$1/$2"
}

# Millionths, for nft's numgen: PERCENT has been checked.
millionths()
{
	awk -v percent="$1" 'BEGIN { printf "%d\n", percent * 10000 + 0.5 }'
}

# detour HOST CABLE: the ends of a cable from the switch to itself
detour()
{
	local port
	port=$(port_of "$1" "$2")
	printf '%s\n' "${port/p/out}" "${port/p/back}"
}

# Of what a bridge cannot do, for the end at the switch of a host's cable.
port_rules()
{
	local host=$1 cable=$2 port part ends
	port=$(port_of "$host" "$cable")
	mapfile -t ends < <(detour "$host" "$cable")
	echo "	chain to_${host}_$cable {"
	echo "		type filter hook egress device \"$port\" priority 0;"
	# A socket knows what it has in queues of its own machine, and TCP then sends less. Of
	# what waits in a switch it knows nothing: the queue gets a copy, which is nobody's.
	[[ $(setting "$host" rate) == 0 ]] || echo "		meta mark 0 ether type { ip, ip6 }" \
		"meta mark set 2 dup to \"$port\" drop"
	part=$(millionths "$(setting "$host" reorder)")
	# Once: it comes back to this rule. The mark is gone when the packet is at the host.
	((part == 0)) || echo "		meta mark != 1 ether type { ip, ip6 }" \
		"numgen random mod 1000000 < $part counter meta mark set 1" \
		"fwd to \"${ends[0]}\" comment \"reordered to $host\""
	part=$(millionths "$(setting "$host" duplicate)")
	# The copy comes by here, too, and is one of those that may be copied.
	((part == 0)) || echo "		ether type { ip, ip6 }" \
		"numgen random mod 1000000 < $part counter dup to \"$port\" comment \"duplicated to $host\""
	part=$(millionths "$(setting "$host" corrupt)")
	# In front of the payload, or further behind if it is long enough.
	((part == 0)) || echo "		ether type { ip, ip6 } meta l4proto udp" \
		"numgen random mod 1000000 < $part counter jump corrupt comment \"corrupted to $host\""
	echo "	}"
	echo "	chain from_${host}_$cable {"
	echo "		type filter hook ingress device \"${ends[1]}\" priority 0;"
	echo "		fwd to \"$port\""
	echo "	}"
}

# Whether a host has one of these settings.
any_set()
{
	local host setting
	for host in "${hosts[@]}"; do
		for setting in "$@"; do
			[[ $(millionths "$(setting "$host" "$setting")") == 0 ]] || return 0
		done
	done
	return 1
}

# Whether there is something that a bridge cannot do.
any_port_rule()
{
	local host
	! any_set reorder duplicate corrupt || return 0
	for host in "${hosts[@]}"; do
		[[ $(setting "$host" rate) == 0 ]] || return 0
	done
	return 1
}

port_tables()
{
	local host cable offset
	if [[ -e $state/tables ]]; then
		echo "table netdev exanest"
		echo "delete table netdev exanest"
		rm "$state/tables"
	fi
	any_port_rule || return 0
	touch "$state/tables"
	echo "table netdev exanest {"
	echo "	chain corrupt {"
	# Bits from the UDP header on: a byte more than once would be as before.
	for offset in 8 20 60 150 1000; do
		echo "		udp length > $((8 + offset)) numgen random mod 5 == 0" \
			"@th,$(((8 + offset) * 8)),8 set @th,$(((8 + offset) * 8)),8 ^ 0x24 return"
	done
	echo "		@th,64,8 set @th,64,8 ^ 0x24"
	echo "	}"
	for host in "${hosts[@]}"; do
		for ((cable = 0; cable < $(cables); cable++)); do
			port_rules "$host" "$cable"
		done
	done
	echo "}"
}

# Those that "reorder" needs.
make_detours()
{
	local host cable ends end setting
	any_port_rule || return 0
	for host in "${hosts[@]}"; do
		for ((cable = 0; cable < $(cables); cable++)); do
			mapfile -t ends < <(detour "$host" "$cable")
			[[ -e /proc/sys/net/ipv4/conf/${ends[0]} ]] ||
				ip link add "${ends[0]}" type veth peer name "${ends[1]}"
			for end in "${ends[@]}"; do
				setting=/proc/sys/net/ipv6/conf/$end/disable_ipv6
				[[ ! -w $setting ]] || echo 1 >"$setting"
				ip link set "$end" mtu "$(setting "$host" mtu)" up
			done
		done
	done
}

rules()
{
	local host port part cable
	echo "table bridge exanest"
	echo "delete table bridge exanest"
	echo "table bridge exanest {"
	echo "	chain forward {"
	echo "		type filter hook forward priority 0;"
	for host in "${hosts[@]}"; do
		port="{ $(for ((cable = 0; cable < $(cables); cable++)); do
			echo "$(port_of "$host" "$cable"),"
		done) }"
		part=$(millionths "$(setting "$host" loss)")
		((part == 0)) || echo "		oifname $port ether type { ip, ip6 }" \
			"numgen random mod 1000000 < $part counter drop comment \"lost to $host\""
		part=$(millionths "$(setting "$host" mark)")
		((part == 0)) && continue
		echo "		oifname $port ip ecn { ect0, ect1 }" \
			"numgen random mod 1000000 < $part counter ip ecn set ce comment \"marked to $host\""
		echo "		oifname $port ip6 ecn { ect0, ect1 }" \
			"numgen random mod 1000000 < $part counter ip6 ecn set ce comment \"marked to $host\""
	done
	echo "	}"
	echo "}"
}

# limit HOST INTERFACE [COMMAND IN FRONT...]
limit()
{
	local rate queue interface=$2
	rate=$(setting "$1" rate)
	queue=$(setting "$1" queue)
	shift 2
	if [[ $rate == 0 ]]; then
		"$@" tc qdisc delete dev "$interface" root 2>/dev/null || :
	else
		"$@" tc qdisc replace dev "$interface" root tbf rate "$rate" burst 128kb \
			latency "$queue"
	fi
}

apply()
{
	local host pid port wire segments cable checksum
	mapfile -t hosts < <(cd "$state/hosts" && printf '%s\n' h* | sort -V)
	for host in "${hosts[@]}"; do
		read -r pid <"$state/hosts/$host"
		inside=(nsenter --target "$pid" --net)
		for ((cable = 0; cable < $(cables); cable++)); do
			port=$(port_of "$host" "$cable")
			"${inside[@]}" ip link set "eth$cable" mtu "$(setting "$host" mtu)"
			ip link set "$port" mtu "$(setting "$host" mtu)"
			limit "$host" "$port"
			limit "$host" "eth$cable" "${inside[@]}"
			ip link set "$port" "$(setting "$host" link)"
		done
	done
	# A packet that is lost on its way to one host was cut by another.
	wire=off segments=65535
	for host in "${hosts[@]}"; do
		[[ $(setting "$host" wire) == off ]] || wire=on
	done
	! any_set "${percentages[@]}" || wire=on
	[[ $wire == off ]] || segments=1
	for host in "${hosts[@]}"; do
		read -r pid <"$state/hosts/$host"
		inside=(nsenter --target "$pid" --net)
		for ((cable = 0; cable < $(cables); cable++)); do
			"${inside[@]}" ip link set "eth$cable" gso_max_segs "$segments"
			# As a network card's driver does; without ethtool each packet is received on its own.
			command -v ethtool >/dev/null || continue
			"${inside[@]}" ethtool --features "eth$cable" gro "$wire" >/dev/null
			# To the kernel this card computes them itself, which it does not.
			checksum=on
			[[ $(setting "$host" checksum) == off ]] || checksum=off
			"${inside[@]}" ethtool --features "eth$cable" tx "$checksum" >/dev/null
		done
	done
	rules | nft -f -
	make_detours
	port_tables >"$state/rules"
	nft -f "$state/rules" || fail "--rate, --reorder, --duplicate and --corrupt are beyond this kernel or nft"
}

lab_status()
{
	local host
	mapfile -t hosts < <(cd "$state/hosts" && printf '%s\n' h* | sort -V)
	for host in "${hosts[@]}"; do
		printf '%s' "$host"
		for setting in "${settings[@]}"; do
			printf '  %s %s' "$setting" "$(setting "$host" "$setting")"
		done
		echo
	done
	# There is a counter for each cable.
	nft list ruleset | sed -n 's/.*counter packets \([0-9]*\) bytes.*comment "\([^"]*\)".*/\1 \2/p' |
		awk '{
			packets = $1
			sub(/^[0-9]* /, "")
			if (!($0 in sum))
				order[++count] = $0
			sum[$0] += packets
		}
		END {
			for (i = 1; i <= count; i++)
				print order[i] ": " sum[order[i]] " packets"
		}'
}
