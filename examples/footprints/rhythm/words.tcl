# SPDX-License-Identifier: Apache-2.0 OR MIT
# 400,000 counted words, of which 20 change each millisecond.
for {set i 0} {$i < 400000} {incr i} {
	set words($i) "word $i [expr {$i * 7}]"
}
while 1 {
	for {set j 0} {$j < 20} {incr j} {
		append words([expr {int(rand() * 400000)}]) x
	}
	after 1
}
