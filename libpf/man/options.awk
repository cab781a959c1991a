# SPDX-License-Identifier: BSD-3-Clause
# Make a manual page from its template and from the output of pf_info --options:
#	pf_info --options | awk -f options.awk - libpf.7.in
# An option there is three lines: name, default, origin; help; variable, allowed values.
# They replace the line @OPTIONS@ of the template. Values that have names are shown
# with their constants in pf.h.

function fail(text)
{
	print "options.awk: " text >"/dev/stderr"
	failed = 1
	exit 1
}

function roff(text)
{
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return (text ~ /^[.']/ ? "\\&" : "") text
}

# "auto, host or device", with the constant behind each
function values(list,    count, value, i, text, constant)
{
	count = split(list, value, /, | or /)
	for (i = 1; i <= count; i++) {
		constant = toupper("pf_" name "_" value[i])
		gsub(/-/, "_", constant)
		text = text (i == 1 ? "" : i < count ? ", " : " or ") \
			roff(value[i]) " (" constant ")"
	}
	return text
}

FNR == 1 {
	file++
}
file == 1 && /^  [a-z]/ {
	name = $1
	standard = $2
	# It depends on the processor: see EAGER_LIMIT_INTEL in base/options.c.
	if (name == "eager_limit")
		standard = "64K, or 32K on Intel\047s processors"
	help = ""
}
file == 1 && /^      / && !name {
	fail("there is no option for: " $0)
}
file == 1 && /^      / && !help {
	help = $0
	sub(/^ */, "", help)
	sub(/\.$/, "", help)
	next
}
file == 1 && /^      / {
	variable = $1
	sub(/,$/, "", variable)
	if (variable !~ /^LIBPF_[A-Z_]+$/)
		fail("this is not a variable: " $0)
	allowed = $0
	sub(/^ *[A-Z_]*(, )?/, "", allowed)
	if (allowed && allowed !~ /(^| )from /)
		allowed = values(allowed)
	list = list ".TP\n.BR " name " \" (\" " variable " )\n" roff(help) ".\n.br\nDefault: " \
		roff(standard) (allowed ? "; allowed: " allowed : "") ".\n"
	count++
	name = ""
}
file == 2 && /@OPTIONS@/ {
	if (name || !count)
		fail("pf_info does not print its options as expected")
	printf "%s", list
	next
}
file == 2
END {
	if (!failed && file < 2)
		fail("pf_info printed no options, or there is no template")
	exit failed
}
