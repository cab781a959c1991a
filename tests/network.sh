# SPDX-License-Identifier: BSD-3-Clause
# The network of tests/hosts, which sources this file: links, rates and nftables
# rules, made from the settings in $state/settings/HOST.
# shellcheck shell=bash disable=SC2154

# setting HOST NAME
setting()
{
	cat "$state/settings/$1/$2"
}

# millionths PERCENT: for numgen of nft
millionths()
{
	awk -v percent="$1" 'BEGIN { printf "%d\n", percent * 10000 + 0.5 }'
}

# detour HOST CABLE: the ends of a cable from the switch to itself, which delays packets
detour()
{
	local port
	port=$(port_of "$1" "$2")
	printf '%s\n' "${port/p/out}" "${port/p/back}"
}

# port_rules HOST CABLE: rules that a bridge has no hook for, at the switch's end of the cable
port_rules()
{
	local host=$1 cable=$2 port part ends
	port=$(port_of "$host" "$cable")
	mapfile -t ends < <(detour "$host" "$cable")
	echo "	chain to_${host}_$cable {"
	echo "		type filter hook egress device \"$port\" priority 0;"
	# Packets in a queue of the machine are charged to their socket, and TCP then sends less;
	# packets in a switch are not. So a copy, which no socket owns, goes into the queue.
	[[ $(setting "$host" rate) == 0 ]] || echo "		meta mark 0 ether type { ip, ip6 }" \
		"meta mark set 2 dup to \"$port\" drop"
	part=$(millionths "$(setting "$host" reorder)")
	# The mark, because the packet comes back to this rule. At the host the mark is gone.
	((part == 0)) || echo "		meta mark != 1 ether type { ip, ip6 }" \
		"numgen random mod 1000000 < $part counter meta mark set 1" \
		"fwd to \"${ends[0]}\" comment \"reordered to $host\""
	part=$(millionths "$(setting "$host" duplicate)")
	# The copy comes back to this rule and may be copied again.
	((part == 0)) || echo "		ether type { ip, ip6 }" \
		"numgen random mod 1000000 < $part counter dup to \"$port\" comment \"duplicated to $host\""
	part=$(millionths "$(setting "$host" corrupt)")
	# At the start of the payload, or further back if it is long enough.
	((part == 0)) || echo "		ether type { ip, ip6 } meta l4proto udp" \
		"numgen random mod 1000000 < $part counter jump corrupt comment \"corrupted to $host\""
	echo "	}"
	echo "	chain from_${host}_$cable {"
	echo "		type filter hook ingress device \"${ends[1]}\" priority 0;"
	echo "		fwd to \"$port\""
	echo "	}"
}

# any_set NAME...: true if a host has one of these percentages
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

# True if a host has settings that need port_rules.
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
	# Offsets from the UDP header. One byte only: a second change could undo the first.
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

# The cables that --reorder needs.
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

# limit HOST INTERFACE [PREFIX...]: set its rate, with a command prefixed by PREFIX
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
	# The sender cuts packets, so --wire and the percentages of one host concern all.
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
			# Merge received packets, as drivers of network adapters do.
			command -v ethtool >/dev/null || continue
			"${inside[@]}" ethtool --features "eth$cable" gro "$wire" >/dev/null
			# "tx on" promises that the adapter computes checksums; veth does not.
			checksum=on
			[[ $(setting "$host" checksum) == off ]] || checksum=off
			"${inside[@]}" ethtool --features "eth$cable" tx "$checksum" >/dev/null
		done
	done
	rules | nft -f -
	make_detours
	port_tables >"$state/rules"
	nft -f "$state/rules" || fail "this kernel or nft does not support --rate, --reorder, --duplicate or --corrupt"
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
	# Each cable has a counter.
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
