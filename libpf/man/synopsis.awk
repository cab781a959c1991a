# SPDX-License-Identifier: BSD-3-Clause
# Make a manual page of section 3 from its template and from pf.h:
#	awk -f synopsis.awk pf.h pf_put.3.in
# A heading of pf.h, /* ---- pf_put(3): move bytes ---- */, names the page of the functions and
# of the types of callbacks below. They replace the line @SYNOPSIS@ of the template, with .SH
# NAME before; the text of the heading is the page's description in NAME. A line @STRUCT pf_options@
# becomes the structure of pf.h, without its comments.

function fail(text)
{
	print "synopsis.awk: " text >"/dev/stderr"
	failed = 1
	exit 1
}

# "int pf_flush(pf_context *context, pf_peer *peer)" in .nf, with lines of 79 characters
function declaration(prototype,    start, count, argument, i)
{
	match(prototype, /.*pf_[a-z_]+\)?\(/)
	start = substr(prototype, 1, RLENGTH)
	prototype = substr(prototype, RLENGTH + 1)
	sub(/\)$/, "", prototype)
	if (prototype == "void")
		return ".B \"" start "void);\"\n"
	indent = length(start)
	count = split(prototype, argument, /, /)
	text = line = ""
	width = 0
	for (i = 1; i <= count; i++) {
		match(argument[i], /[a-z_]+$/)
		add((i == 1 ? start : "") substr(argument[i], 1, RSTART - 1),
			substr(argument[i], RSTART), i == count)
	}
	return text line "\n"
}

# Lines end behind a comma or at the end of the declaration.
function add(bold, name, last,    more)
{
	more = length(bold name) + (last ? 2 : 1)
	if (line != "" && width + 1 + more > 79) {
		text = text line " ,\n"
		line = ""
	} else if (line != "") {
		bold = ", " bold
		more++
	}
	if (line == "") {
		width = 0
		if (text != "")
			bold = sprintf("%" indent "s", "") bold
		line = ".BI \"" bold "\" " name
		width = length(bold name) + 1
	} else {
		line = line " \"" bold "\" " name
		width += more
	}
	if (last)
		line = line " );"
}

FNR == 1 {
	file++
	page = FILENAME
	sub(/.*\//, "", page)
	sub(/\.3\.in$/, "", page)
}
file == 1 && /^\/\* ---- pf_[a-z_]+\(3\).* ---- \*\/$/ {
	match($0, /pf_[a-z_]+/)
	section = substr($0, RSTART, RLENGTH)
	if (match($0, /\(3\): .* ----/))
		title[section] = substr($0, RSTART + 5, RLENGTH - 10)
	next
}
file == 1 && /^typedef struct pf_[a-z_]+ \{$/ {
	structure = $3
}
file == 1 && structure != "" {
	gsub(/[ \t]*\/\*.*\*\//, "")
	if (/\/\*/)
		comment = 1
	if (!comment && !/^[ \t]*$/)
		structures[structure] = structures[structure] $0 "\n"
	if (/\*\//)
		comment = 0
	if (/^}/)
		structure = ""
	next
}
file == 1 && (/^typedef .*\(\*pf_/ || /^[a-z].*[ *]pf_[a-z_]+\(/) {
	declared = ""
}
file == 1 && (/^typedef .*\(\*pf_/ || /^[a-z].*[ *]pf_[a-z_]+\(/ || declared != "") {
	sub(/^[ \t]+/, "")
	declared = declared (declared == "" ? "" : " ") $0
	if (declared !~ /;$/)
		next
	sub(/;$/, "", declared)
	if (section == "")
		fail("there is no heading before: " declared)
	if (declared !~ /^typedef/) {
		match(declared, /pf_[a-z_]+\(/)
		name = substr(declared, RSTART, RLENGTH - 1)
		if (name != section)
			names[section] = names[section] ", " name
	}
	synopsis[section] = synopsis[section] declaration(declared)
	declared = ""
	next
}
file == 2 && /^@SYNOPSIS@$/ {
	if (!(page in synopsis) || title[page] == "")
		fail("pf.h has no heading with functions for " page)
	printf ".SH NAME\n%s%s \\- %s\n.SH SYNOPSIS\n.nf\n.B #include <libpf/pf.h>\n.PP\n%s.fi\n", page,
		names[page], title[page], synopsis[page]
	found = 1
	next
}
file == 2 && /^@STRUCT pf_[a-z_]+@$/ {
	sub(/@$/, "", $2)
	if (!($2 in structures))
		fail("pf.h has no structure " $2)
	printf "%s", structures[$2]
	next
}
file == 2
END {
	if (!failed && !found)
		fail("there is no template, or no line @SYNOPSIS@ in it")
	exit failed
}
