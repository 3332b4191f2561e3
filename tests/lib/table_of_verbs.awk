# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What every_verb.sh said on several kernels, a file each, as a table in Markdown. Fails if a verb counted wrong, or lacks
# what such a kernel has, or if a kernel said too little. may_lack (a regular expression): what else may be missing.
BEGIN { FS = "\t" }
function may(verb, kernel, release)
{
	split(cell["kernel", kernel], release, ".")
	release[1] = release[1] * 1000 + release[2]
	return may_lack && verb ~ may_lack ||
		verb ~ /tend/ && release[1] < 6001 || verb ~ /stops/ && release[1] < 5011
}
FNR == 1 { said[++kernels] = 0 }
kernels == 1 { verbs[++rows] = $1 }
{
	said[kernels]++
	cell[$1, kernels] = $2 == "works" ? $3 : $2
	if ($2 == "lacks" && !($3 in why))
		why[$3] = $1 " (" cell["kernel", kernels] ")"
	if ($2 == "wrong" || $2 == "lacks" && !may($1, kernels)) {
		print cell["kernel", kernels] ": " $0 >"/dev/stderr"
		wrong = 1
	}
}
END {
	for (row = 1; row <= rows; row++) {
		line = "| " verbs[row]
		for (kernel = 1; kernel <= kernels; kernel++)
			line = line " | " cell[verbs[row], kernel]
		print line " |"
		if (row > 1)
			continue
		line = "|"
		for (kernel = 0; kernel <= kernels; kernel++)
			line = line " --- |"
		print line
	}
	for (reason in why)
		print "\n" why[reason] ": " reason
	for (kernel = 1; kernel <= kernels; kernel++)
		wrong = wrong || said[kernel] < 18
	exit wrong || !kernels
}
