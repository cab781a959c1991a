# SPDX-License-Identifier: BSD-3-Clause
# Make a manual page from its template and from PF_STATISTICS in pf.h:
#	awk -f statistics.awk pf.h pf_stat.3.in
# The statistics replace the line @STATISTICS@ of the template.

FNR == 1 {
	file++
}
file == 1 && /^#define PF_STATISTICS\(/ {
	inside = 1
	next
}
file == 1 && inside && !/STATISTIC\(|^\t\t  "/ {
	inside = 0
}
# A row may take several lines, with a piece of its text in each.
file == 1 && inside {
	row = row $0
	sub(/[ \t]*\\$/, "", row)
	if (row !~ /\)$/)
		next
	match(row, /PF_STAT_[A-Z_]+/)
	constant = substr(row, RSTART, RLENGTH)
	sub(/^[^"]*"[^"]*",[ \t]*"/, "", row)
	sub(/"\)$/, "", row)
	gsub(/"[ \t]*"/, "", row)
	gsub(/-/, "\\-", row)
	list = list ".TP\n.B " constant "\n" row "\n"
	row = ""
	count++
}
file == 2 && /@STATISTICS@/ {
	printf "%s", list
	next
}
file == 2
END {
	if (!count || row || file != 2) {
		print "statistics.awk: there are no statistics in pf.h, or there is no template" >"/dev/stderr"
		exit 1
	}
}
